"""Constrained weighted least squares in the parity basis.

Minimise Σ_S w_S (y_S - Σ_T β_T χ_T(S))² subject to A β = b, where the rows of A are disjoint 0/1
vectors: one for the odd terms, and one for the even terms where there are any (paper, Appendix C.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from shapiq_oddshap.fourier import parities, singletons
from shapiq_oddshap.sample import BLOCK, has_parity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shapiq_oddshap.sample import Parity, Sample

__all__ = [
    "Fit",
    "constrained_least_squares",
    "fit_terms",
    "leave_one_out_error",
    "main_effects",
]

_WORST_CONDITION = 1e7
"""Above this the normal equations would lose more than half of the digits: take QR instead."""


_RANK_TOLERANCE = 1e-11
"""Smaller singular values, relative to the largest, count as zero: the constraints' are rounding."""


@dataclass(frozen=True)
class Fit:
    """A solved regression.

    Attributes:
        terms: The terms as boolean rows, shape ``(n_terms, n)``.
        coefficients: β, shape ``(n_terms,)``.
        solver: ``"cholesky"`` (normal equations) or ``"lstsq"`` (rank-revealing).
        condition: 1-norm condition estimate of the normal matrix; ``None`` if it was not formed.
    """

    terms: np.ndarray
    coefficients: np.ndarray
    solver: str
    condition: float | None


def constrained_least_squares(
    terms: np.ndarray,
    coalitions: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    constraints: np.ndarray,
    totals: np.ndarray,
    corner: np.ndarray | None = None,
) -> Fit:
    """Solve the constrained regression exactly on its constraints.

    The normal equations are summed block by block, so that the design is never held whole, and
    solved by Cholesky. With fewer rows than terms, or an ill-conditioned normal matrix, a
    rank-revealing solve takes over; it gives the solution nearest to β = Aᵀ(AAᵀ)⁻¹b.

    Args:
        terms: Terms as boolean rows, shape ``(n_terms, n)``.
        coalitions: Boolean rows, shape ``(rows, n)``.
        targets: Values to fit, shape ``(rows,)``.
        weights: Positive row weights, shape ``(rows,)``.
        constraints: A as disjoint 0/1 rows, shape ``(k, n_terms)``.
        totals: b, shape ``(k,)``.
        corner: The normal matrix of the first terms if it is known, such as ``singletons_gram``.

    Returns:
        The coefficients with the solver and the condition estimate.
    """
    design = _Design(terms, coalitions, targets, np.sqrt(weights))
    condition = None
    if len(coalitions) >= len(terms) - len(constraints):
        gram, moments = design.normal_equations(corner)
        factor, condition = _factorise(gram)
        if condition < _WORST_CONDITION:
            beta = scipy.linalg.cho_solve(factor, moments, check_finite=False)
            along = scipy.linalg.cho_solve(factor, constraints.T, check_finite=False)
            beta += along @ np.linalg.solve(constraints @ along, totals - constraints @ beta)
            return Fit(terms, _enforce(beta, constraints, totals), "cholesky", condition)
    beta = _project(design, constraints, totals)
    return Fit(terms, _enforce(beta, constraints, totals), "lstsq", condition)


def fit_terms(sample: Sample, terms: np.ndarray, parity: Parity) -> Fit:
    """Regress a game, or one component of it, on terms, exactly at the empty and the grand one.

    Args:
        sample: Evaluated coalitions.
        terms: Terms as boolean rows, shape ``(n_terms, n)``: of odd order, the singletons first, if
            ``parity`` is ``"odd"``; of even order if it is ``"even"``; but for the constant, which
            comes in front where even terms are fitted.
        parity: Which component the rows are of; ``"both"`` takes the coalitions as they are.

    Returns:
        The coefficients in units of the game and their terms; that of the constant is relative to
        f(∅) for ``"both"`` and to (f(∅) + f([n])) / 2 for ``"even"``.
    """
    if parity == "odd":
        odd = sample.component("odd")
        return constrained_least_squares(
            terms,
            *(odd.coalitions, odd.targets, odd.weights),
            np.ones((1, len(terms))),
            np.array([-sample.total / 2]),
            # n × n, of no use where the rows do not determine the terms
            odd.singletons_gram if len(odd.targets) >= len(terms) - 1 else None,
        )
    terms = np.concatenate([np.zeros((1, sample.n), dtype=bool), terms])
    if parity == "even":
        even = sample.component("even")
        rows = (even.coalitions, even.targets, even.weights)
        return constrained_least_squares(terms, *rows, np.ones((1, len(terms))), np.zeros(1))
    # centred at f(∅), where the even part of the constraints is worth total / 2
    rows = (sample.coalitions[2:], sample.values[2:] - sample.empty_value, sample.weights[2:])
    is_odd = has_parity(terms.sum(axis=1), "odd")
    constraints = np.array([is_odd, ~is_odd], dtype=float)
    totals = np.array([-sample.total / 2, sample.total / 2])
    return constrained_least_squares(terms, *rows, constraints, totals)


def main_effects(sample: Sample) -> np.ndarray:
    """Return Σ_i β_i χ_i(S) of the odd regression on singletons, one value per coalition.

    Args:
        sample: Evaluated coalitions.

    Returns:
        The values in units of the game, shape ``(m,)``.
    """
    rows, fit = sample.component("odd"), fit_terms(sample, singletons(sample.n), "odd")
    effects = np.empty(len(rows.targets))
    for start in range(0, len(effects), BLOCK):
        block = slice(start, start + BLOCK)
        effects[block] = (1.0 - 2.0 * rows.coalitions[block]) @ fit.coefficients
    # a coalition is the one of its row or the complement, whose effects are the negative
    same = sample.coalitions[2:, 0] == rows.coalitions[rows.members, 0]
    ends = fit.coefficients.sum() * np.array([1.0, -1.0])
    return np.concatenate([ends, np.where(same, 1.0, -1.0) * effects[rows.members]])


def leave_one_out_error(
    coalitions: np.ndarray, targets: np.ndarray, weights: np.ndarray, total: float
) -> float:
    """Return the weighted mean squared leave-one-out error of the regression on singletons.

    In closed form: e_i / (1 - h_i) where the rows determine the coefficients, and
    (K⁻¹e)_i / (K⁻¹)_ii with K = ZZᵀ where the fit interpolates. Rows whose removal leaves the rest
    undetermined (h_i = 1) say nothing and are left out.

    Args:
        coalitions: Boolean rows, shape ``(rows, n)``.
        targets: The odd component, shape ``(rows,)``.
        weights: Positive row weights, shape ``(rows,)``.
        total: Σ_i β_i, the efficiency constraint.

    Returns:
        The error in squared units of the targets; infinite if no row says anything.
    """
    n = coalitions.shape[1]
    root = np.sqrt(weights)
    signs = (1.0 - 2.0 * coalitions) * root[:, None]
    mean = signs.mean(axis=1)
    projected = signs - mean[:, None]
    rest = targets * root - total * mean
    left, singular, _ = scipy.linalg.svd(projected, full_matrices=False, check_finite=False)
    rank = int(np.sum(singular > singular.max(initial=0.0) * _RANK_TOLERANCE))
    left, singular = left[:, :rank], singular[:rank]
    if rank == len(targets) and rank < n:
        inverse = left / singular**2
        errors = (inverse @ (left.T @ rest)) / np.einsum("ij,ij->i", inverse, left)
        informative = np.ones(len(targets), dtype=bool)
    else:
        slack = 1.0 - np.einsum("ij,ij->i", left, left)
        informative = slack > 1e-8
        errors = (rest - left @ (left.T @ rest)) / np.where(informative, slack, 1.0)
    if not informative.any():
        return np.inf
    return float(np.sum(errors[informative] ** 2) / np.sum(weights[informative]))


@dataclass(frozen=True)
class _Design:
    """The weighted design √w χ_T(S) and targets √w y, produced in blocks of rows."""

    terms: np.ndarray
    coalitions: np.ndarray
    targets: np.ndarray
    root_weights: np.ndarray

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield blocks of shape ``(n_terms, block)`` with their targets."""
        for start in range(0, len(self.coalitions), BLOCK):
            rows = slice(start, start + BLOCK)
            root = self.root_weights[rows]
            yield parities(self.terms, self.coalitions[rows]) * root, self.targets[rows] * root

    def normal_equations(self, corner: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return XᵀWX, shape ``(n_terms, n_terms)``, and XᵀWy, shape ``(n_terms,)``."""
        gram = np.zeros((len(self.terms), len(self.terms)))
        moments = np.zeros(len(self.terms))
        known = 0 if corner is None else len(corner)
        for block, targets in self.blocks():
            head, rest = block[:known], block[known:]
            gram[:known, known:] += head @ rest.T
            gram[known:, known:] += rest @ rest.T
            moments += block @ targets
        gram[:known, :known] = corner if known else 0.0
        gram[known:, :known] = gram[:known, known:].T
        return gram, moments


def _factorise(gram: np.ndarray) -> tuple[tuple[np.ndarray, bool], float]:
    """Return the Cholesky factor and a condition estimate, infinite if there is no factor."""
    norm = np.abs(gram).sum(axis=0).max(initial=0.0)
    factor, failed = scipy.linalg.lapack.dpotrf(gram, lower=1, clean=0)
    if failed:
        return (factor, True), np.inf
    reciprocal, _ = scipy.linalg.lapack.dpocon(factor, norm, uplo="L")
    return (factor, True), float(1.0 / reciprocal) if reciprocal > 0 else np.inf


def _project(design: _Design, constraints: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Solve on the null space of the constraints by rank-revealing least squares.

    Tall designs are reduced to their triangular factor block by block first.
    """
    members = constraints.sum(axis=1)
    start = constraints.T @ (totals / members)
    rows = np.zeros((0, len(design.terms) + 1))
    for block, targets in design.blocks():
        free = block.T - (block.T @ constraints.T / members) @ constraints
        rows = np.vstack([rows, np.column_stack([free, targets - block.T @ start])])
        if len(rows) > 2 * rows.shape[1]:
            rows = scipy.linalg.qr(rows, mode="r")[0][: rows.shape[1]]
    if len(rows) == 0:
        return start
    step, *_ = scipy.linalg.lstsq(rows[:, :-1], rows[:, -1], cond=_RANK_TOLERANCE)
    return start + step


def _enforce(beta: np.ndarray, constraints: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Take out what rounding left of A β - b."""
    return beta + constraints.T @ ((totals - constraints @ beta) / constraints.sum(axis=1))
