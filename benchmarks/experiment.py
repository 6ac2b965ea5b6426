"""What the experiments have in common: which tasks, and what to say about their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from benchmarks.games import GAMES, Source
from benchmarks.runner import Task, Work, approximate

__all__ = ["Experiment", "Planned", "games_of"]


@dataclass(frozen=True)
class Planned:
    """A game that can be built.

    Attributes:
        source: The game.
        n: Its number of players.
        instances: The explained predictions.
    """

    source: Source
    n: int
    instances: range


Plan = Callable[[Planned, Sequence[str], "Sequence[int] | None"], Iterator[Task]]
Resolve = Callable[[Iterable[str], "Path | None", Iterable[Path]], list[Source]]
Summary = Callable[[pd.DataFrame, Path], str]


@dataclass(frozen=True)
class Experiment:
    """A subcommand that runs approximations.

    Attributes:
        name: Its name.
        question: What it answers, in one line.
        plan: Lists a game's tasks for methods and budgets; ``None`` for the default budgets.
        summarise: Draws figures into a directory and returns the results as Markdown.
        work: Runs a task.
        methods: The methods if none are given; ``None`` for all.
        games: The games if none are given.
        instances: Predictions per game if none are given.
        resolve: Finds the games of names, tables' directory and files; ``None`` for the paper's.
        check: Returns the lines of targets that were missed, for ``--check``; ``None`` for no such
            option.
    """

    name: str
    question: str
    plan: Plan
    summarise: Summary
    work: Work = approximate
    methods: tuple[str, ...] | None = None
    games: tuple[str, ...] = GAMES
    instances: int = 30
    resolve: Resolve | None = None
    check: Callable[[pd.DataFrame], list[str]] | None = None


def games_of(rows: pd.DataFrame) -> list[str]:
    """Return the games in the rows, the known ones in the paper's order."""
    present = list(rows["game"].unique())
    return [game for game in GAMES if game in present] + sorted(set(present) - set(GAMES))
