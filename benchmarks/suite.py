"""``suite``: every domain of shapiq's game suite, and games of many players, at every budget."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from benchmarks.closed_forms import CLOSED_FORMS
from benchmarks.experiment import Experiment, Planned
from benchmarks.figures import domain_figure
from benchmarks.games import (
    FLOOR,
    TABLE_FILES,
    GameUnavailableError,
    Source,
    table_directory,
    table_source,
)
from benchmarks.report import table
from benchmarks.runner import Task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

__all__ = ["BUDGETS", "EXPERIMENT", "FIVE", "domain_of", "ratios", "sources"]

BUDGETS = (3, 4, 6, 10, 30, 100)
"""Evaluations per player."""

FIVE = ("shapiq-oddshap", "leverageshap", "kernelshap", "regressionmsr", "regressionmsr-xgboost")
"""Of these the best is picked for every family and budget, in hindsight."""

_OTHERS = ("proxy", "svarm", "permutation")
_OURS = ("oddgp", "oddshap")
_LARGEST_SHARE = 0.8
"""Of all coalitions: beyond, whoever estimates should enumerate."""

_MANY_PLAYERS = 200
"""From so many players on budgets above 10 per player take minutes."""

_DOMAINS = {
    "data-valuation": "data valuation",
    "dataset-valuation": "dataset valuation",
    "ensemble-selection": "ensembles",
    "forest-selection": "ensembles",
    "feature-selection": "feature selection",
    "global-explanation": "global explanation",
    "local-explanation": "local explanation",
    "uncertainty-explanation": "uncertainty",
    "unsupervised-data": "unsupervised",
    "cluster-explanation": "unsupervised",
    "soum": "sums of unanimity",
    "distilbert": "text",
    "estate-tabpfn": "TabPFN",
    "vit16": "image",
    "neighbours": "many players: neighbours",
    "kernel-machine": "many players: kernel machine",
    "digits-network": "many players: network",
    "sparse": "many players: sparse",
}
"""The domain by what a family's name contains."""

TARGETS = (
    ("oddgp", "best of five", 4, 0.5, 1.5),
    ("oddgp", "best of five", 10, 0.3, 1.5),
    ("oddgp", "best of five", 30, 0.35, 1.5),
    ("oddgp", "best of five", 100, 0.45, 1.5),
    ("oddshap", "best of five", 3, 0.6, 1.5),
    ("oddshap", "best of five", 10, 0.4, 1.5),
    ("oddshap", "shapiq-oddshap", 30, 0.3, 1.2),
    ("oddshap", "shapiq-oddshap", 100, 0.6, 1.2),
)
"""Method, against whom, evaluations per player; the largest ratio over all families of the suite
(a geometric mean), and in the worst domain."""

COVERAGE = (0.80, 0.98)
"""Between which the 90 % intervals are to cover in every domain."""


def sources(names: Iterable[str], tables: Path | None, files: Iterable[Path]) -> list[Source]:
    """Return the families whose names match one of some patterns, and one per further file.

    Args:
        names: Patterns such as ``adult-*``; ``*`` for all.
        tables: The directory of the known tables, beside which ``suite/`` lies.
        files: Further tables, ours or as shapiq stores its games.

    Raises:
        GameUnavailableError: If a pattern matches nothing.
    """
    folder = table_directory(tables)
    known = [table_source(file) for file in sorted((folder.parent / "suite").glob("*.npz"))]
    known += [Source(name, folder / file) for name, file in TABLE_FILES.items()]
    known += [Source(name) for name in CLOSED_FORMS]
    found: list[Source] = []
    for pattern in names:
        matching = [source for source in known if fnmatch(source.name, pattern)]
        if not matching:
            msg = f"There is no family {pattern!r} in {folder.parent / 'suite'} or {folder}."
            raise GameUnavailableError(msg)
        found += [source for source in matching if source not in found]
    return found + [table_source(file) for file in files]


def domain_of(family: str) -> str:
    """Return the domain of a family; its own name if it is of none."""
    return next((domain for part, domain in _DOMAINS.items() if part in family), family)


def plan(game: Planned, methods: Sequence[str], budgets: Sequence[int] | None) -> Iterator[Task]:
    """Yield every method at every budget below 0.8 · 2ⁿ."""
    per_player = BUDGETS if game.n < _MANY_PLAYERS else BUDGETS[:2]
    wanted = budgets or [factor * game.n for factor in per_player]
    if game.source.name.startswith("sparse"):
        wanted = budgets or range(2 * game.n - 2, 3 * game.n, 2)
    largest = _LARGEST_SHARE * 2.0**game.n
    for instance in game.instances:
        for budget in wanted:
            if budget <= largest:
                yield from (Task(game.source, instance, method, budget) for method in methods)


def ratios(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the geometric mean error of every method over that of its peers, by family.

    Args:
        rows: Rows of the results.

    Returns:
        A row per family, method and evaluations per player, with the ratios to the best of
        ``FIVE`` and to shapiq's OddSHAP, and the family's domain.
    """
    rows = rows[rows["scale"] > 0].assign(
        per_player=(rows["budget"] / rows["n"]).round(2),
        log=np.log(np.maximum(rows["value"] / rows["scale"], FLOOR)),
    )
    logs = rows.groupby(["game", "per_player", "method"])["log"].mean().unstack()  # noqa: PD010
    best = logs.reindex(columns=FIVE).min(axis=1)
    own = logs.reindex(columns=["shapiq-oddshap"]).min(axis=1)
    long = logs.stack().rename("log").reset_index()  # noqa: PD013
    index = pd.MultiIndex.from_frame(long[["game", "per_player"]])
    long["best of five"] = np.exp(long["log"] - best.reindex(index).to_numpy())
    long["shapiq-oddshap"] = np.exp(long["log"] - own.reindex(index).to_numpy())
    long["domain"] = [domain_of(family) for family in long["game"]]
    return long


def geometric_mean(values: pd.Series) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.log(values).mean()))


def check(rows: pd.DataFrame) -> list[str]:
    """Return a line for every target that was missed."""
    reached = [*_targets(ratios(rows)), *_sparse_targets(rows)]
    return [line for line, met in reached if not met] + [
        f"oddgp's intervals cover {share:.2f} in {domain}"
        for domain, share in _coverage(rows).items()
        if not COVERAGE[0] <= share <= COVERAGE[1]
    ]


def _targets(found: pd.DataFrame) -> Iterator[tuple[str, bool]]:
    """Yield what was reached of every target, and whether that is enough."""
    inside = found[~found["domain"].str.startswith("many players")]
    for method, against, per_player, most, worst in TARGETS:
        some = inside[(inside["method"] == method) & (inside["per_player"] == per_player)]
        if len(some) == 0:
            continue
        mean = geometric_mean(some[against])
        domains = some.groupby("domain")[against].apply(geometric_mean)
        line = (
            f"{method} over {against}, {per_player} n: {mean:.2f} (target {most}); worst domain "
            f"{domains.idxmax()}: {domains.max():.2f} (target {worst})"
        )
        yield line, mean <= most and domains.max() <= worst


def _sparse_targets(rows: pd.DataFrame) -> Iterator[tuple[str, bool]]:
    """Yield what OddSHAP reached on sparse games of two to three evaluations per player."""
    some = rows[rows["game"].str.startswith("sparse") & (rows["method"] == "oddshap")]
    if len(some):
        relative = float((some["value"] / some["scale"]).quantile(0.9))
        line = f"oddshap, 2 n to 3 n, sparse: 90 % quantile of the relative error {relative:.2g}"
        yield f"{line} (target 1)", relative <= 1.0


def _coverage(rows: pd.DataFrame) -> pd.Series:
    """Return the share of true values within OddGP's intervals by domain, without recoveries."""
    own = rows[(rows["method"] == "oddgp") & (rows["value"] > FLOOR * rows["scale"])]
    return own.groupby(own["game"].map(domain_of))["covered"].mean()


def summarise(rows: pd.DataFrame, directory: Path) -> str:
    """Return ratios by domain and by family, coverage and seconds, and draw the curves."""
    found = ratios(rows)
    domain_figure(found, directory / "domains.png")
    reached = [*_targets(found), *_sparse_targets(rows)]
    instances = ", ".join(map(str, sorted(rows["instance"].unique())))
    lines = [f"- {line}: {'met' if met else 'missed'}" for line, met in reached]
    parts = [
        (
            f"Instances {instances} of every family. Ratios are of squared errors, geometric means over "
            f"instances, then families; the best of five ({', '.join(FIVE)}) is picked per family and "
            "budget, in hindsight.\n"
        ),
        *(["## Targets\n", "\n".join(lines) + "\n"] if lines else []),
        "![Ratio to the best of five by domain](domains.png)\n",
    ]
    for method in (name for name in (*_OURS, *FIVE, *_OTHERS) if name in set(found["method"])):
        parts += [
            f"## {method} over the best of five\n",
            _ratio_table(found[found["method"] == method]),
        ]
    parts += ["## Coverage of OddGP's 90 % intervals\n", _coverage_table(rows)]
    parts += ["## Median seconds outside the game\n", _seconds_table(rows)]
    return "\n".join(parts)


def _ratio_table(found: pd.DataFrame) -> str:
    """Return a line per domain, then one over all families of the suite."""
    budgets = sorted(found["per_player"].unique())
    budgets = [b for b in budgets if b in BUDGETS] or budgets

    def line(title: str, some: pd.DataFrame) -> list[str]:
        cells = [some.loc[some["per_player"] == budget, "best of five"] for budget in budgets]
        return [title, *(f"{geometric_mean(c):.2f}" if c.notna().any() else "-" for c in cells)]

    found = found[found["per_player"].isin(budgets)]
    lines = [line(str(domain), some) for domain, some in found.groupby("domain")]
    inside = found[~found["domain"].str.startswith("many players")]
    lines.append(line("all families of the suite", inside))
    return table(["domain", *(f"{budget:g} n" for budget in budgets)], lines)


def _coverage_table(rows: pd.DataFrame) -> str:
    """Return the coverage by domain."""
    covered = _coverage(rows)
    return table(["domain", "covered"], [[str(k), f"{v:.2f}"] for k, v in covered.items()])


def _seconds_table(rows: pd.DataFrame) -> str:
    """Return the median seconds by method and evaluations per player."""
    rows = rows.assign(per_player=(rows["budget"] / rows["n"]).round(2))
    rows = rows[rows["per_player"].isin(BUDGETS)]
    seconds = rows.pivot_table(
        index="method", columns="per_player", values="seconds", aggfunc="median"
    )
    lines = [
        [str(method), *("-" if pd.isna(s) else f"{s:.2g}" for s in line)]
        for method, line in zip(seconds.index, seconds.to_numpy(), strict=True)
    ]
    return table(["method", *(f"{b:g} n" for b in seconds.columns)], lines)


EXPERIMENT = Experiment(
    name="suite",
    question="Who has the lowest error in which domain, from 3 to 100 evaluations per player?",
    plan=plan,
    summarise=summarise,
    methods=(*_OURS, *FIVE, *_OTHERS),
    games=("*",),
    instances=3,
    resolve=sources,
    check=check,
)
