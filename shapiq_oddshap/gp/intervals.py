"""What is claimed for the variances of the estimate (``docs/odd-gp.md``, equations 17 and 18)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.gp.correction import Strata
from shapiq_oddshap.gp.parts import Terms
from shapiq_oddshap.gp.readout import SHAPLEY_VALUES

if TYPE_CHECKING:
    from shapiq_oddshap.gp.posterior import Posterior
    from shapiq_oddshap.gp.readout import Readout

__all__ = ["calibrated_variances", "level_variances", "sampling_variances"]

_FREEDOM_KEPT = 0.25
"""Share of the degrees of freedom that is left at least, where hyperparameters outnumber pairs."""


def calibrated_variances(
    posterior: Posterior,
    residuals: np.ndarray,
    *,
    coalitions: np.ndarray,
    sub: np.ndarray,
    hyperparameters: float,
    readout: Readout = SHAPLEY_VALUES,
    correction: np.ndarray | None = None,
    credibility: float = 1.0,
) -> np.ndarray:
    """Blend the posterior variances with those of the correction (eq. 17).

    With ``c`` the diagonal of ``K^-1`` the leave-one-out residuals are ``alpha / c``, their
    variances ``1 / c``, and ``q``, the mean of ``noise * c``, is the share of the data that the
    process leaves to noise. Where it interpolates (q near 0) the posterior variance holds, scaled up
    if the leave-one-out residuals are larger than it says; where it smooths (q near 1) the estimate
    is a correction of a fixed model, and the sampling variance of the correction holds. No
    less than that of what is added, which asks nothing of the prior, is claimed for pairs of players,
    and for single ones where single terms were picked by the same pairs.

    Args:
        posterior: The process on the pairs ``sub``.
        residuals: Residuals of the posterior mean at all pairs, shape ``(m,)``.
        coalitions: One member of each pair, shape ``(m, n)``.
        sub: Pairs that the process was conditioned on, shape ``(k,)``.
        hyperparameters: How many variances the prior's fit chose freely.
        readout: What is read off.
        correction: Of pairs, what the correction is: what it takes away of an error is no longer
            uncertain. ``None`` leaves that out.
        credibility: The share of it that is added.

    Returns:
        The variances, shape ``(n,)``, or one per set of players.
    """
    alpha, precisions = posterior.alpha[1:], posterior.precisions
    share = min(posterior.kernel.noise * float(precisions.mean()), 1.0)
    misfit = max(float(np.mean(alpha**2) / precisions.mean()), 1.0)
    # the prior was fitted to the same data, which costs it degrees of freedom
    fitted = len(sub) / max(len(sub) - hyperparameters, _FREEDOM_KEPT * len(sub))
    errors = residuals.copy()
    errors[sub] = alpha / precisions
    # where the model interpolates, the share that was drawn has no error at all
    strata = Strata.of(coalitions)
    strata = replace(strata, unseen=strata.unseen ** (2.0 - share))
    sampling = sampling_variances(coalitions, errors, strata, readout)
    corrected = share * credibility
    prior = misfit * readout.variances(posterior)
    if correction is not None and prior.any():
        prior *= max(1.0 - credibility * float(correction @ correction) / float(prior.sum()), 0.0)
    blend = (1.0 - corrected) * prior + corrected * sampling
    if correction is None and posterior.kernel.find(Terms) is None:
        return fitted * blend
    return fitted * np.maximum(blend, credibility**2 * sampling)


def sampling_variances(
    coalitions: np.ndarray,
    errors: np.ndarray,
    strata: Strata,
    readout: Readout = SHAPLEY_VALUES,
) -> np.ndarray:
    """Return what is claimed for the correction's variances, one per value read off (eq. 18).

    Equation 16 takes the players as they were drawn: one that no small coalition happens to hold
    would look certain. So half of the claim is its mean over the draws, where a player is in a share
    ``s / n`` of the coalitions of size s. Few errors of few small coalitions make up either sum, so
    it has Student's variance for as many degrees of freedom as Satterthwaite counts.

    Args:
        coalitions: One member of each pair, shape ``(m, n)``.
        errors: Errors of the model at pairs that it has not seen, shape ``(m,)``.
        strata: The sizes.
        readout: What is read off.
    """
    drawn = readout.sampling_variances(coalitions, errors, strata)
    expected = errors**2 * strata.unseen * readout.mean_squares(strata)
    total = float(expected.sum())
    noise = np.mean(errors**2) * readout.single_squares()
    if total == 0.0:
        return np.zeros_like(drawn) + noise
    freedom = 1.0 / float(np.sum((expected / total) ** 2))
    student = freedom / max(freedom - 2.0, 0.5 * freedom)
    return student * 0.5 * (total + drawn) + noise


def level_variances(
    coalitions: np.ndarray, levels: np.ndarray, readout: Readout = SHAPLEY_VALUES
) -> np.ndarray:
    """Return what is claimed at least where values have a few levels, as in voting games.

    Pairs of one and the same value are no evidence for zero variance, of which a Gaussian process makes
    certainty. By the rule of succession the next pair is off by a level with probability ``1 / (m + 2)``.

    Args:
        coalitions: One member of each pair, shape ``(m, n)``.
        levels: The levels, see ``few_levels``; none where values are of a continuum.
        readout: What is read off.
    """
    count = len(coalitions)
    gaps = np.diff(np.unique(np.concatenate([-levels, levels])))
    gap = gaps.min() if len(gaps) else 0.0
    errors = np.full(count, gap / np.sqrt(count + 2.0))
    return sampling_variances(coalitions, errors, Strata.of(coalitions), readout)
