"""Every interaction at once: ``c sinh(sum_i a_i x_i x'_i) / sinh(sum_i a_i)``, or its even twin."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, reduce
from math import exp, log
from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.fourier import sums_of_products
from shapiq_oddshap.gp.parts.base import Hints, OnRows, Part, lower_blocks
from shapiq_oddshap.sample import has_parity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shapiq_oddshap.gp.parts.base import Players
    from shapiq_oddshap.sample import Parity

__all__ = [
    "SHAPLEY_NODES",
    "Product",
    "ProductOnRows",
    "exponentials",
    "legendre",
    "logarithmic",
]

_START_RATE = 0.3
"""Rate of the most important player at the start."""

SHAPLEY_NODES = 40
"""Gauss-Legendre nodes of the Shapley integral, at most; the integrand is close to a polynomial of
low degree, and from about 40 nodes on more of them change nothing at any number of players."""

_VARIANCE_NODES = 96
"""Nodes of the prior-variance integral, whose integrand carries a logarithm."""


@dataclass(frozen=True, eq=False)
class Product(Part):
    """All terms, with variances that are products of the rates of their players (eq. 3).

    The odd half is ``sinh(U)``, the even one ``cosh(U)`` and both ``exp(U)``, for
    ``U = sum_i a_i x_i x'_i``, each divided by its value at ``U = sum_i a_i``.

    Attributes:
        rates: ``a_i``, how much player ``i`` takes part in interactions, shape ``(n,)``.
    """

    rates: np.ndarray

    @classmethod
    def start(cls, hints: Hints, parity: Parity = "odd") -> Product:
        """Start with rates in proportion to the players' importance in the proxy."""
        top = hints.importance.max(initial=0.0)
        share = hints.importance / top if top > 0 else np.full(hints.n, 0.3)
        rates = np.maximum(_START_RATE * share, 0.01 * _START_RATE)
        return cls(1.0, rates, parity=parity)

    @property
    def shape(self) -> np.ndarray:
        """The rates; see :class:`Part`."""
        return self.rates

    def tuned(self, variance: float, shape: np.ndarray) -> Product:
        """Return the part with other variance and rates; see :class:`Part`."""
        return replace(self, variance=variance, rates=shape)

    @property
    def log_scale(self) -> float:
        """``log(c / sinh(sum a))``, the logarithm of the factor before ``sinh`` (eq. 4)."""
        return log(self.variance) - _log_largest(float(self.rates.sum()), self.parity)

    @property
    def empty_log_variance(self) -> float:
        """The logarithm of the factor that the variances of all terms share (eq. 3)."""
        log_cosh = np.logaddexp(self.rates, -self.rates) - log(2.0)
        return self.log_scale + float(log_cosh.sum())

    def matrix(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return ``sinh``, ``cosh`` or ``exp`` of ``U``, one at most; see :class:`Part`."""
        out = np.zeros((len(left), len(right)), left.dtype)
        unit = replace(self, variance=1.0)
        unit.between(left, right)(out, slice(None), slice(None))
        return out

    def between(
        self, left: np.ndarray, right: np.ndarray
    ) -> Callable[[np.ndarray, slice, slice], None]:
        """Let both exponentials carry the scale; see :class:`Part`."""
        straight, opposite = _HALVES[self.parity]
        scale, reach = self.log_scale + log(straight), float(self.rates.sum())
        scaled = (right * self.rates).astype(right.dtype)

        def add(out: np.ndarray, rows: slice, columns: slice) -> None:
            # neither of the two overflows, however large sum(a) is
            plus, minus = exponentials(left[rows] @ scaled[columns].T, scale, reach)
            minus *= opposite / straight
            plus += minus
            out += plus

        return add

    def on(self, x: np.ndarray) -> OnRows:
        """Return the part where its rates change too; see :class:`Part`."""
        return ProductOnRows(x, self.parity)

    def add_functionals(self, out: np.ndarray, x: np.ndarray) -> None:
        """Add the integral of eq. 10; see :class:`Part`."""
        if self.parity == "even":
            return
        rho, offset = np.tanh(self.rates), self.empty_log_variance
        nodes, weights = legendre(min((len(rho) + 2) // 2, SHAPLEY_NODES))
        along = np.outer(nodes, rho)
        shrink = np.log1p(-(along**2))
        density = np.exp(offset + 0.5 * shrink.sum(axis=1) + x @ np.arctanh(along).T)
        slope = -weights[:, None] * rho * np.exp(-shrink)
        # the sum over the nodes of density (x - along) slope
        out += x * (density @ slope) - density @ (along * slope)

    def add_prior_variances(self, out: np.ndarray) -> None:
        """Add the integral of eq. 12; see :class:`Part`.

        ``1 / |T|^2`` is the integral of ``-log(s) s^(|T| - 1)`` over [0, 1], and turns the sum over
        all terms into products.
        """
        if self.parity == "even":
            return
        rho, offset = np.tanh(self.rates), self.empty_log_variance
        nodes, weights = logarithmic()
        for sign in (1.0, -1.0):
            factors = np.log1p(np.outer(sign * nodes, rho))
            others = np.exp(offset + factors.sum(axis=1, keepdims=True) - factors)
            out += 2.0 * rho * (weights @ others)

    def add_interactions(self, out: np.ndarray, x: np.ndarray, players: Players) -> None:
        """Add the integral of equation 4 of ``docs/interactions.md``; see :class:`Part`."""
        for density, factors, scale in self._interaction_nodes(x, len(players)):
            block = factors[:, players[0]]
            for each in players[1:]:
                block *= factors[:, each]
            block *= density[:, None]
            block *= reduce(np.multiply, [scale[each] for each in players])
            out += block

    def add_interaction_means(
        self, out: np.ndarray, x: np.ndarray, weights: np.ndarray, players: Players
    ) -> None:
        """Take products of matrices for all sets at every node; see :class:`Part`."""
        order = len(players)
        for density, factors, scale in self._interaction_nodes(x, order):
            out += sums_of_products(weights * density, factors * scale, order)[players]

    def _interaction_nodes(
        self, x: np.ndarray, order: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield what the integral over ``prod_{l not in A} (1 + s rho_l x_l)`` has at every node.

        The product over all players with its weight, shape ``(m,)``; the factors
        ``x_i / (1 + s rho_i x_i)`` of the players but for their scale, ``(m, n)``; that scale, ``(n,)``.
        """
        if not self.carries(order):
            return
        rho, offset = np.tanh(self.rates), self.empty_log_variance
        sign = 0.5 * (-2.0) ** order
        for node, weight in zip(*legendre(min(max(len(rho) // 2, 1), SHAPLEY_NODES)), strict=True):
            along = node * rho
            shrink = np.log1p(-(along**2))
            density = sign * weight * np.exp(offset + 0.5 * shrink.sum() + x @ np.arctanh(along))
            yield density, x - along, rho * np.exp(-shrink)

    def add_interaction_variances(self, out: np.ndarray) -> None:
        """Add the integral of ``4^k / (|T| - k + 1)^2``, as for :meth:`add_prior_variances`."""
        order = out.ndim
        if not self.carries(order):
            return
        rho, offset = np.tanh(self.rates), self.empty_log_variance
        for s, weight in zip(*logarithmic(), strict=True):
            for sign in (1.0, -1.0):
                factors = np.log1p(sign * s * rho)
                others = np.exp((offset + factors.sum()) / order - factors) * rho
                out += (0.5 * 4.0**order * weight) * reduce(np.multiply.outer, [others] * order)

    def term_variances(self, terms: np.ndarray) -> np.ndarray:
        """Return the product of eq. 3 for the terms of the parity; see :class:`Part`."""
        inside = has_parity(terms.sum(axis=1), self.parity)
        return inside * np.exp(self.empty_log_variance + terms @ np.log(np.tanh(self.rates)))

    def variances_by_players(self, players: np.ndarray) -> np.ndarray:
        """Return :meth:`term_variances` of terms of the parity by their players.

        All of them as boolean rows would be the largest array of a fit.

        Args:
            players: The players of each term, padded with ``n``, shape ``(t, order)``.
        """
        log_ratio = np.append(np.log(np.tanh(self.rates)), 0.0)[players].sum(axis=1)
        return np.exp(self.empty_log_variance + log_ratio)


class ProductOnRows(OnRows):
    """The product part on the rows of a search, times a matrix that stays if there is one.

    In place where it can be: at these sizes new memory takes as long as the arithmetic.
    """

    def __init__(self, x: np.ndarray, parity: Parity, factor: np.ndarray | None = None) -> None:
        """Keep the sign rows, shape ``(m, n)``, and the factor, ``(m, m)``."""
        self._x = x
        self._parity = parity
        self._factor = factor
        self._matrix, self._slope = np.empty((2, len(x), len(x)))

    def add(self, out: np.ndarray, variance: float, shape: np.ndarray) -> None:
        """Add the matrix and keep it, and its derivative by U; see :class:`OnRows`."""
        straight, opposite = _HALVES[self._parity]
        reach, scaled = float(shape.sum()), self._x * shape
        scale = log(variance * straight) - _log_largest(reach, self._parity)
        for block in lower_blocks(len(out)):
            rows, columns = block
            plus, minus = exponentials(scaled[rows] @ self._x[columns].T, scale, reach)
            minus *= opposite / straight
            matrix = np.add(plus, minus, out=self._matrix[block])
            slope = np.subtract(plus, minus, out=self._slope[block])
            if self._factor is not None:
                matrix *= self._factor[block]
                slope *= self._factor[block]
            out[block] += matrix

    def gradient(
        self, weights: np.ndarray, variance: float, shape: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """Return eq. 6 for the variance and the rates; see :class:`OnRows`."""
        del variance
        by_variance, by_rate = 0.0, np.zeros(len(shape))
        for block in lower_blocks(len(weights)):
            rows, columns = block
            by_variance += float(np.einsum("jl,jl->", weights[block], self._matrix[block]))
            pulled = (weights[block] * self._slope[block]) @ self._x[columns]
            by_rate += np.einsum("ji,ji->i", self._x[rows], pulled)
        by_sum = by_variance * _slope_of_log_largest(float(shape.sum()), self._parity)
        return by_variance, (by_rate - by_sum) * shape


def exponentials(exponent: np.ndarray, scale: float, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """Return ``exp(scale + U)`` and ``exp(scale - U)``, the first in the place of U.

    The second is a quotient, a twentieth of an exponential's time, where no number is too small.

    Args:
        exponent: U, shape ``(p, q)``, at most ``reach`` in size.
        scale: What both have in common.
        reach: See ``exponent``.
    """
    small = log(np.finfo(exponent.dtype).tiny)
    if min(scale - reach, 2.0 * scale) > small:
        exponent += scale
        plus = np.exp(exponent, out=exponent)
        return plus, exp(2.0 * scale) / plus
    minus = np.exp(scale - exponent)
    exponent += scale
    return np.exp(exponent, out=exponent), minus


_HALVES: dict[Parity, tuple[float, float]] = {
    "odd": (0.5, -0.5),
    "even": (0.5, 0.5),
    "both": (1.0, 0.0),
}
"""Weights of ``exp(U)`` and ``exp(-U)`` in ``sinh``, ``cosh`` and ``exp``."""


def _log_largest(value: float, parity: Parity) -> float:
    """Return the logarithm of ``sinh``, ``cosh`` or ``exp`` of a positive value of any size."""
    straight, opposite = _HALVES[parity]
    with_opposite = np.log1p(opposite / straight * np.exp(-2.0 * value))
    return value + log(straight) + float(with_opposite)


def _slope_of_log_largest(value: float, parity: Parity) -> float:
    """Return the derivative of the logarithm of ``sinh``, ``cosh`` or ``exp``."""
    straight, opposite = _HALVES[parity]
    ratio = opposite / straight * np.exp(-2.0 * value)
    return float((1.0 - ratio) / (1.0 + ratio))


@cache
def legendre(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes and weights of Gauss-Legendre quadrature on [-1, 1], ``(count,)`` each."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    nodes.flags.writeable = weights.flags.writeable = False  # all callers share them
    return nodes, weights


def logarithmic() -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights of the integral of ``-log(s) f(s)`` over [0, 1]."""
    nodes, weights = legendre(_VARIANCE_NODES)
    # s = u^4 flattens the logarithm at zero, where Gauss-Legendre would be slow
    u = 0.5 * (nodes + 1.0)
    s = u**4
    return s, 4.0 * u**3 * 0.5 * weights * -np.log(s)
