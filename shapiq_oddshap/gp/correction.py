"""The Shapley values and interactions of what the process leaves over.

Equations 15 and 16 of ``docs/odd-gp.md``, and 5 of ``docs/interactions.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from scipy.special import gammaln

from shapiq_oddshap.fourier import pair_indices

__all__ = [
    "Strata",
    "msr_correction",
    "msr_variances",
    "msr_weights",
    "pair_correction",
    "pair_shares",
    "pair_variances",
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


def pair_shares(strata: Strata) -> np.ndarray:
    """Return how often a coalition of every row's size holds two, one, none of a pair, ``(3, m)``."""
    s, n = strata.sizes.astype(float), float(strata.n)
    return np.stack([s * (s - 1), 2 * s * (n - s), (n - s) * (n - s - 1)]) / (n * (n - 1))


def _pair_weights(strata: Strata) -> np.ndarray:
    """Return the weights of the even values in the interactions, estimated per size, ``(3, m)``.

    ``SII_ij = sum_s [mean over S with both of i, j - 2 mean over S with one + mean over S with
    neither] f(S) / (n - 1)``, over the coalitions of size s.
    """
    shares = pair_shares(strata)
    ones = np.array([[1.0], [-2.0], [1.0]])
    weights = np.divide(ones, shares, out=np.zeros_like(shares), where=shares > 0)
    return weights * strata.factor / (strata.n - 1)


def _sums_over_pairs(coalitions: np.ndarray, by_overlap: np.ndarray) -> np.ndarray:
    """Return the sums over the rows of what they weigh at every pair of players.

    A row's weight depends on how many of the pair it holds, which is a polynomial in its 0/1
    entries: one matrix product does it for all pairs.

    Args:
        coalitions: Boolean rows, shape ``(m, n)``.
        by_overlap: Weights of the rows that hold two, one, none of a pair, shape ``(3, m)``.

    Returns:
        The sums in the order of ``pair_indices``, shape ``(n (n - 1) / 2,)``.
    """
    both, one, neither = by_overlap
    z = coalitions.astype(float)
    first, second = pair_indices(coalitions.shape[1])
    table = (z * (both - 2.0 * one + neither)[:, None]).T @ z
    single = (one - neither) @ z
    return table[first, second] + single[first] + single[second] + float(neither.sum())


def pair_correction(coalitions: np.ndarray, residuals: np.ndarray, strata: Strata) -> np.ndarray:
    """Return the pairwise interactions of what the model left over, ``(n (n - 1) / 2,)``."""
    return _sums_over_pairs(coalitions, residuals * _pair_weights(strata))


def pair_variances(coalitions: np.ndarray, errors: np.ndarray, strata: Strata) -> np.ndarray:
    """Return the sampling variances of that; see :func:`msr_variances`."""
    return _sums_over_pairs(coalitions, errors**2 * strata.unseen * _pair_weights(strata) ** 2)
