"""``overhead``: the estimator's own time and memory beside those of shapiq's OddSHAP."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from benchmarks.figures import scaling_figure
from benchmarks.games import Instance
from benchmarks.methods import METHODS
from benchmarks.report import provenance, recorded, table
from benchmarks.runner import run_counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["QUESTION", "add_options", "run"]

QUESTION = "How much time and memory does OddSHAP itself take, beside shapiq's OddSHAP?"
OURS, THEIRS = "oddshap", "shapiq-oddshap"
TARGETS = {
    (30, 1_000): 0.8,
    (60, 5_000): 0.6,
    (60, 20_000): 0.3,
    (101, 20_000): 0.3,
    (1500, 20_000): 0.25,
}
"""The largest ratio of seconds, ours over theirs, by players and budget."""
MEMORY_TARGETS = {(1500, 20_000): 1024.0, (60, 1_000_000): 3072.0}
"""The largest peak above the start, in MiB."""
SCALING_PLAYERS, SCALING_INTERACTIONS = 60, 1_000
SCALING_BUDGETS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
_QUICK_PLAYERS, _QUICK_BUDGET = 60, 30_000
_PROFILED = (60, 20_000)
_REPEATS = 5
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Measured:
    """A row of the results.

    Attributes:
        part: ``"ratio"`` or ``"scaling"``.
        n: Number of players.
        budget: The budget.
        method: Name of the method.
        seconds: Median seconds outside the game.
        fastest: The fastest run.
        slowest: The slowest run.
        peak_mib: Peak memory above the start, in a fresh process.
        evaluations: Evaluations that were made.
        stages: Seconds by stage of the median run as JSON.
    """

    part: str
    n: int
    budget: int
    method: str
    seconds: float
    fastest: float
    slowest: float
    peak_mib: float
    evaluations: int
    stages: str


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    command.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    command.add_argument("--quick", action="store_true", help="leave out what takes minutes")
    command.add_argument(
        "--output", type=Path, default=Path("build/benchmarks/overhead"), metavar="DIR",
        help="where results.csv, README.md and the figure go (default: %(default)s)",
    )  # fmt: skip


def run(args: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Measure, print, write, and check."""
    cells = [cell for cell in TARGETS if not args.quick or cell[0] <= _QUICK_PLAYERS]
    budgets = [b for b in SCALING_BUDGETS if not args.quick or b <= _QUICK_BUDGET]
    with recorded(args.output, arguments, resume=False):
        measured = tqdm(
            chain(_ratio_rows(cells), _scaling_rows(budgets)),
            total=2 * len(cells) + len(budgets),
            unit="row",
        )
        rows = pd.DataFrame([asdict(row) for row in measured])
    rows.to_csv(args.output / "results.csv", index=False)
    text, passed = _summary(rows, args.output)
    header = f"# overhead\n\n{QUESTION} Seconds are on one thread.\n\n"
    (args.output / "README.md").write_text(header + provenance(args.output) + "\n" + text)
    print(text)
    print(f"Written to {args.output}.")
    return os.EX_OK if passed or not args.check else 1


def sparse_game(n: int, seed: int = 0) -> Instance:
    """Return a game of main effects and 3n products of two to five players.

    Its values are made on the fly, as no table holds 2⁶⁰ of them; their time is taken out.
    """
    rng = np.random.default_rng(seed)
    main = rng.normal(size=n)
    products = [rng.choice(n, size=size, replace=False) for size in rng.integers(2, 6, size=3 * n)]
    weights = rng.normal(size=3 * n)

    def values(coalitions: np.ndarray) -> np.ndarray:
        columns = np.ascontiguousarray(coalitions.T)
        total = np.zeros(len(coalitions))
        for weight, players in zip(main, columns, strict=True):
            total += weight * players
        for weight, members in zip(weights, products, strict=True):
            total += weight * np.logical_and.reduce(columns[members])
        return total

    return Instance(n, values, np.zeros(n))


def _ratio_rows(cells: Sequence[tuple[int, int]]) -> Iterator[Measured]:
    """Yield ours and theirs per cell, runs taking turns so that both see the same machine."""
    for n, budget in cells:
        game = sparse_game(n)
        for method in (OURS, THEIRS):
            _once(method, game, min(budget, 1_000), {})
        runs: dict[str, list[Measured]] = {OURS: [], THEIRS: []}
        for _ in range(_REPEATS):
            for method, done in runs.items():
                done.append(_once(method, game, budget, {}))
        for method, done in runs.items():
            yield replace(_median(done), peak_mib=_in_fresh_process(method, n, budget, {}).peak_mib)


def _scaling_rows(budgets: Sequence[int]) -> Iterator[Measured]:
    """Yield our seconds and memory by budget, each in a fresh process."""
    options = {"max_interactions": SCALING_INTERACTIONS}
    for budget in budgets:
        row = _in_fresh_process(OURS, SCALING_PLAYERS, budget, options)
        yield replace(row, part="scaling")


def _once(method: str, instance: Instance, budget: int, options: dict[str, Any]) -> Measured:
    """Run a method once."""
    run = run_counted(METHODS[method].build, instance, budget, 0, **options)
    own = {stage: round(spent, 6) for stage, spent in run.stages.items() if stage != "evaluation"}
    return Measured(
        "ratio", instance.n, budget, method, run.seconds, run.seconds, run.seconds, 0.0,
        run.evaluations, json.dumps(own),
    )  # fmt: skip


def _median(runs: Sequence[Measured]) -> Measured:
    """Return the median run, with the extremes."""
    by_time = sorted(runs, key=lambda each: each.seconds)
    middle = by_time[len(by_time) // 2]
    return replace(middle, fastest=by_time[0].seconds, slowest=by_time[-1].seconds)


def _in_fresh_process(method: str, n: int, budget: int, options: dict[str, Any]) -> Measured:
    """Run once in a new process, whose peak memory is the run's own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_with_memory, method, n, budget, options).result()


def _with_memory(method: str, n: int, budget: int, options: dict[str, Any]) -> Measured:
    """Run once and add the peak of the resident memory above that of a tiny run."""
    game = sparse_game(n)
    _once(method, sparse_game(8), 100, {})  # imports are not the run's
    before = _peak_mib()
    row = _once(method, game, budget, options)
    return replace(row, peak_mib=_peak_mib() - before)


def _peak_mib() -> float:
    """Return this process's largest resident memory so far.

    ``ru_maxrss`` survives the start of a new program on Linux, ``VmHWM`` does not.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / _MIB if sys.platform == "darwin" else peak / 1024


def _summary(rows: pd.DataFrame, directory: Path) -> tuple[str, bool]:
    """Return the results as Markdown, and whether all targets are met."""
    ratio, ratios_met = _ratio_table(rows[rows["part"] == "ratio"])
    scaling = rows[rows["part"] == "scaling"]
    slope = scaling_slope(scaling)
    scaling_figure(scaling, slope, directory / "scaling.png")
    text = (
        "## Beside shapiq's OddSHAP\n\n"
        f"Median of {_REPEATS} runs of each, taking turns in one process; peak memory above the start, "
        "in a fresh process.\n\n"
        + ratio
        + f"\n## By budget\n\nn = {SCALING_PLAYERS}, at most {SCALING_INTERACTIONS} interactions; the "
        f"slope from 10,000 evaluations on is {slope:.2f}.\n\n![](scaling.png)\n\n"
        + _stage_table(scaling)
        + "\n## Profile\n\n"
        + _profile(rows)
    )
    return text, ratios_met and _memory_met(rows)


def _memory_met(rows: pd.DataFrame) -> bool:
    """Return whether our rows keep their memory targets, where they have one."""
    targets = [
        MEMORY_TARGETS.get(cell, np.inf) for cell in zip(rows["n"], rows["budget"], strict=True)
    ]
    return bool(((rows["peak_mib"] <= targets) | (rows["method"] != OURS)).all())


def _ratio_table(rows: pd.DataFrame) -> tuple[str, bool]:
    """Return the ratios with their targets, and whether all are met."""
    by_cell = rows.set_index(["n", "budget", "method"])
    lines, met = [], True
    for n, budget in dict.fromkeys(zip(rows["n"], rows["budget"], strict=True)):
        ours, theirs = by_cell.loc[(n, budget, OURS)], by_cell.loc[(n, budget, THEIRS)]
        ratio, target = ours["seconds"] / theirs["seconds"], TARGETS[n, budget]
        met &= bool(ratio <= target)
        lines.append(
            [
                f"{n}, {budget:,}", f"{ours['seconds']:.3f}", f"{theirs['seconds']:.3f}",
                f"{ratio:.2f}", f"{target:.2f}", "yes" if ratio <= target else "**no**",
                f"{ours['peak_mib']:.0f}", f"{theirs['peak_mib']:.0f}",
            ]
        )  # fmt: skip
    header = [
        "n, budget",
        "ours, s",
        "theirs, s",
        "ratio",
        "target",
        "met",
        "ours, MiB",
        "theirs, MiB",
    ]
    return table(header, lines), met


def scaling_slope(rows: pd.DataFrame) -> float:
    """Return the exponent of the seconds as a power of the budget, from 10,000 evaluations on."""
    large = rows[rows["budget"] >= 10_000]
    return float(np.polyfit(np.log(large["budget"]), np.log(large["seconds"]), 1)[0])


def _stage_table(rows: pd.DataFrame) -> str:
    """Return seconds by stage and memory by budget."""
    stages = [json.loads(text) for text in rows["stages"]]
    names = list(dict.fromkeys(name for each in stages for name in each))
    lines = [
        [
            f"{row.budget:,}",
            f"{row.seconds:.3f}",
            *(f"{each.get(name, 0):.3f}" for name in names),
            f"{row.peak_mib:.0f}",
        ]
        for row, each in zip(rows.itertuples(), stages, strict=True)
    ]
    return table(["evaluations", "seconds", *names, "peak MiB"], lines)


def _profile(rows: pd.DataFrame) -> str:
    """Return the stages of the profiled row, beside the floor: the fit and one symmetric update."""
    n, budget = _PROFILED
    row = rows[(rows["n"] == n) & (rows["budget"] == budget) & (rows["method"] == OURS)].iloc[0]
    floor = floor_seconds(n, budget)
    stages = {**json.loads(row["stages"]), "outside the stages": 0.0}
    stages["outside the stages"] = row["seconds"] - sum(stages.values())
    lines = [
        [stage, f"{spent:.3f}", f"{100 * spent / row['seconds']:.0f} %"]
        for stage, spent in sorted(stages.items(), key=lambda item: -item[1])
    ]
    total = sum(floor.values())
    floors = ", ".join(f"{name} {seconds:.3f} s" for name, seconds in floor.items())
    return (
        f"OddSHAP at n = {n}, {budget:,} evaluations.\n\n"
        + table(["stage", "seconds", "share"], lines)
        + f"\nThe floor is {total:.3f} s ({floors}); ours is {row['seconds'] / total:.2f} times that.\n"
    )


def floor_seconds(n: int, budget: int) -> dict[str, float]:
    """Return what no implementation avoids: LightGBM's fit, and one symmetric rank-k update."""
    import lightgbm
    from scipy.linalg.blas import dsyrk

    rng = np.random.default_rng(0)
    coalitions = rng.random((budget, n)) < rng.random((budget, 1))
    values = sparse_game(n).value_function(coalitions)
    signs = np.asfortranarray(rng.choice([-1.0, 1.0], size=(budget // 2, budget // 10)))
    parameters = {"max_depth": 10, "verbose": -1, "num_threads": 1, "objective": "regression"}

    def fit() -> None:
        data = lightgbm.Dataset(coalitions.astype(np.float32), values)
        lightgbm.train(parameters, data, num_boost_round=100)

    with threadpool_limits(1):
        return {
            "LightGBM's fit": _median_seconds(fit),
            "symmetric update": _median_seconds(lambda: dsyrk(1.0, signs, trans=1)),
        }


def _median_seconds(work: Callable[[], object]) -> float:
    """Return the median seconds of five calls."""
    spent = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return statistics.median(spent)
