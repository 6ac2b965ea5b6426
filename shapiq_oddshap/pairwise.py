"""Pairwise Shapley interactions from the even component: the regression's twin.

SII_ij = 4 Σ_{T∋i,j, |T| even} β_T / (|T| - 1): what paired sampling pays for and Shapley values do
not use (``docs/interactions.md``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap import fourier
from shapiq_oddshap.gp.correction import Strata, pair_correction
from shapiq_oddshap.regression import fit_even_by_size
from shapiq_oddshap.sample import BLOCK

if TYPE_CHECKING:
    from shapiq_oddshap.sample import Sample

__all__ = ["exact_interactions", "regressed_interactions"]


def exact_interactions(sample: Sample) -> np.ndarray:
    """Return the interactions of a game of which all coalitions are known, ``(n (n - 1) / 2,)``."""
    even = sample.component("even")
    # the means per size are over all coalitions there are
    return pair_correction(even.coalitions, even.targets, Strata.of(even.coalitions))


def regressed_interactions(sample: Sample, terms: np.ndarray) -> np.ndarray:
    """Return the interactions by a regression on even terms and sizes, and its residuals' own.

    The terms give theirs, a function g of the size gives 2 (g(0) - g(1)) / (n - 1) to every pair, and
    the residuals, which have mean zero within every size, give the stratified estimate.

    Args:
        sample: Evaluated coalitions.
        terms: Screened terms of even order, shape ``(n_terms, n)``.

    Returns:
        The interactions in the order of ``itertools.combinations``, shape ``(n (n - 1) / 2,)``.
    """
    n, rows = sample.n, sample.component("even")
    if len(rows.targets) == 0:
        return np.zeros(n * (n - 1) // 2)
    fit, by_size = fit_even_by_size(sample, terms)
    values = fourier.pairwise_interactions(fit.coefficients, terms)
    ends = -fit.coefficients.sum()
    values += 2.0 * (ends - by_size[1]) / (n - 1)
    strata = Strata.of(rows.coalitions)
    residuals = rows.targets - by_size[np.minimum(strata.sizes, n - strata.sizes)]
    for start in range(0, len(residuals), BLOCK):
        block = slice(start, start + BLOCK)
        residuals[block] -= fit.coefficients @ fourier.parities(terms, rows.coalitions[block])
    return values + pair_correction(rows.coalitions, residuals, strata)
