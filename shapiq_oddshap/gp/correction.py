"""The Shapley values and interactions of what the process leaves over.

Equations 15 and 16 of ``docs/odd-gp.md``, and 5 of ``docs/interactions.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from math import comb, log

import numpy as np
from scipy.special import gammaln

from shapiq_oddshap.fourier import subsets, sums_of_products

__all__ = [
    "Strata",
    "correction",
    "correction_variances",
    "msr_correction",
    "msr_variances",
    "msr_weights",
    "overlap_shares",
]


@dataclass(frozen=True)
class Strata:
    """Which size each pair has, and how many there are of it.

    Attributes:
        sizes: Size of every pair's first member, shape ``(m,)``.
        drawn: Pairs drawn of the same (unordered) size, shape ``(m,)``.
        unseen: Share of the pairs of that size that were not drawn, shape ``(m,)``.
        n: Number of players.
    """

    sizes: np.ndarray
    drawn: np.ndarray
    unseen: np.ndarray
    n: int

    @property
    def factor(self) -> np.ndarray:
        """What a pair counts in the sum over sizes of the means per size, shape ``(m,)``.

        At s = n/2 a pair's two members have the same size: its stratum is one mean, not two.
        """
        return np.where(2 * self.sizes == self.n, 1.0, 2.0) / self.drawn

    @classmethod
    def of(cls, coalitions: np.ndarray) -> Strata:
        """Count the sizes of one coalition per pair, shape ``(m, n)``."""
        n = coalitions.shape[1]
        sizes = coalitions.sum(axis=1)
        small = np.minimum(sizes, n - sizes)
        drawn = np.bincount(small, minlength=n + 1)[small]
        log_population = gammaln(n + 1.0) - gammaln(small + 1.0) - gammaln(n - small + 1.0)
        log_population -= np.where(2 * small == n, log(2.0), 0.0)
        unseen = -np.expm1(np.minimum(np.log(drawn) - log_population, 0.0))
        # log-binomials are rounded: an enumerated size must count as such
        return cls(sizes, drawn, np.where(unseen < 1e-9, 0.0, unseen), n)


def msr_weights(coalitions: np.ndarray, strata: Strata) -> np.ndarray:
    """Return the weights of the odd values in the Shapley values, estimated per size (eq. 15).

    ``phi_i = sum_s mean_{|S| = s} 2 f_odd(S) (1[i in S] / s - 1[i not in S] / (n - s))`` over
    one member of each pair: the mean over the pairs drawn estimates that over all of them.

    Args:
        coalitions: One member of each pair, shape ``(m, n)``.
        strata: Their sizes.

    Returns:
        The weights, shape ``(m, n)``.
    """
    n = coalitions.shape[1]
    sizes = strata.sizes[:, None]
    share = np.where(coalitions, 1.0 / sizes, -1.0 / (n - sizes))
    return share * strata.factor[:, None]


def msr_correction(coalitions: np.ndarray, residuals: np.ndarray, strata: Strata) -> np.ndarray:
    """Return the Shapley values of what the model left over, shape ``(n,)`` (eq. 15)."""
    return residuals @ msr_weights(coalitions, strata)


def msr_variances(coalitions: np.ndarray, errors: np.ndarray, strata: Strata) -> np.ndarray:
    """Return the sampling variances of the correction, shape ``(n,)`` (eq. 16).

    Within a size the pairs are a simple random sample without replacement, so every one of them
    adds the square of its term, times the share of its size that was not drawn.

    Args:
        coalitions: One member of each pair, shape ``(m, n)``.
        errors: Errors of the model at pairs that it has not seen, shape ``(m,)``.
        strata: The sizes.
    """
    weights = msr_weights(coalitions, strata)
    return (errors**2 * strata.unseen) @ weights**2


def overlap_shares(strata: Strata, order: int) -> np.ndarray:
    """Return how often a coalition of every row's size holds all of a set, all but one and so on.

    Args:
        strata: The sizes.
        order: How many players a set has.

    Returns:
        The shares, shape ``(order + 1, m)``.
    """
    s, n = strata.sizes.astype(float), float(strata.n)
    counts = [
        comb(order, held) * _falling(s, held) * _falling(n - s, order - held)
        for held in range(order, -1, -1)
    ]
    return np.stack(counts) / _falling(np.array(n), order)


def _falling(x: np.ndarray, count: int) -> np.ndarray:
    """Return ``x (x - 1) ... (x - count + 1)``."""
    return reduce(np.multiply, [x - k for k in range(count)], np.ones_like(x))


def _weights(strata: Strata, order: int) -> np.ndarray:
    """Return the weights of a component's values in the interactions, estimated per size.

    ``SII_A = sum_s sum_h (-1)^(k - h) C(k, h) [mean over S with h players of A] f(S) / (n - k + 1)``,
    over the coalitions S of size s.

    Args:
        strata: The sizes.
        order: The order k of the interactions.

    Returns:
        The weights of rows that hold all of a set, all but one and so on, shape ``(k + 1, m)``.
    """
    shares = overlap_shares(strata, order)
    signs = np.array([[float((-1) ** lacks * comb(order, lacks))] for lacks in range(order + 1)])
    weights = np.divide(signs, shares, out=np.zeros_like(shares), where=shares > 0)
    return weights * strata.factor / (strata.n - order + 1)


def _sums_over_sets(coalitions: np.ndarray, by_overlap: np.ndarray) -> np.ndarray:
    """Return the sums over the rows of what they weigh at every set of players.

    A row's weight depends on how many of the set it holds, which is a polynomial in its 0/1
    entries: its differences are the coefficients, and few matrix products do it for all sets.

    Args:
        coalitions: Boolean rows, shape ``(m, n)``.
        by_overlap: Weights of the rows that hold all of a set, all but one ... none, ``(k + 1, m)``.

    Returns:
        The sums in the order of ``subsets``, shape ``(p,)``.
    """
    order = len(by_overlap) - 1
    z = coalitions.astype(float)
    players = subsets(coalitions.shape[1], order)
    out = np.zeros(len(players[0]))
    for degree in range(order, -1, -1):
        # the difference of that degree from none of the set on
        held = by_overlap[order - degree :]
        terms = [(-1.0) ** k * comb(degree, k) * weights for k, weights in enumerate(held)]
        table = sums_of_products(reduce(np.add, terms), z, degree)
        for some in combinations(players, degree):
            out += table[some]
    return out


def correction(
    coalitions: np.ndarray, residuals: np.ndarray, strata: Strata, order: int
) -> np.ndarray:
    """Return the interactions of an order of what the model left over, shape ``(p,)``."""
    return _sums_over_sets(coalitions, residuals * _weights(strata, order))


def correction_variances(
    coalitions: np.ndarray, errors: np.ndarray, strata: Strata, order: int
) -> np.ndarray:
    """Return the sampling variances of that; see :func:`msr_variances`."""
    return _sums_over_sets(coalitions, errors**2 * strata.unseen * _weights(strata, order) ** 2)
