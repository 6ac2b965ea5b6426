"""Interactions that change with the size: ``sinh(sum_i a_i x_i x'_i)`` times a covariance of sizes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import gammaln

from shapiq_oddshap.gp.parts.base import Hints, OnRows, Part
from shapiq_oddshap.gp.parts.product import Product, ProductOnRows
from shapiq_oddshap.gp.parts.sizes import half_correlation, sizes_of

if TYPE_CHECKING:
    from shapiq_oddshap.sample import Parity

__all__ = ["ChangingInteractions"]

_START = 0.05
"""Variance at the start, as of the other parts of the size."""

_HELD = 2**20
"""Numbers that the read-out holds at once, in each of a few arrays."""


@dataclass(frozen=True, eq=False)
class ChangingInteractions(Part):
    """All odd terms at once, each with a coefficient that is a smooth function of the size (eq. 21).

    Attributes:
        rates: How much every player takes part, shape ``(n,)``; not those of the product part.
    """

    rates: np.ndarray
    length: ClassVar[float] = 0.25
    """How far the coefficients are correlated, as a share of the players."""
    independent_terms: ClassVar[bool] = False
    parities: ClassVar[tuple[Parity, ...]] = ("odd",)
    most_players: ClassVar[float] = 128
    """The read-out takes the square of the players for every pair."""

    @classmethod
    def start(cls, hints: Hints, parity: Parity = "odd") -> ChangingInteractions:
        """Start as the product part does, with a small variance."""
        return cls(_START, Product.start(hints, parity).rates, parity=parity)

    @property
    def shape(self) -> np.ndarray:
        """The rates; see :class:`Part`."""
        return self.rates

    def tuned(self, variance: float, shape: np.ndarray) -> ChangingInteractions:
        """Return the part with other variance and rates; see :class:`Part`."""
        return replace(self, variance=variance, rates=shape)

    @property
    def _product(self) -> Product:
        """The product that does not change with the size."""
        return Product(self.variance, self.rates, parity=self.parity)

    def covariance(self, n: int) -> np.ndarray:
        """Return the covariance of the coefficients over the sizes, ``(n + 1, n + 1)``."""
        sizes = np.arange(n + 1)
        return half_correlation(n, sizes, sizes, self.length * n, "even")

    def matrix(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the product times the covariance of the sizes; see :class:`Part`."""
        covariance = self.covariance(left.shape[1]).astype(left.dtype)
        product = replace(self._product, variance=1.0).matrix(left, right)
        product *= covariance[np.ix_(sizes_of(left), sizes_of(right))]
        return product

    def on(self, x: np.ndarray) -> OnRows:
        """Return the part where its rates change too; see :class:`Part`."""
        sizes = sizes_of(x)
        covariance = self.covariance(x.shape[1])[np.ix_(sizes, sizes)]
        return ProductOnRows(x, self.parity, covariance)

    def add_functionals(self, out: np.ndarray, x: np.ndarray) -> None:
        """Add the mean marginal contributions of eq. 21, in blocks of rows; see :class:`Part`."""
        n = x.shape[1]
        heights = self.covariance(n)[:, sizes_of(x)]
        block = max(1, _HELD // n**2)
        scale = 0.5 * np.exp(self._product.log_scale + self.rates.sum())
        for start in range(0, len(x), block):
            rows = slice(start, start + block)
            exponents = self.rates * x[rows]
            for sign in (1.0, -1.0):
                contribution = _mean_contributions(sign * exponents, heights[:, rows])
                out[rows] += sign * scale * contribution

    def add_prior_variances(self, out: np.ndarray) -> None:
        """Add the variances of all terms' Shapley values, which are independent; see :class:`Part`.

        Terms of one order have the same functional of their coefficient's values over the sizes, one
        for their members and one for the other players; elementary symmetric polynomials of
        ``tanh(a)`` add up the variances of the terms.
        """
        n = len(out)
        inside, outside = _order_variances(n, self.covariance(n))
        rho, shared = np.tanh(self.rates), np.exp(self._product.empty_log_variance)
        for player in range(n):
            others = _symmetric_polynomials(np.delete(rho, player))
            out[player] += shared * (rho[player] * (others @ inside[1:]) + others @ outside[:n])


def _mean_contributions(exponents: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Return the Shapley values of ``exp(sum_l c_l x_l) h(s)``, over ``exp(sum_l |c_l|)``.

    An absent player multiplies by ``exp(c_l)``, a present one by ``exp(-c_l)``. The sums of these
    products over the coalitions of every size are the coefficients of a polynomial; without a
    player they follow by dividing its factor out, from the end at which that is stable.

    Args:
        exponents: ``c`` by row, shape ``(m, n)``.
        heights: ``h`` at the sizes 0 to n by row, shape ``(n + 1, m)``.

    Returns:
        The Shapley values, shape ``(m, n)``.
    """
    m, n = exponents.shape
    absent, present = np.exp(exponents - np.abs(exponents)), np.exp(-exponents - np.abs(exponents))
    sums = np.zeros((n + 1, m))
    sums[0] = 1.0
    for player in range(n):
        shifted = sums[: player + 1] * present[:, player]
        sums[: player + 1] *= absent[:, player]
        sums[1 : player + 2] += shifted
    without = _divided(sums, absent, present)
    sizes = np.arange(n)
    weights = np.exp(gammaln(sizes + 1) + gammaln(n - sizes) - gammaln(n + 1))[:, None]
    joined = np.einsum("kj,kji->ji", weights * heights[1:], without)
    alone = np.einsum("kj,kji->ji", weights * heights[:-1], without)
    return present * joined - absent * alone


def _divided(sums: np.ndarray, absent: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Return the sums over the coalitions of the other players, for every player.

    ``sums_k = absent_i q_k + present_i q_{k-1}`` is solved upwards while the second summand is at
    most half, and downwards from the top for the rest: by the logarithmic concavity of q its share
    grows with k.

    Args:
        sums: Sums over the coalitions of every size, shape ``(n + 1, m)``.
        absent: Factors of absent players, shape ``(m, n)``.
        present: Factors of present players, shape ``(m, n)``.

    Returns:
        q by size, row and player, shape ``(n, m, n)``.
    """
    n = len(sums) - 1
    q = np.empty((n, *absent.shape))
    q[0] = sums[0][:, None] / absent
    upwards, last = np.ones(absent.shape, dtype=bool), np.zeros(absent.shape, dtype=int)
    for size in range(1, n):
        taken = present * q[size - 1]
        q[size] = (sums[size][:, None] - taken) / absent
        upwards &= taken <= 0.5 * sums[size][:, None]
        last += upwards
    down = sums[n][:, None] / present
    q[n - 1] = np.where(last < n - 1, down, q[n - 1])
    for size in range(n - 2, -1, -1):
        down = (sums[size + 1][:, None] - absent * down) / present
        q[size] = np.where(size > last, down, q[size])
    return q


def _order_variances(n: int, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the variances of a player's share in ``chi_T h(s)`` by the order of T.

    Returns:
        Those of a member of T and of another player, zero for even orders, each of shape ``(n + 1,)``.
    """
    sizes = np.arange(n)
    # means[k, s]: the mean of chi_K, |K| = k, over the coalitions of size s of n - 1 players
    means = np.zeros((n + 1, n))
    means[0] = 1.0
    if n > 1:
        means[1] = (n - 1 - 2.0 * sizes) / (n - 1)
    for k in range(1, n - 1):
        means[k + 1] = ((n - 1 - 2.0 * sizes) * means[k] - k * means[k - 1]) / (n - 1 - k)
    rise, stay = np.eye(n, n + 1, 1), np.eye(n, n + 1)
    inside, outside = np.zeros((2, n + 1))
    for order in range(1, n + 1, 2):
        member = -(means[order - 1] @ (rise + stay)) / n
        inside[order] = member @ covariance @ member
        if order < n:
            other = (means[order] @ (rise - stay)) / n
            outside[order] = other @ covariance @ other
    return inside, outside


def _symmetric_polynomials(values: np.ndarray) -> np.ndarray:
    """Return the elementary symmetric polynomials of degrees 0 to ``len(values)``."""
    found = np.zeros(len(values) + 1)
    found[0] = 1.0
    for k, value in enumerate(values.tolist()):
        found[1 : k + 2] += value * found[: k + 1].copy()
    return found
