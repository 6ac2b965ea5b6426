"""A constant, which the even half of a game has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.gp.parts.base import Hints, Part

if TYPE_CHECKING:
    from shapiq_oddshap.gp.parts.base import Players
    from shapiq_oddshap.sample import Parity

__all__ = ["Constant"]


@dataclass(frozen=True, eq=False)
class Constant(Part):
    """The same unknown value at every coalition; it carries no Shapley value or interaction."""

    @classmethod
    def start(cls, hints: Hints, parity: Parity = "even") -> Constant:
        """Start with a third of the targets' variance."""
        del hints
        return cls(0.3, parity=parity)

    def matrix(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return ones; see :class:`Part`."""
        return np.ones((len(left), len(right)), left.dtype)

    def add_functionals(self, out: np.ndarray, x: np.ndarray) -> None:
        """Add nothing; see :class:`Part`."""

    def add_prior_variances(self, out: np.ndarray) -> None:
        """Add nothing; see :class:`Part`."""

    def add_interactions(self, out: np.ndarray, x: np.ndarray, players: Players) -> None:
        """Add nothing; see :class:`Part`."""

    def add_interaction_variances(self, out: np.ndarray) -> None:
        """Add nothing; see :class:`Part`."""

    def term_variances(self, terms: np.ndarray) -> np.ndarray:
        """Return the variance for the empty term; see :class:`Part`."""
        return np.where(terms.any(axis=1), 0.0, self.variance)
