"""``spectrum``: which share of a game's energy lies in interactions of which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.experiment import Experiment, Planned
from benchmarks.figures import spectrum_figure
from benchmarks.games import (
    CountedGame,
    GameUnavailableError,
    Instance,
    game_title,
    games_of,
    load_instance,
)
from benchmarks.report import table
from benchmarks.runner import Row, Task, row_of
from benchmarks.tree_game import TreeGameValues
from shapiq_oddshap.screening.sparse import HashedDesign, recover
from shapiq_oddshap.trees import fourier_spectrum

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pandas as pd

__all__ = ["SPECTRUM", "exact_spectrum", "spex_spectrum"]

_TRANSFORM_UP_TO = 20
_BUDGET = 100_000
_ROUNDS = 3
_HIGHEST = 7
"""Orders from here on are added up."""


def plan(game: Planned, methods: Sequence[str], budgets: Sequence[int] | None) -> Iterator[Task]:
    """Yield the exact spectrum, and SPEX's at 100,000 evaluations where these are not all."""
    for instance in game.instances:
        if "exact" in methods:
            yield Task(game.source, instance, "exact", 2**game.n)
        for budget in budgets or (_BUDGET,):
            if "spex" in methods and budget < 2**game.n:
                yield Task(game.source, instance, "spex", budget)


def energies(task: Task) -> list[Row]:
    """Return a row per interaction order: its share of the energy of all orders but the zeroth."""
    instance = load_instance(task.source, task.instance)
    game = CountedGame(instance)
    try:
        with threadpool_limits(1):
            orders, squares = (
                exact_spectrum(instance)
                if task.method == "exact"
                else spex_spectrum(game, task.budget, task.seed)
            )
    except GameUnavailableError as error:
        return [row_of(task, n=instance.n, note=f"left out: {error}")]
    by_order = np.bincount(np.minimum(orders, _HIGHEST), squares, minlength=_HIGHEST + 1)[1:]
    return [
        row_of(task, order=order, value=float(share), evaluations=game.evaluations, n=instance.n)
        for order, share in enumerate(by_order / by_order.sum(), start=1)
    ]


def exact_spectrum(instance: Instance) -> tuple[np.ndarray, np.ndarray]:
    """Return the order and the squared coefficient of all Fourier terms.

    Trees are expanded leaf by leaf; other games are transformed (Walsh-Hadamard) as a whole.
    """
    if isinstance(instance.value_function, TreeGameValues):
        spectrum = fourier_spectrum(instance.value_function.leaves(), odd_only=False)
        return spectrum.orders, spectrum.coefficients**2
    n = instance.n
    if n > _TRANSFORM_UP_TO:
        msg = f"the transform of 2^{n} values is too large"
        raise GameUnavailableError(msg)
    bits = np.arange(2**n)
    transformed = instance.value_function((bits[:, None] >> np.arange(n) & 1).astype(bool))
    for player in range(n):
        pairs = transformed.reshape(-1, 2, 2**player)
        transformed = np.stack([pairs.sum(axis=1), pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
    return np.bitwise_count(bits), (transformed / 2**n) ** 2


def spex_spectrum(game: CountedGame, budget: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return order and squared coefficient of the terms that SPEX recovers in three rounds."""
    n, rng = game.n_players, np.random.default_rng(seed)
    bits = (budget // (_ROUNDS * (n + 1))).bit_length() - 1
    if bits < 1:
        msg = f"{budget} evaluations are too few for SPEX with {n} players"
        raise GameUnavailableError(msg)
    design = HashedDesign.draw(n, bits, _ROUNDS, rng)
    coalitions = design.coalitions()
    values = game(coalitions.reshape(-1, n)).reshape(coalitions.shape[:-1])
    terms, coefficients = recover(design, values - values.mean(), strict=False)
    return terms.sum(axis=1), coefficients**2


def summarise(rows: pd.DataFrame, directory: Path) -> str:
    """Draw and tabulate the mean shares by order."""
    spectrum_figure(rows, directory / "spectrum.png")
    means = rows.groupby(["game", "method", "order"])["value"].mean().unstack()  # noqa: PD010
    means.columns = [int(order) for order in means]
    lines = []
    for game in games_of(rows):
        for method in means.loc[game].index:
            shares = means.loc[(game, method)]
            odd = shares[[order for order in shares.index if order % 2 and order > 1]].sum()
            lines.append(
                [
                    f"{game_title(game)}, {method}",
                    *(f"{100 * share:.3g}" for share in shares),
                    f"{100 * shares[shares.index >= 5].sum():.2g}",
                    f"{100 * odd:.2g}",
                ]
            )
    orders = [f"{order}" for order in range(1, _HIGHEST)] + [f"≥ {_HIGHEST}"]
    header = ["% of the energy, by order", *orders, "5 and above", "odd above 1"]
    return "![](spectrum.png)\n\nMeans over instances; the constant is left out.\n\n" + table(
        header, lines
    )


SPECTRUM = Experiment(
    name="spectrum",
    question="Which share of a game's energy lies in interactions of which order?",
    plan=plan,
    summarise=summarise,
    work=energies,
    methods=("spex", "exact"),
    instances=10,
)
