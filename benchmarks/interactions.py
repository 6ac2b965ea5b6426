"""``interactions`` and ``triples``: Shapley interactions against the estimators of shapiq."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
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

__all__ = ["EXPERIMENT", "TRIPLES"]

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


def _own(cls: Any, **options: Any) -> Method:  # noqa: ANN401
    """Return one of the package's own."""
    return Method(lambda n, random_state: cls(n, random_state=random_state, **options))


def _methods(order: int) -> dict[str, Method]:
    """Return the methods, asked for interactions up to an order; OddSHAP and SPEX for pairs alone."""
    asked: dict[str, Any] = {"max_order": order, "index": "SII"}

    def of_shapiq(name: str, **options: Any) -> Method:  # noqa: ANN401
        return Method(shapiq_builder(name, **asked, **options))

    methods = {
        "oddgp": _own(OddGP, **asked),
        "oddshap": _own(OddSHAP, max_order=2, index="SII"),
        _REFERENCE: _own(OddGP),
        "proxyshap": of_shapiq("ProxySHAP"),
        "proxyshap-adjusted": of_shapiq("ProxySHAP", adjustment=True),
        "kernelshap-iq": of_shapiq("KernelSHAPIQ", pairing_trick=True),
        "svarm-iq": of_shapiq("SVARMIQ", pairing_trick=True),
        "permutation": of_shapiq("PermutationSamplingSII"),
        "shap-iq": of_shapiq("SHAPIQ", pairing_trick=True),
        "spex": of_shapiq("SPEX"),
    }
    return {name: each for name, each in methods.items() if order == 2 or name not in _PAIRS_ALONE}


_PAIRS_ALONE = ("oddshap", _SLOW)
_METHODS = {order: _methods(order) for order in (2, 3)}
_OWN = ("oddgp", "oddshap", _REFERENCE)

_ABOUT_PAIRS = "OddSHAP over ProxySHAP, 60 n"
TARGETS = {
    "OddGP over the best of shapiq's, 20 n": 0.55,
    "OddGP over the best of shapiq's, 60 n": 0.22,
    "the same, worst game": 1.3,
    _ABOUT_PAIRS: 0.8,
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


def measure(task: Task, order: int = 2) -> list[Row]:
    """Run one approximation; the error is relative to the mean squared interaction of the order."""
    instance = load_instance(task.source, task.instance)
    exact = _exact(task, instance.n, instance.value_function, order)
    if np.abs(exact).max() > _DEGENERATE:
        note = f"left out: one value is {np.abs(exact).max():.0e}, a division by zero"
        return [row_of(task, n=instance.n, note=note)]
    return [row_or_note(task, instance.n, lambda: _measured(task, instance, exact, order))]


def _measured(task: Task, instance: Instance, exact: np.ndarray, order: int) -> Row:
    """Return the row of a run that succeeds."""
    run = run_counted(_METHODS[order][task.method].build, instance, task.budget, task.seed)
    value, covered = 0.0, None
    if task.method != _REFERENCE:
        sets = Instance(len(exact), instance.value_function, exact)
        found = _read(run.values, instance.n, order)
        value = sets.mean_squared_error(found) / sets.mean_square()
        if run.variances is not None:
            covered = sets.coverage(found, run.variances[-len(exact) :])
    return row_of(
        task,
        n=instance.n,
        value=value,
        covered=covered,
        evaluations=run.evaluations,
        seconds=round(run.seconds, 6),
    )


def _read(values: InteractionValues, n: int, order: int) -> np.ndarray:
    """Return the values of an order in the order of ``combinations``."""
    return np.array([values[players] for players in combinations(range(n), order)])


def _exact(task: Task, n: int, value_function: Any, order: int) -> np.ndarray:  # noqa: ANN401
    """Return the exact interactions: of trees by shapiq's explainer, of tables by enumeration."""
    if task.source.table is None:
        return _read(explained_tree(task.source.name, task.instance, "SII", order), n, order)
    index = np.arange(2**n)
    values = value_function((index[:, None] >> np.arange(n) & 1).astype(bool))
    sizes = np.bitwise_count(index)
    rest = n - order
    weights = np.array([1.0 / ((rest + 1) * comb(rest, size)) for size in range(rest + 1)])
    exact = []
    for players in combinations(range(n), order):
        bits = [1 << player for player in players]
        without = index[(index & sum(bits)) == 0]
        difference = np.zeros(len(without))
        for count in range(order + 1):
            for joined in combinations(bits, count):
                difference += (-1.0) ** (order - count) * values[without | sum(joined)]
        exact.append(weights[sizes[without]] @ difference)
    return np.array(exact)


def summarise(rows: pd.DataFrame, _directory: Path) -> str:
    """Return the targets with what was reached, and the errors by game."""
    reached = _reached(rows)
    lines = [[name, f"{value:.2g}", f"{TARGETS[name]}"] for name, value in reached.items()]
    lines += [["missed", line, ""] for line in missed(rows)]
    seeds = f"up to {rows['repetition'].max() + 1} seeds"
    parts = [
        "## Targets\n",
        f"Ratios of squared errors, means over {seeds} of a game; geometric means over games.\n",
        table(["what", "value", "bar"], lines),
        "## Coverage of the 90 % intervals\n",
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
    methods = [m for m in _METHODS[2] if m in errors]
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
    peers = [name for name in _METHODS[2] if name not in _OWN]
    best = {factor: _ratios(rows, factor, "oddgp", peers) for factor in (20, 60)}
    proxy = _ratios(rows, 60, "oddshap", ["proxyshap"])
    seconds = rows.pivot_table(index=["game", "budget"], columns="method", values="seconds")
    seconds = seconds.reindex(columns=["oddgp", _REFERENCE])
    time_ratio = (seconds["oddgp"] / seconds[_REFERENCE]).dropna()
    largest = max(float(best[20].max()), float(best[60].max()))
    values = [gmean(best[20]), gmean(best[60]), largest, gmean(proxy), gmean(time_ratio)]
    reached = dict(zip(TARGETS, values, strict=True))
    if "oddshap" not in set(rows["method"]):  # of triples
        del reached[_ABOUT_PAIRS]
    return reached


def _coverage(rows: pd.DataFrame) -> dict[str, float]:
    """Return the coverage by domain, of runs that are not exact to rounding."""
    own = rows[(rows["method"] == "oddgp") & (rows["value"] > _FLOOR)]
    return own.groupby(own["game"].map(domain_of))["covered"].mean().to_dict()  # type: ignore[no-any-return]


def missed(rows: pd.DataFrame) -> list[str]:
    """Return the targets that are missed."""
    reached = _reached(rows)
    lines = [
        f"{name}: {value:.2g}, bar {TARGETS[name]}"
        for name, value in reached.items()
        if not value <= TARGETS[name]
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
    methods=tuple(_METHODS[2]),
    games=("estate", "cancer", "distilbert", "vit16", "estate-tabpfn", *_SUITE),
    instances=3,
    add_options=add_options,
    sources=sources,
    choose=choose,
    met=lambda rows: not missed(rows),
)
TRIPLES = replace(
    EXPERIMENT,
    name="triples",
    question="How much lower is the error of interactions of three, and do their intervals cover?",
    work=partial(measure, order=3),
    methods=tuple(_METHODS[3]),
    games=("distilbert", "estate-tabpfn", *_SUITE),
)
