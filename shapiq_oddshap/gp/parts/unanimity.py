"""Sums of unanimity games of every order: ``exp(sum_i b_i z_i z'_i)``, its odd or even half."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from shapiq_oddshap.fourier import sums_of_products
from shapiq_oddshap.gp.parts.base import Hints, OnRows, Part, lower_blocks
from shapiq_oddshap.gp.parts.product import (
    SHAPLEY_NODES,
    Product,
    exponentials,
    legendre,
    logarithmic,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shapiq_oddshap.gp.parts.base import Players
    from shapiq_oddshap.sample import Parity

__all__ = ["Unanimity"]

_START = 0.05
"""Variance at the start, as of the parts of the size."""

_SIGN: dict[Parity, float] = {"odd": -1.0, "even": 1.0}
"""What a coalition's complement counts in the half of a function."""


@dataclass(frozen=True, eq=False)
class Unanimity(Part):
    """All unanimity games, with variances that are products of their players' growths (eq. 22).

    Two large coalitions, which have many players in common, are alike, two small ones are not:
    with ``z = 1`` for the members, ``exp(sum_i b_i z_i z'_i)`` is ``sum_T prod_{i in T} (e^b_i - 1)``
    over all ``T`` inside both. The part is one half of it, divided by its value at the grand coalition.

    Attributes:
        rates: ``b_i``, how much is gained with player ``i``, shape ``(n,)``.
    """

    rates: np.ndarray
    independent_terms: ClassVar[bool] = False
    parities: ClassVar[tuple[Parity, ...]] = ("odd", "even")
    shape_bounds: ClassVar[tuple[float, float]] = (1e-4, 4.0)

    @classmethod
    def start(cls, hints: Hints, parity: Parity = "odd") -> Unanimity:
        """Start with a small variance, at twice the product part's rates."""
        return cls(_START, 2.0 * Product.start(hints, parity).rates, parity=parity)

    @property
    def shape(self) -> np.ndarray:
        """The rates; see :class:`Part`."""
        return self.rates

    def tuned(self, variance: float, shape: np.ndarray) -> Unanimity:
        """Return the part with other variance and rates; see :class:`Part`."""
        return replace(self, variance=variance, rates=shape)

    def matrix(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the half of ``exp(sum_i b_i z_i z'_i)``, one at most; see :class:`Part`."""
        ends, others = _ends(left, self.rates), _ends(right, self.rates)
        alike, opposed = _exponentials(left, right, self.rates)
        alike *= ends @ others.T
        opposed *= ends @ others[:, ::-1].T
        opposed *= _SIGN[self.parity]
        alike += opposed
        alike *= _scale(self.rates, self.parity)
        return alike.astype(left.dtype, copy=False)

    def on(self, x: np.ndarray) -> OnRows:
        """Return the part where its rates change too; see :class:`Part`."""
        return _OnRows(x, self.parity)

    def add_functionals(self, out: np.ndarray, x: np.ndarray) -> None:
        """Add the integral of eq. 23 for a row's members, less that for the others; see :class:`Part`."""
        if self.parity == "even":
            return
        scale = 2.0 * self.variance * _scale(self.rates, self.parity)
        members = _members(x)
        nodes, weights = legendre(min((x.shape[1] + 2) // 2, SHAPLEY_NODES))
        logarithms, slopes = self._at(0.5 * (nodes + 1.0))
        slopes *= (0.5 * scale * weights)[:, None]
        for sign, players in ((1.0, members), (-1.0, 1.0 - members)):
            density = np.exp(players @ logarithms.T - self.rates.sum())
            out += sign * players * (density @ slopes)

    def add_prior_variances(self, out: np.ndarray) -> None:
        """Add the same integral over all players with ``-log t``; see :class:`Part`."""
        if self.parity == "even":
            return
        density, slopes = self._prior_nodes()
        out += density @ slopes

    def add_interactions(self, out: np.ndarray, x: np.ndarray, players: Players) -> None:
        """Add the integral of equation 7 of ``docs/interactions.md``; see :class:`Part`."""
        for density, factors in self._interaction_nodes(x, len(players)):
            out += reduce(np.multiply, [factors[:, each] for each in players], density[:, None])

    def add_interaction_means(
        self, out: np.ndarray, x: np.ndarray, weights: np.ndarray, players: Players
    ) -> None:
        """Take products of matrices for all sets at every node; see :class:`Part`."""
        order = len(players)
        for density, factors in self._interaction_nodes(x, order):
            out += sums_of_products(weights * density, factors, order)[players]

    def _interaction_nodes(
        self, x: np.ndarray, order: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield, for a row's members and for the others at every node, what its sets get.

        A weight per row, shape ``(m,)``, and factors of its players, shape ``(m, n)``.
        """
        if not self.carries(order):
            return
        scale = 2.0 * self.variance * _scale(self.rates, self.parity)
        members = _members(x)
        nodes, weights = legendre(min(max(x.shape[1] // 2, 1), SHAPLEY_NODES))
        logarithms, slopes = self._at(0.5 * (nodes + 1.0))
        for weight, log_factors, slope in zip(weights, logarithms, slopes, strict=True):
            for sign, players in ((1.0, members), (_SIGN[self.parity], 1.0 - members)):
                density = 0.5 * weight * scale * np.exp(players @ log_factors - self.rates.sum())
                yield sign * density, players * slope

    def add_interaction_variances(self, out: np.ndarray) -> None:
        """Add the same integral over all players with ``-log t``; see :class:`Part`."""
        if self.carries(out.ndim):
            out += sums_of_products(*self._prior_nodes(), out.ndim)

    def _prior_nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the weight of all players and the slopes of each at the nodes, by row."""
        scale = 4.0 * self.variance * _scale(self.rates, self.parity)
        t, weights = logarithmic()
        logarithms, slopes = self._at(t)
        return scale * weights * np.exp(logarithms.sum(axis=1) - self.rates.sum()), slopes

    def _at(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ``log(1 + t g)`` and ``g / (1 + t g)`` for the growths ``g = e^b - 1``, by row."""
        growth = np.outer(t, np.expm1(self.rates))
        return np.log1p(growth), np.expm1(self.rates) / (1.0 + growth)


def _members(x: np.ndarray) -> np.ndarray:
    """Return ones for the members, and zeros, of sign rows."""
    return 0.5 * (1.0 - x)


def _scale(rates: np.ndarray, parity: Parity) -> float:
    """Return what makes the part one at the grand coalition, given factors of ``exp(-sum b)``."""
    end = float(rates.sum())
    return float(1.0 / (1.0 + 3.0 * np.exp(-end)) if parity == "even" else -1.0 / np.expm1(-end))


def _ends(x: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Return ``exp(-B / 2)`` for the weight B of the others and for that of the members, ``(m, 2)``."""
    weights = _members(x) @ rates
    return np.exp(-0.5 * np.column_stack([rates.sum() - weights, weights]))


def _exponentials(x: np.ndarray, y: np.ndarray, rates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``exp(-D / 2)`` and ``exp((D - B) / 2)``, shape ``(p, q)`` each.

    D weighs the players that are in one of two coalitions only, B all. The four exponentials of the
    half are products of these and of :func:`_ends`, none of which exceeds one, as for coalitions
    of weights b and b' the weight in both is ``(b + b' - D) / 2``.
    """
    quarter = 0.25 * rates
    return exponentials((x * quarter) @ y.T, -float(quarter.sum()), float(quarter.sum()))


class _OnRows(OnRows):
    """The part on the rows of a search."""

    def __init__(self, x: np.ndarray, parity: Parity) -> None:
        """Keep the sign rows, shape ``(m, n)``, and the half."""
        self._x = x
        self._parity = parity
        self._ends = np.empty((len(x), 2))
        self._matrix, self._alike, self._opposed = np.empty((3, len(x), len(x)))

    def add(self, out: np.ndarray, variance: float, shape: np.ndarray) -> None:
        """Add the matrix, and keep what it is made of; see :class:`OnRows`."""
        ends = self._ends = _ends(self._x, shape)
        scale, sign = variance * _scale(shape, self._parity), _SIGN[self._parity]
        for block in lower_blocks(len(out)):
            rows, columns = block
            alike, opposed = _exponentials(self._x[rows], self._x[columns], shape)
            alike = np.multiply(alike, scale, out=self._alike[block])
            opposed = np.multiply(opposed, sign * scale, out=self._opposed[block])
            matrix = np.multiply(alike, ends[rows] @ ends[columns].T, out=self._matrix[block])
            matrix += opposed * (ends[rows] @ ends[columns, ::-1].T)
            out[block] += matrix

    def gradient(
        self, weights: np.ndarray, variance: float, shape: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """Return ``z z'`` times the four exponentials, and what the scale adds; see :class:`OnRows`."""
        del variance
        members, ends = _members(self._x), self._ends
        inside, outside = members * ends[:, :1], (1.0 - members) * ends[:, 1:]
        both, swapped = np.hstack([inside, outside]), np.hstack([outside, inside])
        by_variance, halves = 0.0, np.zeros(both.shape[1])
        for block in lower_blocks(len(weights)):
            rows, columns = block
            by_variance += float(np.einsum("jl,jl->", weights[block], self._matrix[block]))
            pulled = (weights[block] * self._alike[block]) @ both[columns]
            pulled += (weights[block] * self._opposed[block]) @ swapped[columns]
            halves += np.einsum("ji,ji->i", both[rows], pulled)
        by_rate = halves.reshape(2, -1).sum(axis=0)
        return by_variance, (by_rate - by_variance * _scale(shape, self._parity)) * shape
