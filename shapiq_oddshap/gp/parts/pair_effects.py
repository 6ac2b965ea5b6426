"""Pairwise effects of their own: ``(2 v / n(n-1)) sum_{i<k} x_i x_k x'_i x'_k``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.gp.parts.base import Hints, Part

if TYPE_CHECKING:
    from shapiq_oddshap.gp.parts.base import Players
    from shapiq_oddshap.sample import Parity

__all__ = ["PairEffects"]


@dataclass(frozen=True, eq=False)
class PairEffects(Part):
    """Independent effects of all pairs of players, of equal variance: what main effects are to odd."""

    @classmethod
    def start(cls, hints: Hints, parity: Parity = "even") -> PairEffects:
        """Start with a third of the targets' variance."""
        del hints
        return cls(0.3, parity=parity)

    def matrix(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return ``((x . x')^2 - n) / (n (n - 1))``; see :class:`Part`."""
        n = left.shape[1]
        out: np.ndarray = left @ right.T
        out *= out
        out -= n
        out /= n * (n - 1)
        return out

    def add_functionals(self, out: np.ndarray, x: np.ndarray) -> None:
        """Add nothing; see :class:`Part`."""

    def add_prior_variances(self, out: np.ndarray) -> None:
        """Add nothing; see :class:`Part`."""

    def add_interactions(self, out: np.ndarray, x: np.ndarray, players: Players) -> None:
        """Add four times a pair's own term; see :class:`Part`."""
        if len(players) == 2:
            first, second = players
            out += (4.0 * self.each(x.shape[1])) * (x[:, first] * x[:, second])

    def add_interaction_variances(self, out: np.ndarray) -> None:
        """Add 16 times the variance of a pair's term; see :class:`Part`."""
        if out.ndim == 2:
            out += 16.0 * self.each(len(out))

    def term_variances(self, terms: np.ndarray) -> np.ndarray:
        """Return the same for all pairs; see :class:`Part`."""
        return np.where(terms.sum(axis=1) == 2, self.each(terms.shape[1]), 0.0)

    def each(self, n: int) -> float:
        """Return the variance of one pair's coefficient."""
        return 2.0 * self.variance / (n * (n - 1))
