"""``curves`` and ``runtime``: the error against evaluations, and against time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from benchmarks.experiment import Experiment, Planned
from benchmarks.figures import band, bound_errors, method_style, panels, save
from benchmarks.games import game_title, games_of
from benchmarks.methods import METHODS, is_ablation
from benchmarks.report import number, table
from benchmarks.runner import Task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["CURVES", "RUNTIME"]

COSTS = (0.001, 0.01, 0.1, 1.0)
"""Simulated seconds per evaluation."""
_METHODS = tuple(method for method in METHODS if not is_ablation(method))
_STEPS = 10
_LARGEST = 20_000


def plan(game: Planned, methods: Sequence[str], budgets: Sequence[int] | None) -> Iterator[Task]:
    """Yield ten budgets in equal ratios; a method whose budget is fixed gets its own."""
    grids: dict[str, Sequence[int]] = {}
    for method in methods:
        own_budget = METHODS[method].own_budget
        grids[method] = [own_budget(game.n)] if own_budget else budgets or budget_grid(game.n)
    for instance in game.instances:
        for method, grid in grids.items():
            for budget in grid:
                yield Task(game.source, instance, method, budget)


def budget_grid(n: int) -> list[int]:
    """Return n+1 … min(2ⁿ, 20000) in ten steps of equal ratio."""
    last = min(2**n, _LARGEST)
    return [round(budget) for budget in np.geomspace(min(n + 1, last), last, _STEPS)]


def curves_summary(rows: pd.DataFrame, directory: Path) -> str:
    """Draw the error against the budget, and tabulate the last medians."""
    games = games_of(rows)
    figure, axes = panels(games, "evaluations", "mean squared error")
    for game, method, part in _groups(rows):
        band(axes[game], part, "budget", "value", label=method, **method_style(method))
    bound_errors(axes)
    save(figure, directory / "curves.png")
    return (
        "![Error against evaluations](curves.png)\n\nMedian over instances with interquartile "
        "band. A method with a fixed budget is a point. Errors below 1e-11 are not drawn.\n\n## Best method by budget\n\n"
        "The smallest median error among the methods with a free budget.\n\n" + _best_table(rows)
    )


def _best_table(rows: pd.DataFrame) -> str:
    """Return the best method per game and budget step."""
    medians = rows.groupby(["game", "budget", "method"])["value"].median().reset_index()
    medians = medians[[not METHODS[method].own_budget for method in medians["method"]]]
    lines = []
    for game in games_of(rows):
        part = medians[medians["game"] == game]
        best = part.loc[part.groupby("budget")["value"].idxmin()]
        lines += [
            [game_title(game), str(row.budget), str(row.method), number(row.value)]
            for row in best.itertuples()
        ]
    return table(["game", "evaluations", "method", "median error"], lines)


def runtime_summary(rows: pd.DataFrame, directory: Path) -> str:
    """Draw the error against simulated time, the estimators' own time, and its stages."""
    games = games_of(rows)
    for cost in COSTS:
        figure, axes = panels(games, "seconds", "mean squared error")
        timed = rows.assign(place=rows["seconds"] + cost * rows["evaluations"])
        for game, method, part in _groups(timed):
            band(axes[game], part, "budget", "value", label=method, **method_style(method))
        bound_errors(axes)
        save(figure, directory / f"cost-{cost:g}.png")
    figure, axes = panels(games, "evaluations", "seconds outside the game")
    for game, method, part in _groups(rows):
        band(axes[game], part, "budget", "seconds", label=method, **method_style(method))
    save(figure, directory / "overhead.png")
    staged = stages(rows[rows["method"] == "oddshap"])
    if len(staged):
        _draw_stages(staged, directory / "stages.png")
    return (
        "Errors against the time of a run: the estimator's own seconds plus the given cost per "
        "evaluation; median with interquartile band.\n\n"
        + "\n".join(f"## {cost:g} s per evaluation\n\n![](cost-{cost:g}.png)\n" for cost in COSTS)
        + "\n## The estimators' own time\n\n![](overhead.png)\n\n"
        + _seconds_table(rows)
        + "\n## OddSHAP's stages\n\n![](stages.png)\n"
    )


def stages(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row per stage, with its seconds."""
    parsed = rows.assign(stage=[list(json.loads(text).items()) for text in rows["stages"]])
    parsed = parsed.explode("stage").dropna(subset="stage")
    parsed["stage_seconds"] = [seconds for _, seconds in parsed["stage"]]
    parsed["stage"] = [name for name, _ in parsed["stage"]]
    return parsed[(parsed["stage"] != "evaluation") & (parsed["stage_seconds"] > 0)]


def _draw_stages(staged: pd.DataFrame, file: Path) -> None:
    """Draw the seconds of every stage against the budget."""
    games = games_of(staged)
    figure, axes = panels(games, "evaluations", "seconds")
    names = sorted(staged["stage"].unique())
    for (game, stage), part in staged.groupby(["game", "stage"]):
        style = {"color": f"C{names.index(stage)}", "marker": "o", "linewidth": 1.2}
        band(axes[game], part, "budget", "stage_seconds", label=stage, **style)
    save(figure, file)


def _seconds_table(rows: pd.DataFrame) -> str:
    """Return the median seconds at the largest free budget of a game."""
    free = rows[[not METHODS[method].own_budget for method in rows["method"]]]
    largest = free[free["budget"] == free.groupby("game")["budget"].transform("max")]
    seconds = largest.pivot_table(
        index="method", columns="game", values="seconds", aggfunc="median"
    )
    games = [game for game in games_of(rows) if game in seconds]
    lines = [
        [method, *("-" if pd.isna(s) else f"{s:.2g}" for s in seconds.loc[method, games])]
        for method in seconds.mean(axis=1).sort_values().index
    ]
    header = ["median seconds at the largest budget", *(game_title(g) for g in games)]
    return table(header, lines)


def _groups(rows: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield the rows of every game and method, methods in their order."""
    for game in games_of(rows):
        for method in METHODS:
            part = rows[(rows["game"] == game) & (rows["method"] == method)]
            if len(part):
                yield game, method, part


CURVES = Experiment(
    name="curves",
    question="How does the error fall with the number of evaluations?",
    plan=plan,
    summarise=curves_summary,
    methods=_METHODS,
    instances=10,
)
RUNTIME = Experiment(
    name="runtime",
    question="How does the error fall with time, if an evaluation takes 0.001 to 1 second?",
    plan=plan,
    summarise=runtime_summary,
    methods=_METHODS,
    instances=5,
)
