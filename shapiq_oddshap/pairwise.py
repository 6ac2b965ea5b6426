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
    from shapiq_oddshap.sample import Component, Sample

__all__ = ["complete", "exact_interactions", "k_sii_variances", "regressed_interactions"]


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
    return complete(values + pair_correction(rows.coalitions, residuals, strata), rows)


def _known_sums(even: Component) -> tuple[np.ndarray, np.ndarray]:
    """Return the players that were evaluated alone, with their complement, and their pairs' sums.

    The interactions of a player sum to 2 (f_even(∅) - f_even({i})), which such a pair tells.
    """
    n = even.coalitions.shape[1]
    sizes = even.coalitions.sum(axis=1)
    paired = np.bincount(even.members, minlength=len(sizes)) == 2
    rows = np.flatnonzero(paired & (np.minimum(sizes, n - sizes) == 1))
    alone = np.where((sizes[rows] == 1)[:, None], even.coalitions[rows], ~even.coalitions[rows])
    players, first = np.unique(np.argmax(alone, axis=1), return_index=True)
    return players, -2.0 * even.targets[rows[first]]


def complete(values: np.ndarray, even: Component) -> np.ndarray:
    """Return the interactions with the sums that are known, changed as little as possible.

    To pairs what efficiency is to Shapley values: every player that was evaluated alone, together
    with all others, tells what its interactions sum to.

    Args:
        values: Interactions, shape ``(n (n - 1) / 2,)``.
        even: The even component of the sample.
    """
    n = even.coalitions.shape[1]
    players, sums = _known_sums(even)
    if len(players) == 0:
        return values
    first, second = fourier.pair_indices(n)
    now = np.bincount(first, values, minlength=n) + np.bincount(second, values, minlength=n)
    # the least change gives every pair a share of both of its players
    normal = (n - 2.0) * np.eye(len(players)) + 1.0
    share = np.zeros(n)
    share[players] = np.linalg.lstsq(normal, sums - now[players], rcond=None)[0]
    return values + share[first] + share[second]


def k_sii_variances(variances: np.ndarray, even: Component) -> np.ndarray:
    """Return the variances of k-SII of order two, given those of the Shapley interaction index.

    A player's value is φ_i - Σ_j SII_ij / 2, the pairs keep theirs. The odd and the even component
    err independently. The sum is known of players that were evaluated alone, see :func:`complete`;
    of the others it is taken for one of errors without correlation.

    Args:
        variances: Those of the Shapley values, then those of the pairs, ``(n + n (n - 1) / 2,)``.
        even: The even component of the sample.
    """
    n = even.coalitions.shape[1]
    players = np.concatenate(fourier.pair_indices(n))
    added = np.bincount(players, np.tile(variances[n:], 2), minlength=n)
    added[_known_sums(even)[0]] = 0.0
    return np.concatenate([variances[:n] + added / 4.0, variances[n:]])
