"""Everything private or version-dependent of shapiq that the package touches.

Supported are shapiq 1.4.1 (the newest for Python 3.11) to 1.8. Private and stable over these:
the explainers' ``APPROXIMATOR_CONFIGURATIONS`` and ``setup_approximator``, ``Approximator._random_state``,
``_rng`` and ``_sampler``, the arrays that ``CoalitionSampler`` keeps its sample in, ``Imputer._rng``,
``_x`` and ``_predict_function``, and ``Explainer._imputer``.
"""

from __future__ import annotations

import copy
import hashlib
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from shapiq import InteractionValues
from shapiq.approximator.base import Approximator
from shapiq.approximator.sampling import CoalitionSampler
from shapiq.explainer.configuration import APPROXIMATOR_CONFIGURATIONS
from shapiq.imputer import BaselineImputer, TabPFNImputer
from shapiq.imputer.base import Imputer

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from shapiq import Explainer

    Predict = Callable[[np.ndarray], np.ndarray]
    Check = Callable[[object, str, int], None]

__all__ = [
    "EveryClass",
    "FilledCoalitionSampler",
    "ShapleyAdapter",
    "class_predictions",
    "draws",
    "explained_row",
    "explainer_approximators",
    "fitted_imputer",
    "imputer_of",
    "is_imputer",
    "name_of",
    "rebased",
    "refits_after_a_call",
    "watch_explainers",
    "with_game",
]


def explainer_approximators() -> MutableMapping[str, dict[str, type[Approximator]]]:
    """Return the mutable table in which shapiq's explainers look up ``approximator="name"``."""
    table: MutableMapping[str, dict[str, type[Approximator]]] = APPROXIMATOR_CONFIGURATIONS
    return table


def watch_explainers(check: Check | None) -> None:
    """Let a check see the approximator, the index and the order that an explainer is made with.

    shapiq hands an instance through without a look at its index, and never tells it of the
    explainer's; so that the function which does so is wrapped, where explainers look it up.

    Args:
        check: Raises what the explainer shall; ``None`` takes the check away.
    """
    for name in ("agnostic", "tabular"):  # TabPFN's explainer is a tabular one
        module = import_module(f"shapiq.explainer.{name}")
        setup = module.setup_approximator
        setup = setup.setup if isinstance(setup, _WatchedSetup) else setup
        module.setup_approximator = setup if check is None else _WatchedSetup(setup, check)  # type: ignore[attr-defined]


class _WatchedSetup:
    """shapiq's ``setup_approximator`` after a check."""

    def __init__(self, setup: Callable[..., Approximator], check: Check) -> None:
        """Keep both."""
        self.setup = setup
        self._check = check

    def __call__(
        self,
        approximator: Any,  # noqa: ANN401 - a name or an instance
        index: str,
        max_order: int,
        n_players: int,
        random_state: int | None = None,
    ) -> Approximator:
        """Check and set up; the arguments are shapiq's."""
        self._check(approximator, index, max_order)
        return self.setup(approximator, index, max_order, n_players, random_state)


def is_imputer(game: object) -> bool:
    """Return whether a game is one of shapiq's imputers, whose ``fit`` chooses the explained row."""
    return isinstance(game, Imputer)


def explained_row(imputer: Imputer) -> bytes:
    """Return a name for the row that an imputer explains and for its random state."""
    return name_of(imputer._x, imputer.random_state)  # noqa: SLF001


def name_of(rows: np.ndarray | None, *what: object) -> bytes:
    """Return a name for rows, and whatever else tells their games apart."""
    values = None if rows is None else np.asarray(rows).tolist()
    return hashlib.sha256(repr((values, *what)).encode()).digest()[:16]


def refits_after_a_call(game: object) -> bool:
    """Return whether a game fits a model per coalition, and once more at the end of every call."""
    return isinstance(game, TabPFNImputer) and (
        type(game).value_function is TabPFNImputer.value_function
    )


def draws(imputer: Imputer) -> bool:
    """Return whether an imputer draws rows of its background data without a seed."""
    fixed = isinstance(imputer, BaselineImputer | TabPFNImputer)
    return not fixed and getattr(imputer, "random_state", 0) is None


def with_game(explainer: Explainer, wrap: Callable[[Any], Any]) -> Explainer:
    """Put a wrapped imputer or game into an explainer, in place.

    Raises:
        TypeError: If it has neither.
    """
    name = "game" if hasattr(explainer, "game") else "_imputer"
    if getattr(explainer, name, None) is None:
        msg = (
            f"Received a {type(explainer).__name__}, but an explainer with an imputer or a game is "
            "required, such as shapiq.TabularExplainer."
        )
        raise TypeError(msg)
    setattr(explainer, name, wrap(getattr(explainer, name)))
    return explainer


class FilledCoalitionSampler(CoalitionSampler):  # type: ignore[misc]
    """A sampler whose public attributes are filled from a finished coalition matrix."""

    def __init__(self, n_players: int, *, pairing_trick: bool, random_state: int | None) -> None:
        """Initialize shapiq's sampler with equal mass on all inner sizes."""
        mass = np.ones(n_players + 1)
        super().__init__(n_players, mass, pairing_trick=pairing_trick, random_state=random_state)

    @property
    def sampled_coalitions_dict(self) -> dict[tuple[int, ...], int]:
        """The sampled coalitions as tuples with their counts; made on demand, it is slow."""
        return {tuple(np.flatnonzero(row).tolist()): 1 for row in self._sampled_coalitions_matrix}

    @sampled_coalitions_dict.setter
    def sampled_coalitions_dict(self, value: dict[tuple[int, ...], int]) -> None:
        """Ignore what shapiq's constructor sets; the matrix is the one truth."""

    def fill(self, coalitions: np.ndarray) -> None:
        """Take ``coalitions``, distinct boolean rows of shape ``(m, n)``, as the sample.

        Sizes that are complete count as computed exactly, the others as sampled with a probability
        that is their share of the sample.
        """
        sizes = coalitions.sum(axis=1)
        per_size = np.bincount(sizes, minlength=self.n + 1)
        # sizes whose population overflows are never complete: inf compares as it should
        complete = per_size >= self.n_max_coalitions_per_size
        drawn = per_size * ~complete
        share = np.where(complete, 1.0, drawn / max(drawn.sum(), 1))
        self.coalitions_per_size = per_size
        self._coalitions_to_compute = np.flatnonzero(complete).tolist()
        self._coalitions_to_sample = np.flatnonzero(~complete).tolist()
        self.adjusted_sampling_weights = share[~complete]
        self._is_coalition_size_sampled = ~complete
        self._sampled_coalitions_matrix = coalitions
        self._sampled_coalitions_counter = np.ones(len(coalitions), dtype=int)
        self._sampled_coalitions_size_prob = share[sizes]
        self._sampled_coalitions_in_size_prob = np.where(
            complete, 1.0, 1.0 / self.n_max_coalitions_per_size
        )[sizes]


class ShapleyAdapter(Approximator):  # type: ignore[misc]
    """shapiq's ``Approximator`` for Shapley values and pairs of players, without state between runs."""

    valid_indices: tuple[str, ...] = ("SV", "SII", "k-SII")

    def __init__(self, n: int, *, max_order: int, index: str, random_state: int | None) -> None:
        """Initialize shapiq's base class after checking what it would take silently."""
        super().__init__(
            n=n,
            max_order=max_order,
            index=index,
            min_order=0,
            pairing_trick=True,
            random_state=random_state,
        )

    @property
    def random_state(self) -> int | None:
        """The seed of every run; ``None`` takes fresh entropy for each."""
        state: int | None = self._random_state
        return state

    def _interaction_values(
        self, phi: np.ndarray, *, empty_value: float, evaluations: int, exact: bool
    ) -> InteractionValues:
        """Wrap values by order, without the empty one, as shapiq's estimators do.

        From Shapley interactions shapiq makes the k-SII itself.
        """
        return InteractionValues(
            values=np.concatenate([[empty_value], phi]),
            index=self.approximation_index,
            target_index=self.index,
            max_order=self.max_order,
            min_order=0,
            n_players=self.n,
            interaction_lookup=dict(self.interaction_lookup),
            estimated=not exact,
            estimation_budget=evaluations,
            baseline_value=empty_value,
        )


def imputer_of(explainer: Explainer) -> Imputer | None:
    """Return an explainer's imputer, which may be an agnostic explainer's game; else ``None``."""
    game = getattr(explainer, "game", None)
    candidates = (game, None if game is not None else explainer.imputer)
    return next((each for each in candidates if is_imputer(each)), None)


def fitted_imputer(imputer: Imputer, row: np.ndarray) -> Imputer:
    """Return a copy that explains a row, shape ``(n,)``: rows do not disturb each other."""
    own = copy.copy(imputer)
    if "game" in vars(own):  # an evaluated one, which fits and seeds the imputer that it wraps
        own.game = fitted_imputer(own.game, row)
    else:
        own._rng = copy.deepcopy(imputer._rng)  # noqa: SLF001
    own.fit(row)
    return own


def class_predictions(explainer: Explainer) -> Predict:
    """Return a function from data to the predictions of all classes, ``(rows, classes)``.

    Raises:
        TypeError: If the model does not predict several classes.
    """
    model = explainer.model
    predict = getattr(model, "predict_proba", model)
    if not callable(predict):
        msg = (
            f"Received class_index='all' with a {type(model).__name__}, but a classifier with "
            "predict_proba is required, or a function that returns a column per class."
        )
        raise TypeError(msg)
    return lambda data: np.asarray(predict(data))


def rebased(values: InteractionValues, baseline: float) -> InteractionValues:
    """Return values whose empty interaction is a baseline, as shapiq's explainers leave them."""
    values.baseline_value = baseline
    values[()] = baseline
    return values


class EveryClass:
    """An imputer for all classes at once: the model is asked once for what each class needs.

    The imputer runs once per class. Its first run asks the model and keeps the answers, the others
    are given their columns of these.

    Attributes:
        baselines: The empty predictions, shape ``(classes,)``.
    """

    def __init__(self, imputer: Imputer, predict: Predict) -> None:
        """Ask for the empty predictions.

        Args:
            imputer: A fitted imputer; it is copied. Of an evaluated one the imputer within is
                taken, which alone can answer for several classes.
            predict: Returns the predictions of all classes, see :func:`class_predictions`.
        """
        imputer = vars(imputer).get("game", imputer)
        self._predict = predict
        self._normalized = bool(imputer.normalize)
        self._imputers: list[Imputer] = [imputer]
        answers: list[np.ndarray] = []
        empty = [self._asked(imputer, 0, answers).calc_empty_prediction()]
        classes = answers[0].shape[1] if answers[0].ndim == 2 else 1
        empty += [
            self._asked(imputer, each, answers).calc_empty_prediction()
            for each in range(1, classes)
        ]
        self.baselines = np.array(empty, dtype=float)
        self._imputers = [self._of_class(imputer, value) for value in self.baselines.tolist()]

    def __call__(self, coalitions: np.ndarray) -> np.ndarray:
        """Return the values of coalitions for all classes, shape ``(m, classes)``."""
        answers: list[np.ndarray] = []
        columns = [
            self._asked(imputer, each, answers)(coalitions)
            for each, imputer in enumerate(self._imputers)
        ]
        return np.stack(columns, axis=1)

    def _of_class(self, imputer: Imputer, empty: float) -> Imputer:
        """Return an imputer with the empty prediction of a class."""
        own = copy.copy(imputer)
        own.empty_prediction = empty
        if self._normalized:
            own.normalization_value = empty
        return own

    def _asked(self, imputer: Imputer, each: int, answers: list[np.ndarray]) -> Imputer:
        """Return a copy whose model answers for one class, from the answers if there are some."""
        own = copy.copy(imputer)
        own._rng = copy.deepcopy(imputer._rng)  # noqa: SLF001
        known = iter(list(answers) if each else [])

        def predict(_model: Any, data: np.ndarray) -> np.ndarray:  # noqa: ANN401
            if each == 0:
                answers.append(self._predict(data))
                return answers[-1].reshape(len(answers[-1]), -1)[:, 0]
            return next(known)[:, each]

        own._predict_function = predict  # noqa: SLF001
        return own
