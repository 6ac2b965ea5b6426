"""Which pairs would tell the most: greedy choice by the variance of the Shapley values that they lower.

Equations 24 and 25 of ``docs/odd-gp.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import qr, solve_triangular

from shapiq_oddshap.gp.signs import signs

if TYPE_CHECKING:
    from shapiq_oddshap.gp.posterior import Posterior

__all__ = ["choose"]

_DIGITS = 9
"""Decimals of the gains that are looked at, in units of the largest."""

_SMALLEST = 1e-300

_LEADING, _PER_SEAT = 50, 10
"""Candidates of a size that are conditioned on what is chosen, and for each of its seats so many more."""

_NEW_DIRECTION = 1e-6
"""Share of a sign row outside the span of others from which on it counts as independent."""


def choose(
    posterior: Posterior, candidates: np.ndarray, seats: np.ndarray, most: int
) -> np.ndarray:
    """Choose the pairs that lower the sum of the Shapley values' posterior variances most.

    Observing a pair c lowers it by ``|cov(phi, c)|^2 / (var(c) + noise)`` (eq. 24). Once one is
    chosen, all covariances are those given it as well (eq. 25), whatever its value will be. Pairs
    that are linearly independent of those before them come first, so that additive games are
    determined as soon as they can be.

    Args:
        posterior: The process on the pairs that are known.
        candidates: One member of each pair that is not, shape ``(p, n)``.
        seats: How many are to be chosen of every size, shape ``(>= n // 2 + 1,)``; no more than there
            are candidates of that size.
        most: So many in all at most, the first ones that would be chosen.

    Returns:
        Which candidates, in the order in which they were chosen, shape ``(b,)``.
    """
    kernel, known = posterior.kernel, posterior.data.x
    x, sizes, seats = signs(candidates), candidates.sum(axis=1), seats.copy()
    given = solve_triangular(
        posterior.factor, kernel.gram(x, known).T, lower=True, overwrite_b=True, check_finite=False
    )
    functionals = solve_triangular(
        posterior.factor, posterior.functionals, lower=True, check_finite=False
    )
    covariances = kernel.shapley_functionals(x) - given.T @ functionals
    # the variance of a pair before anything is known depends on its size alone
    _, first, by_size = np.unique(sizes, return_index=True, return_inverse=True)
    before = np.diag(kernel.gram(x[first], x[first]))[by_size] + kernel.noise
    variances = np.maximum(before - np.einsum("jp,jp->p", given, given), kernel.noise)
    outside, kept = _Outside(known, x), np.arange(len(x))
    if not outside.new.any():
        kept = _leading(_gains(covariances, variances), sizes, seats)
        x, sizes, covariances, variances = x[kept], sizes[kept], covariances[kept], variances[kept]
        outside = _Outside(known, x)
    count = min(int(seats.sum()), most)
    half = np.zeros((len(known) + count, len(x)))
    half[: len(known)] = given[:, kept]
    add_block = kernel.between(x, x)
    open_, rows = np.ones(len(x), dtype=bool), []
    for step in range(len(known), len(half)):
        gains = _gains(covariances, variances)
        allowed = open_ & (seats[sizes] > 0)
        new = allowed & outside.new
        row = int(np.argmax(np.where(new if new.any() else allowed, gains, -1.0)))
        rows.append(row)
        open_[row] = False
        seats[sizes[row]] -= 1
        outside.add(row)
        # condition on it: one more row of the factor
        add_block(half[step : step + 1], slice(row, row + 1), slice(None))
        half[step] -= half[:step, row] @ half[:step]
        half[step] /= np.sqrt(variances[row])
        covariances -= np.outer(half[step], covariances[row] / np.sqrt(variances[row]))
        variances = np.maximum(variances - half[step] ** 2, kernel.noise)
    return kept[rows]


def _gains(covariances: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Return how much every candidate lowers the sum of variances, over the largest, ``(p,)``."""
    gains = np.einsum("pi,pi->p", covariances, covariances) / variances
    # equal players have equal gains, which must not be told apart by their last bits
    rounded: np.ndarray = np.round(gains / max(gains.max(), _SMALLEST), _DIGITS)
    return rounded


def _leading(gains: np.ndarray, sizes: np.ndarray, seats: np.ndarray) -> np.ndarray:
    """Return, in order, the candidates of the largest gains of every size, some for each seat.

    What is chosen lowers the gains of the others, so that those far behind are hardly ever next.
    """
    order = np.lexsort((-gains, sizes))
    rank = np.arange(len(order)) - np.searchsorted(sizes[order], sizes[order])
    return np.sort(order[rank < np.where(seats, _LEADING + _PER_SEAT * seats, 0)[sizes[order]]])


class _Outside:
    """Which candidates are linearly independent of what is known, as long as anything is."""

    def __init__(self, known: np.ndarray, x: np.ndarray) -> None:
        """Start from the known sign rows, shape ``(m, n)``, and those of the candidates."""
        self._rest = np.zeros((0, x.shape[1]))
        self.new = np.zeros(len(x), dtype=bool)
        if len(known) <= x.shape[1]:
            basis = qr(known.T, mode="economic", check_finite=False)[0]
            self._rest = x - (x @ basis) @ basis.T
            self._mark()

    def add(self, row: int) -> None:
        """Take a candidate among what is known."""
        if len(self._rest):
            rest = self._rest[row] / max(np.linalg.norm(self._rest[row]), _NEW_DIRECTION)
            self._rest = self._rest - np.outer(self._rest @ rest, rest)
            self._mark()

    def _mark(self) -> None:
        squares = np.einsum("pi,pi->p", self._rest, self._rest)
        self.new = squares > _NEW_DIRECTION * self._rest.shape[1]
