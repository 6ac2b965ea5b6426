"""``oddgp``: the odd Gaussian process against the estimators of shapiq and FFD-RD."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.stats import gmean

from benchmarks.experiment import Experiment, Planned
from benchmarks.games import FLOOR, PAPER_BUDGETS, game_title, games_of
from benchmarks.methods import METHODS
from benchmarks.report import table
from benchmarks.runner import Task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["EXPERIMENT"]

_PEERS = (
    "shapiq-oddshap",
    "regressionmsr",
    "regressionmsr-xgboost",
    "leverageshap",
    "kernelshap",
    "polyshap-3",
)
_LOW = (4, 10)
"""Low budgets, in evaluations per player."""

_DESIGN = "ffd-rd"
_DESIGN_GAMES = ("cancer", "cg60", "il60", "estate")

_SEEN_TREES, _SEEN_TABLES = 8, 10
"""Instances that served to choose the recipe: the first ones of tree games and of tables."""

_PROTOCOL = f"""Ratios of squared errors, geometric means over the instances from {_SEEN_TREES} on (of tables
from {_SEEN_TABLES} on): the earlier ones served to choose the recipe, these are untouched. Errors below
{FLOOR:.0e}, the rounding of models in single precision, count as {FLOOR:.0e}.
"""

_COVERAGE = f"""Share of the true values within, by game, over instances, players and budgets. A game that is
recovered to rounding (an error below {FLOOR:.0e}) has intervals of rounding's width, which tell
nothing of the process: the second column leaves these runs out.
"""


def plan(game: Planned, methods: Sequence[str], budgets: Sequence[int] | None) -> Iterator[Task]:
    """Yield the instances that served nowhere in choosing the estimator's recipe."""
    paper = PAPER_BUDGETS.get(game.source.name, 100 * game.n)
    own = METHODS[_DESIGN].own_budget
    design = own(game.n) if own and game.source.name in _DESIGN_GAMES else None
    regular = budgets or (*(factor * game.n for factor in _LOW), paper)
    for instance in game.instances[_SEEN_TREES if game.source.table is None else _SEEN_TABLES :]:
        for method in methods:
            if method != _DESIGN:
                yield from (Task(game.source, instance, method, budget) for budget in regular)
            if design and not budgets and method in (_DESIGN, "oddgp"):
                yield Task(game.source, instance, method, design)


def summarise(rows: pd.DataFrame, _directory: Path) -> str:
    """Return the targets with what was reached, the errors, the times and the coverage."""
    floored = rows.assign(value=np.maximum(rows["value"], FLOOR))
    errors = floored.groupby(["game", "budget", "method"])["value"].agg(gmean).unstack()  # noqa: PD010
    paper = _at(errors, PAPER_BUDGETS)
    players = rows.groupby("game")["n"].first()
    low = [_at(errors, (factor * players).to_dict()) for factor in _LOW]
    parts = [
        "## Targets\n",
        _PROTOCOL,
        table(["against", "over the games", "value", "bar", "aim"], _targets(errors, paper, low)),
        "## Errors at the paper's budgets\n",
        _error_table(paper),
        "## Errors at low budgets\n",
        *map(_error_table, low),
        "## Coverage of the 90 % intervals\n",
        _COVERAGE,
        _coverage_table(rows),
    ]
    return "\n".join(parts)


def _at(errors: pd.DataFrame, budgets: dict[str, int]) -> pd.DataFrame:
    """Return the errors by game at one budget each."""
    keys = [(game, budget) for game, budget in budgets.items() if (game, budget) in errors.index]
    return errors.loc[keys].droplevel("budget")


def _over_best(errors: pd.DataFrame, peers: Sequence[str]) -> pd.Series:
    """Return OddGP's errors over those of the best of some peers, where both are known."""
    both = errors.reindex(columns=["oddgp", *peers])
    return (both["oddgp"] / both[list(peers)].min(axis=1)).dropna()


def _targets(
    errors: pd.DataFrame, paper: pd.DataFrame, low: Sequence[pd.DataFrame]
) -> list[list[str]]:
    """Return a line per target."""
    against, best = _over_best(paper, ["shapiq-oddshap"]), _over_best(paper, _PEERS)
    at_low = pd.concat([_over_best(part, ["leverageshap", "shapiq-oddshap"]) for part in low])
    lines = [
        ["shapiq's OddSHAP", "geometric mean", _mean(against), "0.35", "0.2"],
        [
            "shapiq's OddSHAP",
            "the same without Estate",
            _mean(against.drop("estate", errors="ignore")),
            "",
            "",
        ],
        ["shapiq's OddSHAP", *_worst(against), "1.0", "0.6"],
        ["the best of shapiq's estimators per game", *_worst(best), "1.1", "0.8"],
        [
            "the better of LeverageSHAP and OddSHAP at 4n and 10n",
            "geometric mean",
            _mean(at_low),
            "0.5",
            "0.3",
        ],
    ]
    if _DESIGN in errors:
        designs = _over_best(errors, [_DESIGN]).droplevel("budget")
        lines.insert(4, ["FFD-RD at its budget", *_worst(designs), "1.0", "0.5"])
    return lines


def _mean(ratios: pd.Series) -> str:
    """Return the geometric mean."""
    return f"{gmean(ratios):.2g}" if len(ratios) else "-"


def _worst(ratios: pd.Series) -> tuple[str, str]:
    """Return which game is the worst, and its ratio."""
    if not len(ratios):
        return "worst", "-"
    game = ratios.idxmax()
    return f"worst: {game_title(game)}", f"{ratios[game]:.2g}"


def _error_table(errors: pd.DataFrame) -> str:
    """Return geometric mean errors by method and game."""
    games = [game for game in games_of(errors.reset_index()) if game in errors.index]
    lines = [
        [method, *("-" if np.isnan(e) else f"{e:.1e}" for e in errors.loc[games, method])]
        for method in errors.columns[errors.loc[games].notna().any()]
    ]
    return table(["method", *(game_title(game) for game in games)], lines)


def _coverage_table(rows: pd.DataFrame) -> str:
    """Return the coverage and the seconds relative to shapiq's OddSHAP by game."""
    paper = rows[rows["budget"] == rows["game"].map(PAPER_BUDGETS)]
    seconds = paper.pivot_table(index="game", columns="method", values="seconds", aggfunc="median")
    own = rows[rows["method"] == "oddgp"]
    covered = own.groupby("game")["covered"].mean()
    estimated = own[own["value"] > FLOOR].groupby("game")["covered"].mean()
    at_paper = paper[paper["method"] == "oddgp"].groupby("game")["covered"].mean()
    lines = []
    for game in games_of(rows):
        ratio = "-"
        if game in seconds.index and "shapiq-oddshap" in seconds:
            ratio = f"{seconds.loc[game, 'oddgp'] / seconds.loc[game, 'shapiq-oddshap']:.2g}"
        lines.append(
            [
                game_title(game),
                f"{covered[game]:.2f}",
                f"{estimated.get(game, np.nan):.2f}",
                f"{at_paper.get(game, np.nan):.2f}",
                ratio,
            ]
        )
    return table(
        [
            "game",
            "all runs",
            "without exact recoveries",
            "at the paper's budget",
            "time / shapiq's OddSHAP there",
        ],
        lines,
    )


EXPERIMENT = Experiment(
    name="oddgp",
    question="How much lower is the odd Gaussian process's error, and do its intervals cover?",
    plan=plan,
    summarise=summarise,
    methods=("oddgp", "oddshap", _DESIGN, *_PEERS),
    instances=16,
)
