"""Shapley interactions of a sample's components: by the regression, exactly, and what is known of them.

Those of order k depend on the component of the parity of k alone: SII_A = (-2)^k Σ β_T / (|T| - k + 1)
over the terms T ⊇ A of that parity (``docs/interactions.md``).
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap import fourier
from shapiq_oddshap.gp.correction import Strata, correction
from shapiq_oddshap.gp.readout import OddValues
from shapiq_oddshap.regression import fit_even_by_size
from shapiq_oddshap.sample import BLOCK

if TYPE_CHECKING:
    from shapiq_oddshap.sample import Component, Sample

__all__ = [
    "aggregated_odd_values",
    "complete",
    "exact_interactions",
    "k_sii_variances",
    "regressed_interactions",
]


def exact_interactions(sample: Sample, order: int) -> np.ndarray:
    """Return the interactions of an order where all coalitions are known, in the order of ``subsets``."""
    if order > sample.n:
        return np.zeros(0)
    rows = _component(sample, order)
    # the means per size are over all coalitions there are
    values = correction(rows.coalitions, rows.targets, Strata.of(rows.coalitions), order)
    if order % 2:
        # the empty and the grand coalition, which are no row; their even value is zero
        values += sample.total / (sample.n - order + 1)
    return values


def _component(sample: Sample, order: int) -> Component:
    """Return the component that interactions of an order depend on."""
    return sample.component("odd" if order % 2 else "even")


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
    values = fourier.interactions(fit.coefficients, terms, 2)
    ends = -fit.coefficients.sum()
    values += 2.0 * (ends - by_size[1]) / (n - 1)
    strata = Strata.of(rows.coalitions)
    residuals = rows.targets - by_size[np.minimum(strata.sizes, n - strata.sizes)]
    for start in range(0, len(residuals), BLOCK):
        block = slice(start, start + BLOCK)
        residuals[block] -= fit.coefficients @ fourier.parities(terms, rows.coalitions[block])
    values += correction(rows.coalitions, residuals, strata, 2)
    return complete(values, sample, 2)


def _known_sums(sample: Sample, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sets of one player less whose interactions with all others sum to a known value.

    Those of a set B sum to -2 times the difference of the component in its players at the empty
    coalition, which B and its subsets tell if they were evaluated, together with their complements.

    Args:
        sample: Evaluated coalitions.
        order: The order k of the interactions.

    Returns:
        The sets as boolean rows, shape ``(b, n)``, and the sums, shape ``(b,)``.
    """
    rows, n = _component(sample, order), sample.n
    sign = -1.0 if order % 2 else 1.0
    # the even component less its value at the empty coalition
    at: dict[tuple[int, ...], float] = {(): -0.5 * sample.total if order % 2 else 0.0}
    sizes = rows.coalitions.sum(axis=1)
    paired = np.bincount(rows.members, minlength=len(sizes)) == 2
    few = np.flatnonzero(paired & (np.minimum(sizes, n - sizes) < order))
    for row in few.tolist():
        for players, own in ((rows.coalitions[row], 1.0), (~rows.coalitions[row], sign)):
            if players.sum() < order:
                at[tuple(np.flatnonzero(players).tolist())] = own * rows.targets[row]
    found, sums = [], []
    for players in sorted(some for some in at if len(some) == order - 1):
        difference = sum(
            (-1.0) ** (order - 1 - size) * at.get(some, np.nan)
            for size in range(order)
            for some in combinations(players, size)
        )
        if not np.isnan(difference):
            found.append(players)
            sums.append(-2.0 * difference)
    known = np.zeros((len(found), n), dtype=bool)
    known[np.arange(len(found))[:, None], np.array(found, dtype=int).reshape(-1, order - 1)] = True
    return known, np.array(sums)


def complete(values: np.ndarray, sample: Sample, order: int) -> np.ndarray:
    """Return the interactions with the sums that are known, changed as little as possible.

    What efficiency is to Shapley values: a set of one player less that was evaluated, with its subsets
    and all complements, tells what its interactions with each of the others sum to.

    Args:
        values: Interactions in the order of ``subsets``, shape ``(p,)``.
        sample: Evaluated coalitions.
        order: Their order k.
    """
    known, sums = _known_sums(sample, order)
    if len(known) == 0:
        return values
    n = sample.n
    place = np.full((n,) * (order - 1), -1)
    place[tuple(np.nonzero(known)[1].reshape(-1, order - 1).T)] = np.arange(len(known))
    # the place of every set without one of its players, after all known ones where it is unknown
    faces = [place[some] for some in combinations(fourier.subsets(n, order), order - 1)]
    now = sum(np.bincount(face + 1, values, minlength=len(known) + 1)[1:] for face in faces)
    # the least change gives every set a share of all its faces
    together = known.astype(float) @ known.T
    normal = np.where(together == order - 2, 1.0, 0.0)
    np.fill_diagonal(normal, n - order + 1.0)
    share = np.append(np.linalg.lstsq(normal, sums - now, rcond=None)[0], 0.0)
    for face in faces:
        values = values + share[face]
    return values


def k_sii_variances(variances: np.ndarray, sample: Sample) -> np.ndarray:
    """Return the variances of k-SII of order two, given those of the Shapley interaction index.

    A player's value is φ_i - Σ_j SII_ij / 2, the pairs keep theirs. The odd and the even component
    err independently. The sum is known of players that were evaluated alone, see :func:`complete`;
    of the others it is taken for one of errors without correlation.

    Args:
        variances: Those of the Shapley values, then those of the pairs, ``(n + n (n - 1) / 2,)``.
        sample: Evaluated coalitions.
    """
    n = sample.n
    players = np.concatenate(fourier.subsets(n, 2))
    added = np.bincount(players, np.tile(variances[n:], 2), minlength=n)
    added[_known_sums(sample, 2)[0].any(axis=0)] = 0.0
    return np.concatenate([variances[:n] + added / 4.0, variances[n:]])


def aggregated_odd_values(sample: Sample) -> tuple[OddValues, OddValues]:
    """Return what k-SII of order three reads off the odd component for players and for pairs.

    A pair's value is SII_ij - Σ_l SII_ijl / 2, a player's φ_i - Σ_j SII_ij / 2 + Σ_jl SII_ijl / 6.
    With Δ_ij = f(∅) - f({i}) - f({j}) + f({i, j}) of the odd component, what its triples give is
    Δ_ij to the pair, and -Σ_j Δ_ij / 6 to the player. Pairs whose Δ_ij is known add no variance.

    Args:
        sample: Evaluated coalitions.

    Returns:
        The read-outs of players, φ_i included, and of pairs.
    """
    n = sample.n
    pairs = np.column_stack(fourier.subsets(n, 2))
    coalitions = np.zeros((1 + n + len(pairs), n), dtype=bool)
    coalitions[1 : n + 1] = np.eye(n, dtype=bool)
    np.put_along_axis(coalitions[n + 1 :], pairs, values=True, axis=1)
    known = {row.tobytes() for row in _known_sums(sample, 3)[0]}
    unknown = np.array([row.tobytes() not in known for row in coalitions[n + 1 :]], dtype=float)
    of_pairs = np.column_stack(
        [np.ones(len(pairs)), -1.0 * coalitions[n + 1 :], np.eye(len(pairs))]
    )
    of_pairs *= unknown[:, None]
    of_players = coalitions[n + 1 :].T.astype(float) @ of_pairs / -6.0
    return (
        OddValues(coalitions, of_players, shapley=True),
        OddValues(coalitions, of_pairs, shapley=False),
    )
