"""Many outputs at once: what the odd process gains from its rows, and what it all costs.

``python -m benchmarks outputs --check`` exits with 1 if a target is missed.
Instances of a game are the rows of one model. Those of ``estate-tabpfn`` served nowhere in choosing
how outputs share: that was done on small models of scikit-learn's own data sets.
"""

from __future__ import annotations

import os
import time
import tracemalloc
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from joblib import Parallel, cpu_count, delayed
from tqdm import tqdm

from benchmarks.experiment import positive
from benchmarks.games import GameUnavailableError, Source, count_instances, load_instance
from benchmarks.interactions import sources
from benchmarks.report import provenance, recorded, table
from shapiq_oddshap import OddGP, OddSHAP

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.instance import Instance, Values
    from shapiq_oddshap.approximators.base import ShapleyApproximator

QUESTION = "What do rows of one model teach each other, and what do many outputs cost?"

FACTORS = (4, 10, 30, 100)
"""Budgets, in evaluations per player."""

TIMED = "estate-tabpfn"
"""The game of the seconds, and of the target of errors."""

MOST_ERROR, WORST_ERROR = 0.85, 1.1
"""Errors over one by one: geometric mean of the timed game at 4n and 10n, and any game and budget."""

MOST_SECONDS = {("OddGP", 15): 0.4, ("OddSHAP", 100): 0.8}
"""Seconds over one by one, at 30 evaluations per player."""

MANY, MOST_BYTES = 10_000, 10.0
"""Outputs whose memory is measured, and the most of it, in sizes of their values' array."""

_MORE_SEEDS = {4: 5, 10: 3}
"""So many times the seeds at few evaluations: rows share one design there, and its luck."""

_ROWS = 15
"""Games of fewer rows have as many times the seeds as they have fewer."""

_COLUMNS = ["part", "game", "approximator", "outputs", "factor", "together", "alone", "spread"]

_GAMES = ("estate", TIMED, "distilbert", "vit16", "*local-explanation*")
_COUNTS = (1, 3, 10, 15, 100)
_TAKING_TURNS = 3
_TIMED_FACTOR = 30
_SMALLEST = 1e-13


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    command.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    command.add_argument(
        "--games",
        type=lambda text: text.split(","),
        default=list(_GAMES),
        metavar="A,B",
        help=f"games, or patterns of them (default: {','.join(_GAMES)})",
    )
    command.add_argument(
        "--factors",
        type=lambda text: [int(factor) for factor in text.split(",")],
        default=list(FACTORS),
        metavar="A,B",
        help="evaluations per player at which errors are measured; if not at all, those of the others, "
        f"seconds and memory are kept from earlier runs (default: {','.join(map(str, FACTORS))})",
    )
    command.add_argument("--tables", type=Path, metavar="DIR", help="where tables lie")
    command.add_argument("--instances", type=int, default=15, help="rows at most (default: 15)")
    command.add_argument(
        "--many", type=int, default=0, help=f"measure the memory of as many outputs, such as {MANY}"
    )
    command.add_argument(
        "--seeds",
        type=positive,
        default=2,
        help="seeds at 30 and 100 evaluations per player, five times as many at 4 and three times at 10, "
        "and of fewer than 15 rows 15 over their number as many (default: 2)",
    )
    command.add_argument(
        "--jobs", type=positive, default=1, help="processes that measure errors (default: 1)"
    )
    command.add_argument(
        "--output", type=Path, default=Path("build/benchmarks/outputs"), metavar="DIR",
        help="where results.csv and README.md go (default: %(default)s)",
    )  # fmt: skip
    command.set_defaults(table=[], references=None)


def run(args: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Measure, print, write, and return the exit status."""
    results = args.output / "results.csv"
    found = pd.read_csv(results) if results.exists() else pd.DataFrame(columns=_COLUMNS)
    args.output.mkdir(parents=True, exist_ok=True)
    whole = args.factors == list(FACTORS)
    with recorded(args.output, arguments, resume=True):
        for source in tqdm(sources(args), unit="game"):
            try:
                instances = _instances(source, args.instances)
            except GameUnavailableError as error:
                tqdm.write(f"Skipped {source.name}: {error}.")
                continue
            rows = [*_error_rows(source.name, instances, args)]
            if source.name == TIMED and whole:
                rows += [*_second_rows(instances), *_memory_rows(instances, args.many)]
            again = (found["part"] == "error") & found["factor"].isin(args.factors) | whole
            others = found[~(again & (found["game"] == source.name))]
            measured = pd.DataFrame(rows, columns=_COLUMNS)
            found = pd.concat([others, measured]) if len(others) else measured
            found.to_csv(results, index=False)
    missed, text = _missed(found), _page(found)
    text += "".join(f"\nMissed: {miss}.\n" for miss in missed)
    header = f"# outputs\n\n{QUESTION}\n\n{provenance(args.output)}\n"
    (args.output / "README.md").write_text(header + text)
    print(text)
    print(f"Written to {args.output}.")
    return 1 if args.check and missed else os.EX_OK


def errors(instances: list[Instance], budget: int, seed: int, *, joint: bool) -> np.ndarray:
    """Return the squared errors of all instances, together or one by one."""
    approximator = OddGP(instances[0].n, random_state=seed)
    if joint:
        estimates = approximator.estimate_outputs(budget, _stacked(instances))
    else:
        estimates = [approximator.estimate(budget, one.value_function) for one in instances]
    phi = [one.values.get_n_order_values(1) for one in estimates]  # noqa: PD011 - no data frame
    pairs = zip(instances, phi, strict=True)
    return np.array([instance.mean_squared_error(values) for instance, values in pairs])


def seconds(approximator: ShapleyApproximator, instances: list[Instance], k: int) -> list[float]:
    """Return the seconds of k outputs together, and of k runs, by those of at most 15.

    Either is the median of a few runs that take turns.
    """
    budget, outputs = _TIMED_FACTOR * instances[0].n, _outputs(instances, k)
    some = outputs[: min(k, len(instances))]

    def together() -> None:
        approximator.estimate_outputs(budget, _stacked(outputs))

    def alone() -> None:
        for one in some:
            approximator.estimate(budget, one.value_function)

    turns = [[_took(together), _took(alone) * k / len(some)] for _ in range(_TAKING_TURNS)]
    medians: list[float] = np.median(turns, axis=0).tolist()
    return medians


def memory(approximator: ShapleyApproximator, instances: list[Instance], k: int) -> float:
    """Return the peak of a run on k outputs at 30 evaluations per player, in sizes of its values."""
    budget, game = _TIMED_FACTOR * instances[0].n, _stacked(_outputs(instances, k))
    tracemalloc.start()
    approximator.estimate_outputs(budget, game)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / (8 * budget * k)


def _instances(source: Source, most: int) -> list[Instance]:
    """Return the first instances of a game."""
    return [load_instance(source, index) for index in range(min(count_instances(source), most))]


def _outputs(instances: list[Instance], k: int) -> list[Instance]:
    """Return k outputs, of which some are the same if there are fewer instances."""
    return [instances[i % len(instances)] for i in range(k)]


def _stacked(instances: list[Instance]) -> Values:
    """Return the game of all instances as outputs."""
    return lambda coalitions: np.stack(
        [instance.value_function(coalitions) for instance in instances], axis=1
    )


def _took(work: Callable[[], None]) -> float:
    """Return the seconds that work takes by the clock on the wall: outputs are fitted in threads."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _error_rows(
    game: str, instances: list[Instance], args: argparse.Namespace
) -> Iterator[tuple[object, ...]]:
    """Yield the relative errors, geometric means over rows and seeds, by budget per player.

    Beside them is the standard error of the logarithm of their ratio, by its scatter over the seeds.
    """
    scales = np.array([instance.mean_square() for instance in instances])
    instances = [instance for instance, scale in zip(instances, scales, strict=True) if scale > 0]
    scales = scales[scales > 0]
    for factor in args.factors:
        budget = factor * instances[0].n
        if len(instances) > 1 and budget <= 2 ** (instances[0].n - 1):
            count = args.seeds * _MORE_SEEDS.get(factor, 1) * ceil(_ROWS / len(instances))
            found = Parallel(n_jobs=args.jobs)(
                delayed(errors)(instances, budget, seed, joint=joint)
                for joint in (True, False)
                for seed in range(count)
            )
            relative = np.maximum(np.array(found) / scales, _SMALLEST)
            logs = np.log(relative).mean(axis=1).reshape(2, count)
            spread = (
                np.std(np.subtract(logs[0], logs[1]), ddof=1) / np.sqrt(count)
                if count > 1
                else np.nan
            )
            means = np.exp(np.mean(logs, axis=1))
            yield "error", game, "OddGP", len(instances), factor, *means, spread


def _second_rows(instances: list[Instance]) -> Iterator[tuple[object, ...]]:
    """Yield the seconds of many outputs."""
    for cls in (OddGP, OddSHAP):
        for k in _COUNTS:
            took = seconds(cls(instances[0].n, random_state=0), instances, k)
            yield "seconds", TIMED, cls.__name__, k, _TIMED_FACTOR, *took, np.nan


def _memory_rows(instances: list[Instance], k: int) -> Iterator[tuple[object, ...]]:
    """Yield the memory of very many outputs, if it is asked for."""
    for cls in (OddSHAP, OddGP) if k else ():
        sizes = memory(cls(instances[0].n, random_state=0), instances, k)
        yield "memory", TIMED, cls.__name__, k, _TIMED_FACTOR, sizes, np.nan, np.nan


def _missed(rows: pd.DataFrame) -> list[str]:
    """Return which targets are missed."""
    ratios = rows.assign(ratio=rows["together"] / rows["alone"])
    found = ratios[ratios["part"] == "error"]
    missed = [
        f"errors of {row.game} at {row.factor} n: {_with_spread(row)}, target {WORST_ERROR}"
        for row in found[found["ratio"] > WORST_ERROR].itertuples()
    ]
    if (mean := _timed_mean(found)) > MOST_ERROR:
        missed.append(f"errors of {TIMED}: {mean:.2f}, target {MOST_ERROR}")
    for row in ratios[ratios["part"] == "seconds"].itertuples():
        target = MOST_SECONDS.get((row.approximator, row.outputs), np.inf)
        if row.ratio > target:
            missed.append(f"seconds of {row.approximator}: {row.ratio:.2f}, target {target}")
    return missed + [
        f"memory of {row.approximator}: {row.together:.1f}, target {MOST_BYTES}"
        for row in rows[(rows["part"] == "memory") & (rows["together"] > MOST_BYTES)].itertuples()
    ]


def _with_spread(row: Any) -> str:  # noqa: ANN401 - a row of a data frame
    """Return a ratio and what it may be off by."""
    text = f"{row.ratio:.2f}"
    return text if np.isnan(row.spread) else f"{text} ± {row.ratio * row.spread:.2g}"


def _timed_mean(ratios: pd.DataFrame) -> float:
    """Return the geometric mean of the timed game's ratios at 4 n and 10 n, if they are there."""
    low = ratios[(ratios["game"] == TIMED) & ratios["factor"].isin(FACTORS[:2])]
    return float(np.exp(np.log(low["ratio"]).mean()))


def _page(rows: pd.DataFrame) -> str:
    """Return errors, seconds and memory as Markdown."""
    rows = rows.assign(ratio=rows["together"] / rows["alone"])
    found = rows[rows["part"] == "error"]
    parts = [
        "Relative squared errors of OddGP, rows together over one by one, geometric means (± standard error, by seeds)\n"
    ]
    lines = []
    for game, part in found.groupby("game", sort=False):
        ratios = {row.factor: _with_spread(row) for row in part.itertuples()}
        cells = [ratios.get(factor, "-") for factor in FACTORS]
        lines.append([str(game), str(part["outputs"].iloc[0]), *cells])
    parts.append(table(["game", "rows", *(f"{factor} n" for factor in FACTORS)], lines))
    if not np.isnan(mean := _timed_mean(found)):
        parts.append(f"{TIMED} at 4 n and 10 n: {mean:.2f} (target {MOST_ERROR})\n")
    lines = [
        [
            row.approximator, str(row.outputs), f"{row.together:.2f}", f"{row.alone:.2f}",
            f"{row.ratio:.2f}", str(MOST_SECONDS.get((row.approximator, row.outputs), "")),
        ]
        for row in rows[rows["part"] == "seconds"].itertuples()
    ]  # fmt: skip
    if lines:
        header = ["approximator", "outputs", "s together", "s one by one", "ratio", "target"]
        parts += [
            f"Seconds at {_TIMED_FACTOR} n on {cpu_count()} processors\n",
            table(header, lines),
        ]
    parts += [
        f"{row.approximator}, {row.outputs} outputs: peak {row.together:.1f} times their values "
        f"(target {MOST_BYTES}).\n"
        for row in rows[rows["part"] == "memory"].itertuples()
    ]
    return "\n".join(parts)
