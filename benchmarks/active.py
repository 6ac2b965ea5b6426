"""``active``: what choosing the coalitions gives, at 3 to 20 evaluations per player.

Against drawing them, against the best of five of shapiq's estimators, and against ShaplEIG, which
chooses too, where the extra ``benchmarks-torch`` is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from benchmarks import suite
from benchmarks.experiment import Experiment, Planned
from benchmarks.report import table
from benchmarks.runner import Task
from benchmarks.suite import Bar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["EXPERIMENT", "STORED", "bars"]

_FACTORS = (3, 4, 5, 6, 8, 10, 15, 20)
_SHAPLEIG_FACTORS = (3, 5, 8)
_OURS = ("oddgp", "oddgp-paired", "oddgp-active")
_LARGEST_SHARE = 0.8  # of all coalitions
_LARGEST_PLAYERS = 100
STORED = (
    "adult-*",
    "bike-*",
    "california-*",
    "soum-*",
    "distilbert",
    "vit16",
    "estate-tabpfn",
)
"""Games of up to 16 players, whose values are known."""
_OF_MANY_PLAYERS = ("neighbours-50", "neighbours-100", "digits-network-64")


def plan(game: Planned, methods: Sequence[str], budgets: Sequence[int] | None) -> Iterator[Task]:
    """Yield every method at 3 to 20 evaluations per player; ShaplEIG, which takes long, at three."""
    if game.n > _LARGEST_PLAYERS:
        return
    slow = [factor * game.n for factor in _SHAPLEIG_FACTORS]
    for instance in game.instances:
        for budget in budgets or [factor * game.n for factor in _FACTORS]:
            if budget < _LARGEST_SHARE * 2.0**game.n:
                for method in methods:
                    if method != "shapleig" or budget in slow:
                        yield Task(game.source, instance, method, budget)


def bars(rows: pd.DataFrame) -> list[Bar]:
    """Return the targets with what was reached."""
    rows = suite.relative_errors(rows)
    closed = rows["domain"].isin(suite.CLOSED)
    stored = rows[~closed]
    best = suite.ratios_to_best(stored)
    return [
        *suite.mean_and_worst(
            "OddGP", "oddgp", "the best of five", best,
            {3: (0.38, "0.25"), 4: (0.28, "0.2"), 6: (0.28, "0.2")}, 1.2,
        ),
        _over_paired("shapiq's games, 10 n and above", stored, (10, 15, 20), 1.0, "0.9", worst=False),
        _over_paired("50 to 100 players, worst", rows[closed], (3, 6), 1.05, "0.8", worst=True),
        *suite.tabpfn_bars("OddGP", "oddgp", best, (0.6, "0.4"), (1.0, "0.8")),
        *_over_shapleig(rows),
        *suite.coverage_bars(stored),
    ]  # fmt: skip


def _logs(rows: pd.DataFrame, other: str, factors: Sequence[int], column: str) -> pd.Series:
    """Return the logarithm of OddGP's values over another's on the same runs, by game and factor."""
    some = rows[rows["factor"].isin(factors) & rows["method"].isin(["oddgp", other])]
    index = ["game", "factor", "instance", "repetition"]
    both = some.pivot_table(index=index, columns="method", values=column).dropna()
    if not {"oddgp", other} <= set(both):
        return pd.Series(dtype=float)
    return np.log(both["oddgp"] / both[other]).groupby(["game", "factor"]).mean()


def _over_paired(
    where: str, rows: pd.DataFrame, factors: Sequence[int], most: float, aim: str, *, worst: bool
) -> Bar:
    """Return the bar against drawn pairs: the geometric mean over families, or the worst of them."""
    logs = _logs(rows, "oddgp-paired", factors, "error")
    text = f"OddGP over OddGP with design='paired', {where}"
    if not len(logs):
        return Bar(text, None, most, aim)
    at = f"{logs.idxmax()[0]}, {logs.idxmax()[1]:g} n" if worst else ""
    return Bar(text, float(np.exp(logs.max() if worst else logs.mean())), most, aim, where=at)


def _over_shapleig(rows: pd.DataFrame) -> Iterator[Bar]:
    """Yield the bars against ShaplEIG."""
    for column, most, aim in (("error", 0.5, "0.3"), ("seconds", 0.05, "0.01")):
        logs = _logs(rows, "shapleig", _SHAPLEIG_FACTORS, column)
        value = float(np.exp(logs.mean())) if len(logs) else None
        yield Bar(f"OddGP over ShaplEIG, {column}, 3 n, 5 n and 8 n", value, most, aim)


def met(rows: pd.DataFrame) -> bool:
    """Return whether all bars that can be judged by the rows are met, and there are any."""
    judged = [bar.met for bar in bars(rows) if bar.met is not None]
    return bool(judged) and all(judged)


def summarise(rows: pd.DataFrame, directory: Path) -> str:
    """Return bars, ratios by domain and budget, errors, coverage and seconds."""
    judged = bars(rows)
    rows = suite.relative_errors(rows)
    suite.draw(rows, directory / "active.png")
    stored = rows[~rows["domain"].isin(suite.CLOSED)]
    instances = ", ".join(str(number) for number in sorted(rows["instance"].unique()))
    parts = [
        f"Protocol and names as in suite; these are instances {instances}. `oddgp` has design='auto'.\n",
        "## Bars\n",
        table(["what", "where", "value", "bar", "aim", "met"], [bar.line() for bar in judged]),
        "## Error over that of the best of shapiq's five\n",
        suite.overall_table(suite.ratios_to_best(stored)),
        *suite.domain_tables(rows),
        "## Errors\n\n![Relative squared error by domain](active.png)\n",
        suite.error_table(rows),
        "## Seconds\n\nMedian seconds outside the game.\n",
        suite.seconds_table(rows),
    ]
    return "\n".join(parts)


EXPERIMENT = Experiment(
    name="active",
    question="What does choosing the coalitions give, at 3 to 20 evaluations per player?",
    plan=plan,
    summarise=summarise,
    methods=(*_OURS, *suite.BEST_OF, "shapleig"),
    games=(*STORED, *_OF_MANY_PLAYERS),
    add_options=suite.add_options,
    sources=suite.sources,
    choose=suite.choose,
    met=met,
)
