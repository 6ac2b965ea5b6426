"""Which pairs would tell the most: greedy choice by the variance of the Shapley values that they lower.

Equations 24 and 25 of ``docs/odd-gp.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import qr, solve_triangular

from shapiq_oddshap.gp.signs import signs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shapiq_oddshap.gp.posterior import Posterior

__all__ = ["choose"]

_DIGITS = 9
"""Decimals of the gains that are looked at, in units of the largest."""

_SMALLEST = 1e-300

_LEADING, _PER_SEAT = 50, 10
"""Candidates of a size that are conditioned on what is chosen, and for each of its seats so many more."""

_KNOWN = 1e-9
"""Share of the prior variances below which an output counts as known, and the others lead the choice."""

_NEW_DIRECTION = 1e-6
"""Share of a sign row outside the span of others from which on it counts as independent."""


def choose(
    posteriors: Sequence[Posterior], candidates: np.ndarray, seats: np.ndarray, most: int
) -> np.ndarray:
    """Choose the pairs that lower the sum of the Shapley values' posterior variances most.

    Observing a pair c lowers it by ``|cov(phi, c)|^2 / (var(c) + noise)`` (eq. 24). Once one is
    chosen, all covariances are those given it as well (eq. 25), whatever its value will be. Pairs
    that are linearly independent of those before them come first, so that additive games are
    determined as soon as they can be. Of several outputs the shares add up by which a pair lowers the
    sum of each: what is dear to one is not drowned by what is uncertain in another.

    Args:
        posteriors: The process on the pairs that are known, of each output that has one of its own.
        candidates: One member of each pair that is not, shape ``(p, n)``.
        seats: How many are to be chosen of every size, shape ``(>= n // 2 + 1,)``; no more than there
            are candidates of that size.
        most: So many in all at most, the first ones that would be chosen.

    Returns:
        Which candidates, in the order in which they were chosen, shape ``(b,)``.
    """
    known = posteriors[0].data.x
    x, sizes, seats = signs(candidates), candidates.sum(axis=1), seats.copy()
    outputs = [_Candidates(posterior, x, sizes) for posterior in posteriors]
    outside, kept = _Outside(known, x), np.arange(len(x))
    if not outside.new.any():
        kept = _leading(_gains(outputs), sizes, seats)
        x, sizes = x[kept], sizes[kept]
        outside = _Outside(known, x)
    count = min(int(seats.sum()), most)
    for output in outputs:
        output.keep(kept, x, count)
    open_, rows = np.ones(len(x), dtype=bool), []
    for _ in range(count):
        gains = _gains(outputs)
        allowed = open_ & (seats[sizes] > 0)
        new = allowed & outside.new
        row = int(np.argmax(np.where(new if new.any() else allowed, gains, -1.0)))
        rows.append(row)
        open_[row] = False
        seats[sizes[row]] -= 1
        outside.add(row)
        for output in outputs:
            output.add(row)
    return kept[rows]


class _Candidates:
    """The candidates as one process sees them, given the pairs that are known and those added."""

    def __init__(self, posterior: Posterior, x: np.ndarray, sizes: np.ndarray) -> None:
        """Condition on the pairs that are known.

        Args:
            posterior: The process on those pairs.
            x: The sign rows of the candidates, shape ``(p, n)``.
            sizes: Their sizes, shape ``(p,)``.
        """
        kernel, factor = posterior.kernel, posterior.factor
        self._kernel = kernel
        self._half = solve_triangular(
            factor, kernel.gram(x, posterior.data.x).T,
            lower=True, overwrite_b=True, check_finite=False,
        )  # fmt: skip
        self._step = len(self._half)
        functionals = solve_triangular(
            factor, posterior.functionals, lower=True, check_finite=False
        )
        self._covariances = kernel.shapley_functionals(x) - self._half.T @ functionals
        # the variance of a pair before anything is known depends on its size alone
        _, first, by_size = np.unique(sizes, return_index=True, return_inverse=True)
        before = np.diag(kernel.gram(x[first], x[first]))[by_size] + kernel.noise
        known = np.einsum("jp,jp->p", self._half, self._half)
        self._variances = np.maximum(before - known, kernel.noise)
        prior = float(kernel.shapley_prior_variances().sum())
        self._least = _KNOWN * prior
        self._left = max(prior - float(np.sum(functionals**2)), self._least)

    def keep(self, rows: np.ndarray, x: np.ndarray, count: int) -> None:
        """Go on with some of the candidates.

        Args:
            rows: Which, shape ``(q,)``.
            x: Their sign rows, shape ``(q, n)``.
            count: How many of them will be added.
        """
        self._covariances, self._variances = self._covariances[rows], self._variances[rows]
        self._half = np.concatenate([self._half[:, rows], np.zeros((count, len(rows)))])
        self._add_block = self._kernel.between(x, x)

    def gains(self) -> np.ndarray:
        """Return the share of the Shapley values' variances that every candidate takes away, ``(p,)``."""
        squares = np.einsum("pi,pi->p", self._covariances, self._covariances)
        shares: np.ndarray = squares / (self._variances * self._left)
        return shares

    def add(self, row: int) -> None:
        """Condition on a candidate: one more row of the factor."""
        half, step = self._half, self._step
        covariance = self._covariances[row] / np.sqrt(self._variances[row])
        self._left = max(self._left - float(covariance @ covariance), self._least)
        self._add_block(half[step : step + 1], slice(row, row + 1), slice(None))
        half[step] -= half[:step, row] @ half[:step]
        half[step] /= np.sqrt(self._variances[row])
        self._covariances -= np.outer(half[step], covariance)
        self._variances = np.maximum(self._variances - half[step] ** 2, self._kernel.noise)
        self._step += 1


def _gains(outputs: Sequence[_Candidates]) -> np.ndarray:
    """Return how much every candidate lowers the sums of variances, over the largest, ``(p,)``."""
    gains = np.sum([output.gains() for output in outputs], axis=0)
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
