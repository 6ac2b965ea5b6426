"""What the process is conditioned on: the efficiency, without noise, and pairs, with it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from shapiq_oddshap.gp.signs import signs

__all__ = ["EFFICIENCY_NOISE", "Observations"]

EFFICIENCY_NOISE = 1e-12
"""Noise of the observation (empty, grand): none, up to rounding."""

_DIGITS = 4
"""Decimals of rounded targets."""


@dataclass(frozen=True)
class Observations:
    """What the process is conditioned on: (empty, grand) without noise, and pairs with it.

    Attributes:
        x: Sign rows, that of (empty, grand) first, shape ``(m + 1, n)``.
        targets: Odd values, scaled, shape ``(m + 1,)``.
        exact: How many rows, the first ones, are without noise.
    """

    x: np.ndarray
    targets: np.ndarray
    exact: int = 1

    @classmethod
    def of(cls, coalitions: np.ndarray, targets: np.ndarray, half_total: float) -> Observations:
        """Put (empty, grand) before pairs.

        Args:
            coalitions: One member of each pair, shape ``(m, n)``.
            targets: Their odd values, scaled, shape ``(m,)``.
            half_total: ``(f(N) - f(empty)) / 2``, scaled likewise.
        """
        empty = np.ones((1, coalitions.shape[1]))
        x = np.vstack([empty, signs(coalitions)])
        return cls(x, np.concatenate([[-half_total], targets]))

    @property
    def pairs(self) -> int:
        """Number of pairs, the noise-free row left out."""
        return len(self.targets) - 1

    def first(self, count: int) -> Observations:
        """Return the noise-free row and at most so many pairs, the first ones."""
        if self.pairs <= count:
            return self
        return Observations(self.x[: count + 1], self.targets[: count + 1])

    def rounded(self) -> Observations:
        """Return the same with targets to a few decimals: equal for the same game in other units."""
        return replace(self, targets=np.round(self.targets, _DIGITS))

    def part(self, count: int) -> Observations:
        """Return the noise-free row and at most so many pairs, evenly spread over the rows."""
        if self.pairs <= count:
            return self
        rows = np.concatenate([[0], 1 + np.arange(count) * self.pairs // count])
        return Observations(self.x[rows], self.targets[rows])
