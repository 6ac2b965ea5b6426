"""Interactions that change with the size: ``sinh(sum_i a_i x_i x'_i)`` times a covariance of sizes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import gammaln

from shapiq_oddshap.fourier import subsets
from shapiq_oddshap.gp.parts.base import Hints, OnRows, Part
from shapiq_oddshap.gp.parts.product import Product, ProductOnRows
from shapiq_oddshap.gp.parts.sizes import differences, half_correlation, sizes_of

if TYPE_CHECKING:
    from shapiq_oddshap.gp.parts.base import Players
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

    def add_interactions(self, out: np.ndarray, x: np.ndarray, players: Players) -> None:
        """Add the mean differences in all players of a set, in blocks of rows; see :class:`Part`."""
        n, order = x.shape[1], len(players)
        if not self.carries(order):
            return
        # h(n - s) = h(s): both exponentials of the sinh give the same
        scale = np.exp(self._product.log_scale + self.rates.sum())
        heights = self.covariance(n)[:, sizes_of(x)]
        faces = len(np.unique(np.ravel_multi_index(players[:-1], (n,) * (order - 1))))
        block = max(1, _HELD // (order * n * faces))
        for start in range(0, len(x), block):
            rows = slice(start, start + block)
            out[rows] += scale * _mean_differences(self.rates * x[rows], heights[:, rows], players)

    def add_prior_variances(self, out: np.ndarray) -> None:
        """Add the variances of all terms' Shapley values, which are independent; see :class:`Part`.

        Terms of one order have the same functional of their coefficient's values over the sizes, one
        for their members and one for the other players; elementary symmetric polynomials of
        ``tanh(a)`` add up the variances of the terms.
        """
        n = len(out)
        outside, inside = _order_variances(n, self.covariance(n), 1)
        rho, shared = np.tanh(self.rates), np.exp(self._product.empty_log_variance)
        for player in range(n):
            others = _symmetric_polynomials(np.delete(rho, player))
            out[player] += shared * (rho[player] * (others @ inside[1:]) + others @ outside[:n])

    def add_interaction_variances(self, out: np.ndarray) -> None:
        """Add the same for sets, of which a term may hold some players; see :class:`Part`."""
        n, order = len(out), out.ndim
        if not self.carries(order):
            return
        rho, shared = np.tanh(self.rates), np.exp(self._product.empty_log_variance)
        players = subsets(n, order)
        others = np.zeros((n + 1, len(players[0])))
        others[0] = 1.0
        for player, value in enumerate(rho.tolist()):
            of_others = value * ~reduce(np.logical_or, [each == player for each in players])
            others[1:] += of_others * others[:-1]
        members = np.stack([rho[each] for each in players], axis=1)
        held = np.array([_symmetric_polynomials(row) for row in members]).reshape(-1, order + 1)
        by_order = _order_variances(n, self.covariance(n), order)
        for count, variances in enumerate(by_order):
            found = variances[count:] @ others[: n + 1 - count]
            out[players] += shared * held[:, count] * found


def _mean_contributions(exponents: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Return the Shapley values of ``exp(sum_l c_l x_l) h(s)``, over ``exp(sum_l |c_l|)``.

    Args:
        exponents: ``c`` by row, shape ``(m, n)``.
        heights: ``h`` at the sizes 0 to n by row, shape ``(n + 1, m)``.

    Returns:
        The Shapley values, shape ``(m, n)``.
    """
    n = exponents.shape[1]
    absent, present, sums = _sums_by_size(exponents)
    without, _ = _divided(sums[:, :, None], absent, present)
    weights = _mean_weights(n, 1)
    joined = np.einsum("kj,kji->ji", weights * heights[1:], without)
    alone = np.einsum("kj,kji->ji", weights * heights[:-1], without)
    return present * joined - absent * alone


def _mean_differences(exponents: np.ndarray, heights: np.ndarray, players: Players) -> np.ndarray:
    """Return the interactions of ``exp(sum_l c_l x_l) h(s)``, over ``exp(sum_l |c_l|)``.

    All players of a set but the last are divided out of the sums by size. A mean over the
    coalitions without the last player too is linear in these: its weights are those of the sums
    that are divided, so that one product of matrices serves all last players.

    Args:
        exponents: ``c`` by row, shape ``(m, n)``.
        heights: ``h`` at the sizes 0 to n by row, shape ``(n + 1, m)``.
        players: The first, the second and so on of the sets, k arrays of shape ``(p,)``.

    Returns:
        The interactions, shape ``(m, p)``.
    """
    m, n = exponents.shape
    order = len(players)
    absent, present, sums = _sums_by_size(exponents)
    _, upwards = _divided(sums[:, :, None], absent, present)
    by_set, place = sums[:, :, None], np.zeros(len(players[0]), dtype=int)
    factors = np.ones((1, m, 1))  # by how many of the players are present
    for count in range(1, order):
        # sets that begin alike share the divisions by their first players
        chosen = np.ravel_multi_index(players[:count], (n,) * count)
        _, first, inverse = np.unique(chosen, return_index=True, return_inverse=True)
        here, last = place[first], players[count - 1][first]
        by_set, _ = _divided(by_set[:, :, here], absent[:, last], present[:, last])
        one_more = np.zeros((count + 1, m, len(first)))
        one_more[:-1] -= factors[:, :, here] * absent[:, last]
        one_more[1:] += factors[:, :, here] * present[:, last]
        factors, place = one_more, inverse
    weights = _mean_weights(n, order)
    out = np.zeros((m, by_set.shape[2], n))
    for held in range(order):
        above, below = (weights * heights[k : k + len(weights)] for k in (held + 1, held))
        gains = present * above[:, :, None] - absent * below[:, :, None]
        of_sums = _weights_before_division(gains, absent, present, upwards)
        means = by_set.transpose(1, 2, 0) @ of_sums.transpose(1, 0, 2)
        out += factors[held][:, :, None] * means
    return out[:, place, players[-1]]


def _sums_by_size(exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the factors of absent and of present players, and sums of their products by size.

    An absent player multiplies by ``exp(c_l)``, a present one by ``exp(-c_l)``, here divided by
    ``exp(|c_l|)``. The sums of these products over the coalitions of every size are the coefficients
    of a polynomial; without a player they follow by dividing its factor out.

    Args:
        exponents: ``c`` by row, shape ``(m, n)``.

    Returns:
        The two factors, shape ``(m, n)``, and the sums, shape ``(n + 1, m)``.
    """
    m, n = exponents.shape
    absent, present = np.exp(exponents - np.abs(exponents)), np.exp(-exponents - np.abs(exponents))
    sums = np.zeros((n + 1, m))
    sums[0] = 1.0
    for player in range(n):
        shifted = sums[: player + 1] * present[:, player]
        sums[: player + 1] *= absent[:, player]
        sums[1 : player + 2] += shifted
    return absent, present, sums


def _mean_weights(n: int, order: int) -> np.ndarray:
    """Return what a coalition of every size counts in a mean over sizes, then over coalitions."""
    sizes = np.arange(n - order + 1)
    weights = gammaln(sizes + 1) + gammaln(n - order + 1 - sizes) - gammaln(n - order + 2)
    return np.asarray(np.exp(weights)[:, None])


def _divided(
    sums: np.ndarray, absent: np.ndarray, present: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums over the coalitions without one more player.

    ``sums_k = absent q_k + present q_{k-1}`` is solved upwards while the second summand is at
    most half, and downwards from the top for the rest: by the logarithmic concavity of q its share
    grows with k.

    Args:
        sums: Sums over the coalitions of every size, shape ``(size + 1, m, p)`` or, where they are
            the same for all, ``(size + 1, m, 1)``.
        absent: Factors of the absent player, shape ``(m, p)``.
        present: Factors of the present player, shape ``(m, p)``.

    Returns:
        q by size, row and player, shape ``(size, m, p)``, and up to which k it is solved upwards,
        shape ``(m, p)``.
    """
    n = len(sums) - 1
    q = np.empty((n, *absent.shape))
    q[0] = sums[0] / absent
    upwards, last = np.ones(absent.shape, dtype=bool), np.zeros(absent.shape, dtype=int)
    for size in range(1, n):
        taken = present * q[size - 1]
        q[size] = (sums[size] - taken) / absent
        upwards &= taken <= 0.5 * sums[size]
        last += upwards
    down = sums[n] / present
    q[n - 1] = np.where(last < n - 1, down, q[n - 1])
    for size in range(n - 2, -1, -1):
        down = (sums[size + 1] - absent * down) / present
        q[size] = np.where(size > last, down, q[size])
    return q, last


def _weights_before_division(
    weights: np.ndarray, absent: np.ndarray, present: np.ndarray, upwards: np.ndarray
) -> np.ndarray:
    """Return weights of sums by size that give what weights of the divided sums give.

    The transpose of :func:`_divided`. Where the direction changes may be off by a few sizes.

    Args:
        weights: Weights of q, shape ``(size, m, p)``.
        absent: Factors of the absent player, shape ``(m, p)``.
        present: Factors of the present player, shape ``(m, p)``.
        upwards: Up to which size q is solved upwards, shape ``(m, p)``.

    Returns:
        The weights of the sums, shape ``(size + 1, m, p)``.
    """
    n = len(weights)
    up, down = np.zeros((2, n + 1, *absent.shape))
    for size in range(n - 1, -1, -1):
        up[size] = (weights[size] * (size <= upwards) - present * up[size + 1]) / absent
    for size in range(1, n + 1):
        own = weights[size - 1] * (size - 1 > upwards)
        down[size] = (own - absent * down[size - 1]) / present
    return np.asarray(up + down)


def _order_variances(n: int, covariance: np.ndarray, order: int) -> np.ndarray:
    """Return the variances of a set's share in ``chi_T h(s)`` by the order of T.

    Args:
        n: Number of players.
        covariance: That of h over the sizes, shape ``(n + 1, n + 1)``.
        order: How many players the set has, k.

    Returns:
        Those of sets of which T holds none, one ... all players, zero for even orders of T, shape
        ``(k + 1, n + 1)``.
    """
    rest = n - order
    sizes = np.arange(rest + 1)
    # means[k, s]: the mean of chi_K, |K| = k, over the coalitions of size s of the other players
    means = np.zeros((rest + 2, rest + 1))
    means[0] = 1.0
    if rest > 0:
        means[1] = (rest - 2.0 * sizes) / rest
    for k in range(1, rest):
        means[k + 1] = ((rest - 2.0 * sizes) * means[k] - k * means[k - 1]) / (rest - k)
    out = np.zeros((order + 1, n + 1))
    for members in range(order + 1):
        steps = differences(n, order, members)
        for size in range(1, n + 1, 2):
            if 0 <= size - members <= rest:
                share = (means[size - members] @ steps) / (rest + 1)
                out[members, size] = share @ covariance @ share
    return out


def _symmetric_polynomials(values: np.ndarray) -> np.ndarray:
    """Return the elementary symmetric polynomials of degrees 0 to ``len(values)``."""
    found = np.zeros(len(values) + 1)
    found[0] = 1.0
    for k, value in enumerate(values.tolist()):
        found[1 : k + 2] += value * found[: k + 1].copy()
    return found
