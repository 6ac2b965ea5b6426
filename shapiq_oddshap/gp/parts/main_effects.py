"""Main effects of their own: ``(v/n) sum_i x_i x'_i``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.gp.parts.base import Hints, Part

if TYPE_CHECKING:
    from collections.abc import Callable

    from shapiq_oddshap.gp.parts.base import Players
    from shapiq_oddshap.sample import Parity

__all__ = ["MainEffects"]


@dataclass(frozen=True, eq=False)
class MainEffects(Part):
    """Independent main effects of equal variance, ``variance / n`` each (eq. 4)."""

    @classmethod
    def start(cls, hints: Hints, parity: Parity = "odd") -> MainEffects:
        """Start with a third of the targets' variance."""
        del hints
        return cls(0.3, parity=parity)

    def matrix(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return ``x . x' / n``; see :class:`Part`."""
        return left @ right.T / left.shape[1]

    def between(
        self, left: np.ndarray, right: np.ndarray
    ) -> Callable[[np.ndarray, slice, slice], None]:
        """Scale once; see :class:`Part`."""
        scale = self.variance / left.shape[1]

        def add(out: np.ndarray, rows: slice, columns: slice) -> None:
            out += scale * (left[rows] @ right[columns].T)

        return add

    def add_functionals(self, out: np.ndarray, x: np.ndarray) -> None:
        """Add ``-2 v/n x_ji``, by eq. 2; see :class:`Part`."""
        out += (-2.0 * self.variance / x.shape[1]) * x

    def add_prior_variances(self, out: np.ndarray) -> None:
        """Add ``4 v/n``; see :class:`Part`."""
        out += 4.0 * self.variance / len(out)

    def add_interactions(self, out: np.ndarray, x: np.ndarray, players: Players) -> None:
        """Add nothing; see :class:`Part`."""

    def add_interaction_variances(self, out: np.ndarray) -> None:
        """Add nothing; see :class:`Part`."""

    def term_variances(self, terms: np.ndarray) -> np.ndarray:
        """Return ``v/n`` for singletons; see :class:`Part`."""
        return np.where(terms.sum(axis=1) == 1, self.variance / terms.shape[1], 0.0)
