"""The Shapley values of what the process leaves over (``docs/odd-gp.md``, equations 15 to 18)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log

import numpy as np
from scipy.special import gammaln

__all__ = [
    "Strata",
    "calibrated_variances",
    "msr_correction",
    "msr_variances",
    "msr_weights",
    "sampling_variances",
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


def sampling_variances(coalitions: np.ndarray, errors: np.ndarray, strata: Strata) -> np.ndarray:
    """Return what is claimed for the correction's variances, shape ``(n,)`` (eq. 18).

    Equation 16 takes the players as they were drawn: one that no small coalition happens to hold
    would look certain. So half of the claim is its mean over the draws, where a player is in a share
    ``s / n`` of the coalitions of size s. Few errors of few small coalitions make up either sum, so
    it has Student's variance for as many degrees of freedom as Satterthwaite counts.

    Args:
        coalitions: One member of each pair, shape ``(m, n)``.
        errors: Errors of the model at pairs that it has not seen, shape ``(m,)``.
        strata: The sizes.
    """
    n = coalitions.shape[1]
    factor = np.where(2 * strata.sizes == n, 1.0, 2.0) / strata.drawn
    expected = errors**2 * strata.unseen * factor**2 / (strata.sizes * (n - strata.sizes))
    total = float(expected.sum())
    if total == 0.0:
        return np.zeros(n)
    freedom = 1.0 / float(np.sum((expected / total) ** 2))
    student = freedom / max(freedom - 2.0, 0.5 * freedom)
    return student * 0.5 * (total + msr_variances(coalitions, errors, strata))


def calibrated_variances(
    posterior: np.ndarray,
    residuals: np.ndarray,
    *,
    coalitions: np.ndarray,
    sub: np.ndarray,
    alpha: np.ndarray,
    precisions: np.ndarray,
    noise: float,
    hyperparameters: float,
) -> np.ndarray:
    """Blend the posterior variances with those of the correction (eq. 17).

    With ``c`` the diagonal of ``K^-1`` the leave-one-out residuals are ``alpha / c``, their
    variances ``1 / c``, and ``q``, the mean of ``noise * c``, is the share of the data that the
    process leaves to noise. Where it interpolates (q near 0) the posterior variance holds, scaled up
    if the leave-one-out residuals are larger than it says; where it smooths (q near 1) the estimate
    is a correction of a fixed model, and the sampling variance of the correction holds. Less than
    that is never claimed: it asks nothing of the prior.

    Args:
        posterior: Posterior variances, shape ``(n,)``.
        residuals: Residuals of the posterior mean at all pairs, shape ``(m,)``.
        coalitions: One member of each pair, shape ``(m, n)``.
        sub: Pairs that the process was conditioned on, shape ``(k,)``.
        alpha: Dual weights, the noise-free row first, shape ``(k + 1,)``.
        precisions: Diagonal of ``K^-1``, shape ``(k + 1,)``.
        noise: The noise used.
        hyperparameters: How many variances the prior's fit chose freely.
    """
    alpha, precisions = alpha[1:], precisions[1:]
    share = min(noise * float(precisions.mean()), 1.0)
    misfit = max(float(np.mean(alpha**2) / precisions.mean()), 1.0)
    # the prior was fitted to the same data, which costs it degrees of freedom
    fitted = len(sub) / max(len(sub) - hyperparameters, _FREEDOM_KEPT * len(sub))
    errors = residuals.copy()
    errors[sub] = alpha / precisions
    # where the model interpolates, the share that was drawn has no error at all
    strata = Strata.of(coalitions)
    strata = replace(strata, unseen=strata.unseen ** (2.0 - share))
    sampling = sampling_variances(coalitions, errors, strata)
    blend = (1.0 - share) * misfit * posterior + share * sampling
    return fitted * np.maximum(blend, sampling)


_FREEDOM_KEPT = 0.25
"""Share of the degrees of freedom that is left at least, where hyperparameters outnumber pairs."""
