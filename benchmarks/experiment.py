"""What the experiments have in common: which games and tasks, and what to say about their rows."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from benchmarks.games import GAMES, Source, resolve_games
from benchmarks.runner import Task, Work, approximate

__all__ = ["Experiment", "Planned", "positive"]


def positive(text: str) -> int:
    """Return an option's number, one at least."""
    number = int(text)
    if number < 1:
        msg = f"{number} is not positive"
        raise argparse.ArgumentTypeError(msg)
    return number


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
Summary = Callable[[pd.DataFrame, Path], str]


def _named(args: argparse.Namespace) -> list[Source]:
    """Return the games of ``--games`` and ``--table``."""
    return resolve_games(args.games, args.tables, args.table)


def _first(args: argparse.Namespace, _source: Source, count: int) -> range:
    """Return the first ``--instances`` of a game's instances."""
    return range(min(args.instances, count))


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
        add_options: Adds options of its own to the command.
        sources: Returns the games by the command's options.
        choose: Returns which of a game's instances run, by the command's options and their number.
        met: Whether rows meet the experiment's bars, for ``--check``; ``None`` if it has none.
    """

    name: str
    question: str
    plan: Plan
    summarise: Summary
    work: Work = approximate
    methods: tuple[str, ...] | None = None
    games: tuple[str, ...] = GAMES
    instances: int = 30
    add_options: Callable[[argparse.ArgumentParser], None] = lambda _command: None
    sources: Callable[[argparse.Namespace], list[Source]] = _named
    choose: Callable[[argparse.Namespace, Source, int], range] = _first
    met: Callable[[pd.DataFrame], bool] | None = None
