"""Explain rows by shapiq's explainers, with everything that an estimate knows."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from joblib import Parallel, delayed
from tqdm import tqdm

from shapiq_oddshap.approximators.base import ShapleyApproximator
from shapiq_oddshap.evaluated_game import EvaluatedGame, EvaluatedImputer, evaluated
from shapiq_oddshap.refit import RefitGame
from shapiq_oddshap.shapiq_adapter import (
    EveryClass,
    class_predictions,
    draws,
    fitted_imputer,
    imputer_of,
    name_of,
    rebased,
    refits_after_a_call,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Generator

    from shapiq import Explainer
    from shapiq.imputer.base import Imputer

    from shapiq_oddshap.diagnostics import Estimate

__all__ = ["explain"]

Classes = Literal["all"] | None

_BATCH = 16  # coalitions of an imputer that a kill may cost: one call of the model


def explain(
    explainer: Explainer,
    x: np.ndarray | None,
    budget: int,
    *,
    class_index: Classes = None,
    random_state: int | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    store: str | os.PathLike[str] | None = None,
) -> Estimate | list[Estimate] | list[list[Estimate]]:
    """Explain one row or many by one of shapiq's explainers, variances and diagnostics included.

    The values of a row are those of ``explainer.explain`` with the same seed. A model that is
    fitted anew for every coalition (:class:`shapiq.TabPFNExplainer`) is fitted once for all rows
    together. Rows that share their evaluations, and classes, also teach each other where the
    approximator is an :class:`~shapiq_oddshap.OddGP`.

    Args:
        explainer: A ``TabularExplainer``, ``TabPFNExplainer`` or ``AgnosticExplainer`` that was made
            with an approximator of this package.
        x: A row, shape ``(n,)``, or rows, shape ``(r, n)``; ``None`` for an agnostic explainer.
        budget: Coalitions that may be evaluated for each row; for all rows together where they share
            them.
        class_index: ``"all"`` explains all classes of a classifier, each batch of data by one call
            of the model; ``None`` the class of the explainer. An agnostic explainer's game then
            returns a column per output.
        random_state: The seed of the approximator and the imputer, as for ``explainer.explain``.
        n_jobs: Workers over rows that cannot share evaluations, through joblib's active backend.
        progress: Whether to show a bar over these rows.
        store: The path of a file that keeps the values of every row apart, and of rows that share
            evaluations together. After a crash or Ctrl-C, or for a larger budget, the same call
            pays only for what is missing, and five evaluations a row that check the file. Short for
            an explainer from :func:`~shapiq_oddshap.evaluated`, which has more options.

    Returns:
        An estimate for a row, a list of them for rows; with ``class_index="all"`` a list of classes
        in the place of each.

    Raises:
        TypeError: If the approximator is not of this package, the model no classifier where all
            classes are asked for, or the game an ``EvaluatedGame`` where a store is given.
        ValueError: If the class or the shape of ``x`` is another, or there is a store but no seed:
            other coalitions would be drawn at the next call.
        StoreError: If the file is no store or that of another game.

    Examples:
        >>> import numpy as np, shapiq, shapiq_oddshap
        >>> data = np.random.default_rng(0).normal(size=(40, 5))
        >>> approximator = shapiq_oddshap.OddGP(n=5, random_state=0)
        >>> explainer = shapiq.TabularExplainer(
        ...     lambda x: x[:, 0] + x[:, 1] * x[:, 2], data, approximator=approximator,
        ...     index="SV", max_order=1,
        ... )
        >>> estimates = shapiq_oddshap.explain(explainer, data[:3], 32)
        >>> len(estimates), estimates[0].diagnostics.path
        (3, 'exact')
    """
    approximator = explainer.approximator
    if not isinstance(approximator, ShapleyApproximator):
        msg = (
            f"Received an explainer with a {type(approximator).__name__}, but an approximator of "
            "shapiq_oddshap is required. Please pass approximator='oddgp', or an instance, to it."
        )
        raise TypeError(msg)
    if class_index not in (None, "all"):
        msg = (
            f"Received class_index={class_index!r}, but None or 'all' is required. A single class "
            "is an option of the explainer itself."
        )
        raise ValueError(msg)
    if random_state is not None:
        explainer.set_random_state(random_state)
    if store is not None:
        explainer = _stored(explainer, store)
    imputer = imputer_of(explainer)
    if imputer is None:
        return _game(explainer, x, budget, class_index)
    rows = _rows(x, imputer)
    within = imputer.game if isinstance(imputer, EvaluatedImputer) else imputer
    refits = refits_after_a_call(within)
    if refits and (len(rows) > 1 or class_index) and not approximator.adaptive:
        found = _refitted(explainer, imputer, rows, budget, class_index)
    else:
        tasks = (delayed(_row)(explainer, imputer, row, budget, class_index) for row in rows)
        workers = Parallel(n_jobs=1 if refits else n_jobs, return_as="generator")  # one model
        results: Generator[list[Estimate]] = workers(tasks)
        with closing(results):
            found = list(tqdm(results, total=len(rows), disable=not progress, unit=" rows"))
    single = x is None or np.ndim(x) == 1
    if class_index is None:
        plain = [estimate for (estimate,) in found]
        return plain[0] if single else plain
    return found[0] if single else found


def _stored(explainer: Explainer, store: str | os.PathLike[str]) -> Explainer:
    """Return a copy of an explainer whose evaluations are stored."""
    imputer = imputer_of(explainer)
    game = explainer.game if imputer is None else imputer
    if isinstance(game, EvaluatedGame):
        msg = (
            f"Received store={store!r} and an explainer of an EvaluatedGame. Please give the store "
            "to the EvaluatedGame."
        )
        raise TypeError(msg)
    if explainer.approximator.random_state is None or (imputer is not None and draws(imputer)):
        msg = (
            f"Received store={store!r} without a seed, so that another run would ask for other "
            "coalitions, or draw other background rows. Please pass random_state=42, or any other."
        )
        raise ValueError(msg)
    dear = imputer is None or refits_after_a_call(imputer)
    return evaluated(explainer, store=store, batch_size="auto" if dear else _BATCH)


def _rows(x: np.ndarray | None, imputer: Imputer) -> np.ndarray:
    """Return the rows, shape ``(r, n)``; without any, the one that the imputer was fitted to."""
    rows: np.ndarray = np.atleast_2d(imputer.x if x is None else np.asarray(x))
    n = imputer.n_players
    if rows.ndim != 2 or rows.shape[1] != n or len(rows) == 0:
        msg = f"Received x of shape {rows.shape}, but ({n},) for a row or (r, {n}) is required."
        raise ValueError(msg)
    return rows


def _game(
    explainer: Explainer, x: np.ndarray | None, budget: int, classes: Classes
) -> Estimate | list[Estimate]:
    """Explain an agnostic explainer's game, which has no rows."""
    if x is not None:
        msg = (
            f"Received x={x!r} with a game that has no rows. Please pass x=None, "
            "or an imputer as the game."
        )
        raise ValueError(msg)
    run = explainer.approximator
    if classes is None:
        estimate: Estimate = run.estimate(budget, explainer.game)
        return estimate
    estimates: list[Estimate] = run.estimate_outputs(budget, explainer.game)
    return estimates


def _row(
    explainer: Explainer, imputer: Imputer, row: np.ndarray, budget: int, classes: Classes
) -> list[Estimate]:
    """Explain a row on evaluations of its own: a list of one estimate, or one per class."""
    own, run = fitted_imputer(imputer, row), explainer.approximator
    if classes is None:
        return [_based(explainer, run.estimate(budget, own), float(own.empty_prediction))]
    game = every = EveryClass(own, class_predictions(explainer))
    if isinstance(own, EvaluatedImputer):
        game = own.around(every, name_of(row, own.random_state, classes))
    found = run.estimate_outputs(budget, game)
    pairs = zip(found, every.baselines.tolist(), strict=True)
    return [_based(explainer, estimate, baseline) for estimate, baseline in pairs]


def _refitted(
    explainer: Explainer, imputer: Imputer, rows: np.ndarray, budget: int, classes: Classes
) -> list[list[Estimate]]:
    """Explain rows of a model that is fitted anew for every coalition, once for all of them."""
    model, data, targets = imputer.model, imputer.x_train, imputer.y_train
    if classes is None:
        predict, empty = imputer.predict, np.array([float(imputer.empty_prediction)])
    else:
        predict = class_predictions(explainer)
        model.fit(data, targets)
        empty = predict(imputer.data).mean(axis=0)
    game = RefitGame(
        *(model, data, targets, rows),
        predict=lambda _model, some: predict(some),
        empty=np.tile(empty, len(rows)),
        in_place=True,
    )
    asked = game
    if isinstance(imputer, EvaluatedImputer):
        asked = imputer.around(game, name_of(rows, classes))
    try:
        found = explainer.approximator.estimate_outputs(budget, asked)
    finally:
        game.restore()  # as shapiq leaves it
    based = [
        _based(explainer, estimate, baseline)
        for estimate, baseline in zip(found, np.tile(empty, len(rows)).tolist(), strict=True)
    ]
    return [based[start : start + len(empty)] for start in range(0, len(based), len(empty))]


def _based(explainer: Explainer, estimate: Estimate, baseline: float) -> Estimate:
    """Return an estimate with the baseline that shapiq's explainers of rows set."""
    if hasattr(explainer, "game"):
        return estimate
    return replace(estimate, values=rebased(estimate.values, baseline))
