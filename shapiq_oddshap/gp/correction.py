"""The Shapley values of what the process leaves over (``docs/odd-gp.md``, equations 15 and 16)."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from scipy.special import gammaln

__all__ = [
    "Strata",
    "msr_correction",
    "msr_variances",
    "msr_weights",
]


@dataclass(frozen=True)
class Strata:
    """Which size each pair has, and how many there are of it.

    Attributes:
        sizes: Size of every pair's first member, shape ``(m,)``.
        drawn: Pairs drawn of the same (unordered) size, shape ``(m,)``.
        unseen: Share of the pairs of that size that were not drawn, shape ``(m,)``.
    """

    sizes: np.ndarray
    drawn: np.ndarray
    unseen: np.ndarray

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
        return cls(sizes, drawn, np.where(unseen < 1e-9, 0.0, unseen))


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
    # at s = n/2 a pair's two members have the same size: its stratum is one mean, not two
    factor = np.where(2 * strata.sizes == n, 1.0, 2.0) / strata.drawn
    return share * factor[:, None]


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
