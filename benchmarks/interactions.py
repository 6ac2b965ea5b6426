"""``interactions``: pairwise Shapley interactions against the estimators of shapiq."""

from __future__ import annotations

import argparse
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import gmean

from benchmarks.experiment import Experiment, Planned
from benchmarks.games import (
    GAMES,
    PAPER_GAMES,
    Instance,
    Source,
    explained_tree,
    games_of,
    load_instance,
)
from benchmarks.methods import Method, shapiq_builder
from benchmarks.report import table
from benchmarks.runner import Row, Task, row_of, row_or_note, run_counted
from benchmarks.suite import add_options, choose, domain_of
from benchmarks.suite import sources as suite_sources
from shapiq_oddshap import OddGP, OddSHAP

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pandas as pd
    from shapiq import InteractionValues

__all__ = ["EXPERIMENT"]

_FACTORS = (20, 60, 200)
"""Budgets, in evaluations per player."""


_REFERENCE = "oddgp-order-1"
_SUITE = ("adult-*", "bike-*", "california-*", "soum-*")

_MOST_TREE_PLAYERS, _MOST_TREE_FACTOR = 30, 60
"""The tree games are larger: the estimators' own time is what bounds them here."""

_SLOW = "spex"
"""Takes a minute a run and more, so that it runs on the named tables at the smallest budget alone."""

_FEW = (_REFERENCE, _SLOW)
"""On the named games alone: what serves for its time only, and what takes a minute a run."""

_FLOOR = 1e-9
"""Smaller errors, over the mean squared interaction, are rounding and count as this."""


_DEGENERATE = 1e30
"""Largest interaction from which on a game is an accident of arithmetic."""


def _pairs(cls: Any, **options: Any) -> Method:  # noqa: ANN401
    """Return one of the package's own, asked for pairs."""
    return Method(lambda n, random_state: cls(n, random_state=random_state, **options))


def _shapiq(name: str, **options: Any) -> Method:  # noqa: ANN401
    """Return one of shapiq's, asked for pairs."""
    return Method(shapiq_builder(name, max_order=2, index="SII", **options))


_METHODS: dict[str, Method] = {
    "oddgp": _pairs(OddGP, max_order=2, index="SII"),
    "oddshap": _pairs(OddSHAP, max_order=2, index="SII"),
    _REFERENCE: _pairs(OddGP),
    "proxyshap": _shapiq("ProxySHAP"),
    "proxyshap-adjusted": _shapiq("ProxySHAP", adjustment=True),
    "kernelshap-iq": _shapiq("KernelSHAPIQ", pairing_trick=True),
    "svarm-iq": _shapiq("SVARMIQ", pairing_trick=True),
    "permutation": _shapiq("PermutationSamplingSII"),
    "shap-iq": _shapiq("SHAPIQ", pairing_trick=True),
    "spex": _shapiq("SPEX"),
}
_OWN = ("oddgp", "oddshap", _REFERENCE)

TARGETS = {
    "OddGP over the best of shapiq's, 20 n": 0.55,
    "OddGP over the best of shapiq's, 60 n": 0.22,
    "the same, worst game": 1.3,
    "OddSHAP over ProxySHAP, 60 n": 0.8,
    "own time over that of max_order=1": 2.5,
}
_COVERAGE = (0.80, 0.98)


def sources(args: argparse.Namespace) -> list[Source]:
    """Return the tree games by name, and the families of the suite by patterns."""
    trees = [name for name in args.games if name in PAPER_GAMES and PAPER_GAMES[name].dataset]
    others = argparse.Namespace(**vars(args))
    others.games = [name for name in args.games if name not in trees]
    return [*(Source(name) for name in trees), *suite_sources(others)]


def plan(game: Planned, methods: Sequence[str], budgets: Sequence[int] | None) -> Iterator[Task]:
    """Yield every method on the first of the instances."""
    tree = game.source.table is None
    if tree and game.n > _MOST_TREE_PLAYERS:
        return
    factors = [f for f in _FACTORS if not tree or f <= _MOST_TREE_FACTOR]
    regular = budgets or [f * game.n for f in factors if f * game.n < 0.9 * 2**game.n]
    if not game.instances:  # a split of a game of one instance may hold none
        return
    instance = game.instances[0]
    for method in methods:
        if method in _FEW and game.source.name not in GAMES:
            continue
        if method == _SLOW and tree:
            continue
        some = regular[:1] if method == _SLOW else regular
        yield from (Task(game.source, instance, method, budget) for budget in some)


def measure(task: Task) -> list[Row]:
    """Run one approximation; the error is relative to the mean squared interaction."""
    instance = load_instance(task.source, task.instance)
    exact = _exact(task, instance.n, instance.value_function)
    if np.abs(exact).max() > _DEGENERATE:
        note = f"left out: one value is {np.abs(exact).max():.0e}, a division by zero"
        return [row_of(task, n=instance.n, note=note)]
    return [row_or_note(task, instance.n, lambda: _measured(task, instance, exact))]


def _measured(task: Task, instance: Instance, exact: np.ndarray) -> Row:
    """Return the row of a run that succeeds."""
    run = run_counted(_METHODS[task.method].build, instance, task.budget, task.seed)
    value, covered = 0.0, None
    if task.method != _REFERENCE:
        pairs = Instance(len(exact), instance.value_function, exact)
        found = _read(run.values, instance.n)
        value = pairs.mean_squared_error(found) / pairs.mean_square()
        if run.variances is not None:
            covered = pairs.coverage(found, run.variances[instance.n :])
    return row_of(
        task,
        n=instance.n,
        value=value,
        covered=covered,
        evaluations=run.evaluations,
        seconds=round(run.seconds, 6),
    )


def _read(values: InteractionValues, n: int) -> np.ndarray:
    """Return the pairs in the order of ``combinations``."""
    return np.array([values[pair] for pair in combinations(range(n), 2)])


def _exact(task: Task, n: int, value_function: Any) -> np.ndarray:  # noqa: ANN401
    """Return the exact interactions: of trees by shapiq's explainer, of tables by enumeration."""
    if task.source.table is None:
        return _read(explained_tree(task.source.name, task.instance, "SII", 2), n)
    index = np.arange(2**n)
    values = value_function((index[:, None] >> np.arange(n) & 1).astype(bool))
    sizes = np.bitwise_count(index)
    weights = np.array([1.0 / ((n - 1) * comb(n - 2, size)) for size in range(n - 1)])
    exact = []
    for i, j in combinations(range(n), 2):
        without = index[(index >> i & 1 | index >> j & 1) == 0]
        first, second = without | 1 << i, without | 1 << j
        difference = values[first | second] - values[first] - values[second] + values[without]
        exact.append(weights[sizes[without]] @ difference)
    return np.array(exact)


def summarise(rows: pd.DataFrame, _directory: Path) -> str:
    """Return the targets with what was reached, and the errors by game."""
    reached = _reached(rows)
    lines = [[name, f"{reached[name]:.2g}", f"{bar}"] for name, bar in TARGETS.items()]
    lines += [["missed", line, ""] for line in missed(rows)]
    seeds = f"up to {rows['repetition'].max() + 1} seeds"
    parts = [
        "## Targets\n",
        f"Ratios of squared errors, means over {seeds} of a game; geometric means over games.\n",
        table(["what", "value", "bar"], lines),
        "## Coverage of the 90 % intervals of pairs\n",
        table(["domain", "share"], [[d, f"{c:.2f}"] for d, c in _coverage(rows).items()]),
    ]
    rows = rows[rows["method"] != _REFERENCE]
    for factor in _FACTORS:
        some = rows[rows["budget"] == factor * rows["n"]]
        if len(some):
            parts += [f"## Errors at {factor} n\n", _errors(some)]
    return "\n".join(parts)


def _errors(rows: pd.DataFrame) -> str:
    """Return the errors by game and method."""
    errors = rows.pivot_table(index="game", columns="method", values="value")
    methods = [m for m in _METHODS if m in errors]
    lines = [
        [game, *("-" if np.isnan(e) else f"{e:.1e}" for e in errors.loc[game, methods])]
        for game in games_of(rows)
    ]
    return table(["game", *methods], lines)


def _ratios(rows: pd.DataFrame, factor: int, own: str, peers: Sequence[str]) -> pd.Series:
    """Return one's error over the least of others' by game, all of them means over the seeds."""
    some = rows[rows["budget"] == factor * rows["n"]]
    errors = some.pivot_table(index="game", columns="method", values="value").clip(lower=_FLOOR)
    errors = errors.reindex(columns=[own, *peers])
    ratios: pd.Series = errors[own] / errors[list(peers)].min(axis=1)
    return ratios.dropna()


def _reached(rows: pd.DataFrame) -> dict[str, float]:
    """Return what was reached by target."""
    peers = [name for name in _METHODS if name not in _OWN]
    best = {factor: _ratios(rows, factor, "oddgp", peers) for factor in (20, 60)}
    proxy = _ratios(rows, 60, "oddshap", ["proxyshap"])
    seconds = rows.pivot_table(index=["game", "budget"], columns="method", values="seconds")
    seconds = seconds.reindex(columns=["oddgp", _REFERENCE])
    time_ratio = (seconds["oddgp"] / seconds[_REFERENCE]).dropna()
    names = iter(TARGETS)
    return {
        next(names): gmean(best[20]),
        next(names): gmean(best[60]),
        next(names): max(float(best[20].max()), float(best[60].max())),
        next(names): gmean(proxy),
        next(names): gmean(time_ratio),
    }


def _coverage(rows: pd.DataFrame) -> dict[str, float]:
    """Return the coverage by domain, of runs that are not exact to rounding."""
    own = rows[(rows["method"] == "oddgp") & (rows["value"] > _FLOOR)]
    return own.groupby(own["game"].map(domain_of))["covered"].mean().to_dict()  # type: ignore[no-any-return]


def missed(rows: pd.DataFrame) -> list[str]:
    """Return the targets that are missed."""
    reached = _reached(rows)
    lines = [
        f"{name}: {reached[name]:.2g}, bar {bar}"
        for name, bar in TARGETS.items()
        if not reached[name] <= bar
    ]
    low, high = _COVERAGE
    return lines + [
        f"coverage, {domain}: {share:.2f}"
        for domain, share in _coverage(rows).items()
        if not low <= share <= high
    ]


EXPERIMENT = Experiment(
    name="interactions",
    question="How much lower is the error of pairwise interactions, and do their intervals cover?",
    plan=plan,
    summarise=summarise,
    work=measure,
    methods=tuple(_METHODS),
    games=("estate", "cancer", "distilbert", "vit16", "estate-tabpfn", *_SUITE),
    instances=3,
    add_options=add_options,
    sources=sources,
    choose=choose,
    met=lambda rows: not missed(rows),
)
