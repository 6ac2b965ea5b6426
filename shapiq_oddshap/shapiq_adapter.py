"""Everything private or version-dependent of shapiq that the package touches.

Supported are shapiq 1.4.1 (the newest for Python 3.11) to 1.8. Private and stable over these:
the explainers' ``APPROXIMATOR_CONFIGURATIONS``, ``Approximator._random_state``, ``_rng`` and
``_sampler``, and the arrays that ``CoalitionSampler`` keeps its sample in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from shapiq import InteractionValues
from shapiq.approximator.base import Approximator
from shapiq.approximator.sampling import CoalitionSampler
from shapiq.explainer.configuration import APPROXIMATOR_CONFIGURATIONS
from shapiq.imputer import TabPFNImputer
from shapiq.imputer.base import Imputer

if TYPE_CHECKING:
    from collections.abc import MutableMapping

__all__ = [
    "FilledCoalitionSampler",
    "ShapleyAdapter",
    "explained_row",
    "explainer_approximators",
    "is_imputer",
    "refits_after_a_call",
]


def explainer_approximators() -> MutableMapping[str, dict[str, type[Approximator]]]:
    """Return the mutable table in which shapiq's explainers look up ``approximator="name"``."""
    table: MutableMapping[str, dict[str, type[Approximator]]] = APPROXIMATOR_CONFIGURATIONS
    return table


def is_imputer(game: object) -> bool:
    """Return whether a game is one of shapiq's imputers, whose ``fit`` chooses the explained row."""
    return isinstance(game, Imputer)


def explained_row(game: object) -> bytes | None:
    """Return the row that an imputer explains, ``None`` for other games and before its first fit."""
    row = getattr(game, "_x", None) if is_imputer(game) else None
    return None if row is None else repr(np.asarray(row).tolist()).encode()


def refits_after_a_call(game: object) -> bool:
    """Return whether every call of a game ends in a refit of its model, which large batches spare."""
    return isinstance(game, TabPFNImputer)


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
