"""Many outputs at once: what the odd process gains from its rows, and what it all costs.

``python -m benchmarks outputs --check`` exits with 1 if a target is missed.
Instances of a game are the rows of one model. Those of ``estate-tabpfn`` served nowhere in choosing
how outputs share: that was done on small models of scikit-learn's own data sets.
"""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.games import (
    GAMES,
    GameUnavailableError,
    Instance,
    Source,
    count_instances,
    load_instance,
    resolve_games,
)
from benchmarks.report import table
from shapiq_oddshap import OddGP, OddSHAP

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from benchmarks.instance import Values
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


def errors(instances: list[Instance], budget: int, seed: int, *, joint: bool) -> np.ndarray:
    """Return the squared errors of all instances, together or one by one."""
    approximator = OddGP(instances[0].n, random_state=seed)
    if joint:
        estimates = approximator.estimate_outputs(budget, _stacked(instances))
    else:
        estimates = [approximator.estimate(budget, one.value_function) for one in instances]
    phi = [estimate.values.get_n_order_values(1) for estimate in estimates]
    pairs = zip(instances, phi, strict=True)
    return np.array([instance.mean_squared_error(values) for instance, values in pairs])


def ratios(source: Source, most: int, seeds: int) -> dict[int, float]:
    """Return the geometric mean of the errors' ratios by budget per player."""
    count = min(count_instances(source), most)
    instances = [load_instance(source, index) for index in range(count)]
    n, found = instances[0].n, {}
    for factor in FACTORS:
        if factor * n <= 2 ** (n - 1):
            logs = [
                np.log(np.maximum(errors(instances, factor * n, seed, joint=joint), 1e-13))
                for seed in range(seeds)
                for joint in (True, False)
            ]
            found[factor] = float(np.exp(np.mean(logs[::2]) - np.mean(logs[1::2])))
    return found


def seconds(approximator: ShapleyApproximator, instances: list[Instance], k: int) -> list[float]:
    """Return the seconds of k outputs together, and of k runs, by those of at most 15."""
    budget, outputs = 30 * instances[0].n, [instances[i % len(instances)] for i in range(k)]
    some = outputs[: min(k, 15)]
    start = time.process_time()
    approximator.estimate_outputs(budget, _stacked(outputs))
    middle = time.process_time()
    for one in some:
        approximator.estimate(budget, one.value_function)
    return [middle - start, (time.process_time() - middle) * k / len(some)]


def memory(approximator: ShapleyApproximator, instances: list[Instance], k: int) -> float:
    """Return the peak of a run on k outputs at 30 evaluations per player, in sizes of its values."""
    budget, outputs = 30 * instances[0].n, [instances[i % len(instances)] for i in range(k)]
    game = _stacked(outputs)
    tracemalloc.start()
    approximator.estimate_outputs(budget, game)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / (8 * budget * k)


def _stacked(instances: list[Instance]) -> Values:
    """Return the game of all instances as outputs."""
    return lambda coalitions: np.stack(
        [instance.value_function(coalitions) for instance in instances], axis=1
    )


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    command.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    command.add_argument("--games", default=",".join(GAMES), help="games (default: all)")
    command.add_argument("--tables", type=Path, help="where tables lie")
    command.add_argument("--instances", type=int, default=15, help="rows at most (default: 15)")
    command.add_argument(
        "--many", type=int, default=0, help=f"measure the memory of as many outputs, such as {MANY}"
    )
    command.add_argument("--seeds", type=int, default=2, help="seeds (default: 2)")


def run(options: argparse.Namespace, _: Sequence[str]) -> int:
    """Measure, print, and return the exit status."""
    found: dict[str, dict[int, float]] = {}
    missed = []
    for source in resolve_games(options.games.split(","), options.tables, []):
        try:
            found[source.name] = ratios(source, options.instances, options.seeds)
        except GameUnavailableError as error:
            print(f"Skipped {source.name}: {error}.")
    print(f"{QUESTION}\n\nErrors of OddGP, rows together over one by one, geometric means\n")
    lines = [
        [name, *(f"{row[f]:.2f}" if f in row else "" for f in FACTORS)]
        for name, row in found.items()
    ]
    print(table(["game", *(f"{factor} n" for factor in FACTORS)], lines))
    worst = max((ratio for row in found.values() for ratio in row.values()), default=0.0)
    if worst > WORST_ERROR:
        missed.append(f"errors, worst: {worst:.2f}")
    if TIMED in found:
        mean = float(np.sqrt(found[TIMED][4] * found[TIMED][10]))
        print(f"{TIMED} at 4 n and 10 n: {mean:.2f} (target {MOST_ERROR})\n")
        if mean > MOST_ERROR:
            missed.append(f"errors of {TIMED}: {mean:.2f}")
        source = resolve_games([TIMED], options.tables, [])[0]
        missed += _print_seconds(source)
        if options.many:
            missed += _print_memory(source, options.many)
    for miss in missed:
        print(f"missed: {miss}")
    return int(options.check and bool(missed))


def _print_memory(source: Source, k: int) -> list[str]:
    """Print the memory of very many outputs, and return which targets are missed."""
    instances = [load_instance(source, index) for index in range(count_instances(source))]
    missed = []
    for cls in (OddGP, OddSHAP):
        sizes = memory(cls(instances[0].n, random_state=0), instances, k)
        print(f"{cls.__name__}, {k} outputs: peak {sizes:.1f} times their values ({MOST_BYTES})")
        if sizes > MOST_BYTES:
            missed.append(f"memory of {cls.__name__}: {sizes:.1f}")
    return missed


def _print_seconds(source: Source) -> list[str]:
    """Print the seconds of many outputs, and return which targets are missed."""
    instances = [load_instance(source, index) for index in range(count_instances(source))]
    lines, missed = [], []
    for cls in (OddGP, OddSHAP):
        for k in (1, 10, 15, 100):
            together, alone = seconds(cls(instances[0].n, random_state=0), instances, k)
            ratio, target = together / alone, MOST_SECONDS.get((cls.__name__, k))
            if target is not None and ratio > target:
                missed.append(f"seconds of {cls.__name__}: {ratio:.2f}")
            figures = [f"{figure:.2f}" for figure in (together, alone, ratio)]
            lines.append([cls.__name__, str(k), *figures, str(target or "")])
    header = ["approximator", "outputs", "s together", "s one by one", "ratio", "target"]
    print(table(header, lines))
    return missed
