"""``table1``: the error at about 100 evaluations per player, beside the paper's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from benchmarks.experiment import Experiment, Planned
from benchmarks.games import PAPER_BUDGETS, PAPER_GAMES, game_title, games_of
from benchmarks.methods import METHODS, PAPER_NAMES
from benchmarks.report import number, table
from benchmarks.runner import Task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["EXPERIMENT", "mean_errors", "paper_errors"]

_EVALUATIONS_PER_PLAYER = 100
_TOP = 3
_TOLERANCE = 1.25
"""A factorial design fixes its budget; it may take so many times the table's."""


def plan(game: Planned, methods: Sequence[str], budgets: Sequence[int] | None) -> Iterator[Task]:
    """Yield every method at the paper's budget of the game."""
    default = PAPER_BUDGETS.get(game.source.name, _EVALUATIONS_PER_PLAYER * game.n)
    for instance in game.instances:
        for budget in budgets or (default,):
            for method in methods:
                yield Task(game.source, instance, method, _allowed(method, game.n, budget))


def _allowed(method: str, n: int, budget: int) -> int:
    """Return the budget, or that of a design which takes little more."""
    own_budget = METHODS[method].own_budget
    own = own_budget(n) if own_budget else budget
    return own if budget < own <= _TOLERANCE * budget else budget


def paper_errors() -> pd.DataFrame:
    """Return the paper's mean errors by method and game, in our names."""
    errors = pd.read_csv(Path(__file__).with_name("paper_table1.csv"), index_col="method")
    columns = {game.column: name for name, game in PAPER_GAMES.items() if game.column}
    errors = errors.rename(
        index={theirs: ours for ours, theirs in PAPER_NAMES.items()}, columns=columns
    )
    return errors[list(columns.values())]


def mean_errors(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean error by method and game, in the order of the methods and games."""
    means = rows.pivot_table(index="method", columns="game", values="value", aggfunc="mean")
    return means[games_of(rows)]


def summarise(rows: pd.DataFrame, _directory: Path) -> str:
    """Return the tables: means and ranks, beside the paper, quartiles, and the top three."""
    means, paper = mean_errors(rows), paper_errors()
    counts = rows.groupby("game")["instance"].nunique()
    budgets = rows.groupby("game")["budget"].median().astype(int)
    parts = [
        "## Mean squared error\n",
        "Means over "
        + ", ".join(
            f"{counts[game]} instances of {game_title(game)} (m = {budgets[game]})"
            for game in means
        )
        + ". A factorial design may take up to a quarter more evaluations, since it fixes its budget. "
        "Ranks are averaged over the games that a method has a value for; the best is bold.\n",
        _mean_table(means),
        "## Beside the paper\n",
        "Our mean divided by the paper's; below 1 is less error than in the paper.\n",
        _ratio_table(means, paper),
        "## The three best\n",
        "Among the methods of the paper's table, by mean error.\n",
        _top_table(means, paper),
        "## Quartiles\n",
        "First quartile / median / third quartile.\n",
        _quartile_table(rows, means),
    ]
    return "\n".join(parts)


def _mean_table(means: pd.DataFrame) -> str:
    """Return means and average ranks, best first."""
    ranks = means.rank().mean(axis=1).sort_values()
    best = means.min()
    lines = [
        [
            method,
            *(
                _bold(number(means.loc[method, game]), means.loc[method, game] == best[game])
                for game in means
            ),
            f"{rank:.2f}",
        ]
        for method, rank in ranks.items()
    ]
    return table(["method", *map(game_title, means), "rank"], lines)


def _bold(text: str, best: bool) -> str:  # noqa: FBT001
    """Return the text, bold where it is the best."""
    return f"**{text}**" if best else text


def _ratio_table(means: pd.DataFrame, paper: pd.DataFrame) -> str:
    """Return our errors divided by the paper's where both exist."""
    games = [game for game in means if game in paper]
    methods = [method for method in paper.index if method in means.index]
    ratios = means.loc[methods, games] / paper.loc[methods, games]
    lines = [[m, *("-" if pd.isna(r) else f"{r:.2g}" for r in ratios.loc[m])] for m in methods]
    return table(["method", *map(game_title, games)], lines)


def _top_table(means: pd.DataFrame, paper: pd.DataFrame) -> str:
    """Return the three best per game, here and in the paper, and whether they agree."""
    lines = []
    for game in means:
        if game not in paper:
            continue
        ours = means.loc[means.index.isin(paper.index), game].nsmallest(_TOP)
        theirs = paper[game].nsmallest(_TOP)
        same = "yes" if list(ours.index) == list(theirs.index) else "no"
        lines.append([game_title(game), _ranking(ours), _ranking(theirs), same])
    return table(["game", "here", "paper", "same order"], lines)


def _ranking(errors: pd.Series) -> str:
    """Return methods with their errors, best first."""
    return ", ".join(f"{method} ({number(error)})" for method, error in errors.items())


def _quartile_table(rows: pd.DataFrame, means: pd.DataFrame) -> str:
    """Return the quartiles by method and game."""
    quartiles = rows.groupby(["method", "game"])["value"].quantile([0.25, 0.5, 0.75]).unstack()  # noqa: PD010
    cells = {key: " / ".join(map(number, values)) for key, *values in quartiles.itertuples()}
    lines = [[m, *(cells.get((m, game), "-") for game in means)] for m in means.index]
    return table(["method", *map(game_title, means)], lines)


EXPERIMENT = Experiment(
    name="table1",
    question="How large is the error at about 100 evaluations per player, beside the paper's?",
    plan=plan,
    summarise=summarise,
)
