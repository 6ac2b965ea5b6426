"""Weighted least squares in the parity basis, with or without columns for the sizes.

The paper's: minimise Σ_S w_S (y_S - Σ_T β_T χ_T(S))² subject to A β = b, where the rows of A are
disjoint 0/1 vectors: one for the odd terms, and one for the even terms where there are any (paper,
Appendix C.2).

The other, for games whose values depend on how many play (``docs/oddshap.md``): a few functions of
the size join the terms, nothing is demanded at ∅ and [n], the weights are √w, and the Shapley values
of what the regression leaves over are estimated and added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy.linalg
from scipy import sparse

from shapiq_oddshap.fourier import parities, sparse_singletons
from shapiq_oddshap.sample import BLOCK, has_parity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shapiq_oddshap.fourier import Terms
    from shapiq_oddshap.sample import Parity, Sample

    Normal = tuple[np.ndarray, np.ndarray]

__all__ = [
    "Fit",
    "SizeEffects",
    "constrained_least_squares",
    "fit_even_by_size",
    "fit_terms",
    "leave_one_out_error",
    "main_effects",
    "ridge_with_sizes",
    "size_columns",
]

SizeEffects = Literal["auto", "always", "none"]
"""Whether functions of the size join the terms; ``"none"`` is the paper's regression."""

_WORST_CONDITION = 1e7
"""Above this the normal equations would lose more than half of the digits: take QR instead."""


_RIDGES = (1e-3, 1e-2, 1e-1, 1.0)
"""Shrinkage to choose from, relative to the number of rows."""

_NO_GAIN = 1e-9
"""Share of an error by which rounding may lower it: a single row tells nothing of the shrinkage."""

_NEW_COLUMN = 1e-6
"""Share of a function of the size that others do not span, from which it counts as another one."""

_RANK_TOLERANCE = 1e-11
"""Smaller singular values, relative to the largest, count as zero: the constraints' are rounding."""


@dataclass(frozen=True)
class Fit:
    """A solved regression.

    Attributes:
        terms: The terms as boolean rows, shape ``(n_terms, n)``; sparse ones where such were given.
        coefficients: β, shape ``(n_terms,)``.
        solver: ``"cholesky"`` (normal equations) or ``"lstsq"`` (rank-revealing).
        condition: 1-norm condition estimate of the normal matrix; ``None`` if it was not formed.
        size_columns: How many functions of the size were in the regression beside the terms.
        error: Mean squared error at rows left out, in closed form, in squared units
            of the game; infinite where it is not known.
    """

    terms: Terms
    coefficients: np.ndarray
    solver: str
    condition: float | None
    size_columns: int = 0
    error: float = np.inf


def constrained_least_squares(
    terms: Terms,
    coalitions: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    constraints: np.ndarray,
    totals: np.ndarray,
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

    Returns:
        The coefficients with the solver and the condition estimate.
    """
    design = _Design(terms, coalitions, targets, np.sqrt(weights))
    enough = len(coalitions) >= design.n_terms - len(constraints)
    normal = design.normal_equations() if enough else None
    beta, solver, condition = _solve(design, constraints, totals, normal)
    return Fit(terms, beta, solver, condition)


def fit_terms(
    sample: Sample, terms: Terms, parity: Parity, size_effects: SizeEffects = "none"
) -> Fit:
    """Regress a game, or one component of it, on terms, exactly at the empty and the grand one.

    With ``size_effects`` other than ``"none"`` the regression may hold :func:`size_columns`, and
    then demands nothing at the two. ``"auto"`` takes the one of the smaller error at rows left out,
    ``"always"`` the columns as soon as there are more rows than unknowns. Either is followed by the
    Shapley values of its residuals, estimated size by size, so that they converge to the exact ones
    whatever the weights; what is missing to the total is spread evenly.

    Args:
        sample: Evaluated coalitions.
        terms: Terms as boolean rows, shape ``(n_terms, n)``: of odd order, the singletons first, if
            ``parity`` is ``"odd"``; of even order if it is ``"even"``; but for the constant, which
            comes in front where even terms are fitted. With size effects the singletons are first
            for ``"both"`` too, and ``"even"`` is not for them.
        parity: Which component the rows are of; ``"both"`` takes the coalitions as they are.
        size_effects: Whether functions of the size may join the terms.

    Returns:
        The coefficients in units of the game and their terms; that of the constant is relative to
        f(∅) for ``"both"`` and to (f(∅) + f([n])) / 2 for ``"even"``.
    """
    if parity != "odd":
        terms = _with_constant(terms)
    # squares of huge or tiny values would leave the range of a double; a power of two keeps all bits
    exponent = int(np.frexp(np.abs(sample.values).max())[1]) - 1
    sample = sample.with_values(np.ldexp(sample.values, -exponent))
    coalitions, targets, weights = _rows(sample, parity)
    constraints, totals = _ends(sample, terms, parity)
    if size_effects == "none":
        fit = constrained_least_squares(terms, coalitions, targets, weights, constraints, totals)
    else:
        fit = _fit_sized(
            sample, _Design(terms, coalitions, targets, weights**0.25), parity, constraints, totals,
            always=size_effects == "always",
        )  # fmt: skip
    with np.errstate(over="ignore"):
        error = float(np.ldexp(fit.error, 2 * exponent))
    return replace(fit, coefficients=np.ldexp(fit.coefficients, exponent), error=error)


def size_columns(coalitions: np.ndarray, parity: Parity) -> np.ndarray:
    """Return the functions of the size that join the terms: what a learning curve needs.

    The singletons span n - 2s. Odd rows get 1/s - 1/(n-s) and log(n-s) - log(s) besides, the even
    ones 1/s + 1/(n-s) and log(n-s) + log(s): no polynomials, which terms of order two and three
    may span. All Shapley values of a function of the size are equal.

    Args:
        coalitions: Boolean rows, none empty or full, shape ``(rows, n)``.
        parity: ``"odd"``, or ``"both"`` for the even ones too.

    Returns:
        The columns as rows of shape ``(k, rows)``, of mean square one and orthogonal to each other,
        to n - 2s, and to the constant if that is fitted. Those that depend on others are left out.
    """
    n = coalitions.shape[1]
    sizes = coalitions.sum(axis=1).astype(float)
    small, large = 1.0 / sizes, 1.0 / (n - sizes)
    known = [n - 2.0 * sizes]
    columns = [small - large, np.log(small) - np.log(large)]
    if parity == "both":
        known.append(np.ones(len(sizes)))
        columns += [small + large, np.log(small) + np.log(large)]
    basis, new = np.zeros((0, len(sizes))), []
    for index, column in enumerate(known + columns):
        rest = column
        for _ in range(2):  # twice is enough for orthogonality to rounding
            rest = rest - (basis @ rest) @ basis
        length = np.linalg.norm(rest)
        if length > _NEW_COLUMN * np.linalg.norm(column):
            new += [len(basis)] if index >= len(known) else []
            basis = np.vstack([basis, rest / length])
    return basis[new] * np.sqrt(len(sizes))


def _with_constant(terms: Terms) -> Terms:
    """Put the constant, the term of nobody, in front."""
    constant = np.zeros((1, terms.shape[1]), dtype=bool)
    if sparse.issparse(terms):
        return sparse.vstack([sparse.csr_array(constant), terms], format="csr")
    return np.concatenate([constant, terms])


def _rows(sample: Sample, parity: Parity) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the coalitions, targets and weights that a regression is on."""
    if parity != "both":
        rows = sample.component(parity)
        return rows.coalitions, rows.targets, rows.weights
    # centred at f(∅), where the even part of the constraints is worth total / 2
    return sample.coalitions[2:], sample.values[2:] - sample.empty_value, sample.weights[2:]


def _ends(sample: Sample, terms: Terms, parity: Parity) -> tuple[np.ndarray, np.ndarray]:
    """Return what holds at the empty and the grand coalition, A and b."""
    half = sample.total / 2
    if parity != "both":
        return np.ones((1, terms.shape[0])), np.array([-half if parity == "odd" else 0.0])
    is_odd = has_parity(terms.sum(axis=1), "odd")
    return np.array([is_odd, ~is_odd], dtype=float), np.array([-half, half])


def _fit_sized(
    sample: Sample,
    design: _Design,
    parity: Parity,
    constraints: np.ndarray,
    totals: np.ndarray,
    *,
    always: bool,
) -> Fit:
    """Fit with the size columns or without, and add the Shapley values of what is left over.

    Both are solved from the same normal equations.
    """
    count, rows = design.n_terms, len(design.coalitions)
    sized = replace(design, columns=size_columns(design.coalitions, parity))
    normal = sized.normal_equations() if rows >= count - len(constraints) else None
    plain = None if normal is None else (normal[0][:count, :count], normal[1][:count])
    energy = float(np.sum((design.targets * design.root_weights) ** 2))
    found = [(design, *_solve(design, constraints, totals, plain), plain, len(constraints))]
    if normal is not None and rows > sized.width:
        nothing = np.zeros((0, sized.width))
        found.append((sized, *_solve(sized, nothing, np.zeros(0), normal), normal, 0))
    errors = [
        _cross_validated(beta, equations, energy, rows, fixed)
        for _, beta, _, _, equations, fixed in found
    ]
    best = len(found) - 1 if always else int(np.argmin(errors))
    chosen, beta, solver, condition, _, _ = found[best]
    beta = _completed(sample, design, beta[:count], chosen.residuals(beta), parity)
    error = errors[best] / float(np.mean(design.root_weights**2))
    return Fit(design.terms, beta, solver, condition, chosen.width - count, error)


def _completed(
    sample: Sample, design: _Design, beta: np.ndarray, residuals: np.ndarray, parity: Parity
) -> np.ndarray:
    """Add the Shapley values of the residuals to the coefficients, and spread what is missing.

    φ_i = Σ_s mean_{|S|=s} r(S) (1[i∈S]/s - 1[i∉S]/(n-s)), which is -(n/2) Σ_S w_S χ_i(S) r(S) up to
    what all players share, with the kernel over the inclusion rate as w_S; and φ_i = -2 β_i.
    """
    beta, orders = beta.copy(), design.terms.sum(axis=1)
    if len(residuals):
        weights = _rows(sample, parity)[2]
        weights = weights * (sample.weights.sum() / weights.sum())
        signs = 1.0 - 2.0 * design.coalitions
        beta[orders == 1] += (sample.n / 4) * ((weights * residuals) @ signs)
    missing = -sample.total / 2 - beta[has_parity(orders, "odd")].sum()
    beta[orders == 1] += missing / sample.n
    return beta


def _cross_validated(
    beta: np.ndarray, normal: Normal | None, energy: float, rows: int, fixed: int
) -> float:
    """Return the weighted mean squared error by generalised cross-validation.

    That is the leave-one-out error with the mean of the leverages in place of each. It is infinite
    where the rows do not determine the coefficients.
    """
    free = rows - (len(beta) - fixed)
    if normal is None or free <= 0:
        return np.inf
    gram, moments = normal
    left = energy - 2.0 * float(beta @ moments) + float(beta @ gram @ beta)
    return max(left, np.finfo(float).eps * energy) * rows / free**2


def fit_even_by_size(sample: Sample, terms: np.ndarray) -> tuple[Fit, np.ndarray]:
    """Regress the even component on even terms and a free value per size.

    Many games have a function of the size in them, which few terms do not hold: the values per
    size take it up. The empty and the grand coalition are a size of their own, whose value is what
    the terms miss there.

    Args:
        sample: Evaluated coalitions.
        terms: Terms of even order as boolean rows, shape ``(n_terms, n)``.

    Returns:
        The regression of the terms, and the values by the size s of the smaller of a coalition and
        its complement, shape ``(n // 2 + 1,)``; a size of which nothing was drawn has that of 0.
    """
    rows = sample.component("even")
    sizes = rows.coalitions.sum(axis=1)
    seen, strata = np.unique(np.minimum(sizes, sample.n - sizes), return_inverse=True)
    columns = (np.arange(len(seen))[:, None] == strata.ravel()).astype(float)
    design = _Design(terms, rows.coalitions, rows.targets, np.sqrt(rows.weights), columns)
    enough = len(rows.targets) >= design.width
    normal = design.normal_equations() if enough else None
    nothing = np.zeros((0, design.width))
    beta, solver, condition = _solve(design, nothing, np.zeros(0), normal)
    own = beta[: len(terms)]
    by_size = np.full(sample.n // 2 + 1, -own.sum())
    by_size[seen] = beta[len(terms) :]
    return Fit(terms, own, solver, condition, len(seen)), by_size


def main_effects(sample: Sample) -> np.ndarray:
    """Return Σ_i β_i χ_i(S) of the odd regression on singletons, one value per coalition.

    Args:
        sample: Evaluated coalitions.

    Returns:
        The values in units of the game, shape ``(m,)``.
    """
    rows = sample.component("odd")
    terms = sparse_singletons(sample.n)
    design = _Design(terms, rows.coalitions, rows.targets, np.sqrt(rows.weights))
    constraints, totals = _ends(sample, design.terms, "odd")
    enough = len(rows.targets) >= sample.n - 1
    normal = design.normal_equations(rows.singletons_gram) if enough else None
    beta, _, _ = _solve(design, constraints, totals, normal)
    effects = np.empty(len(rows.targets))
    for start in range(0, len(effects), BLOCK):
        block = slice(start, start + BLOCK)
        effects[block] = (1.0 - 2.0 * rows.coalitions[block]) @ beta
    # a coalition is the one of its row or the complement, whose effects are the negative
    same = sample.coalitions[2:, 0] == rows.coalitions[rows.members, 0]
    ends = beta.sum() * np.array([1.0, -1.0])
    return np.concatenate([ends, np.where(same, 1.0, -1.0) * effects[rows.members]])


def ridge_with_sizes(sample: Sample) -> Fit:
    """Regress the odd component on singletons and size columns, shrunk as much as pays.

    The shrinkage is the one of the least leave-one-out error; what it leaves over is added as in
    :func:`fit_terms`.

    Args:
        sample: Evaluated coalitions.

    Returns:
        The coefficients of the singletons in units of the game.
    """
    rows, n = sample.component("odd"), sample.n
    columns = size_columns(rows.coalitions, "odd")
    design = _Design(
        sparse_singletons(n), rows.coalitions, rows.targets, np.ones(len(rows.targets)), columns
    )
    dense = np.concatenate([1.0 - 2.0 * rows.coalitions, columns.T], axis=1)
    beta, error = np.zeros(design.width), np.inf
    if len(dense):
        left, singular, right = scipy.linalg.svd(dense, full_matrices=False, check_finite=False)
        along, energy = left.T @ rows.targets, singular**2
        for ridge in _RIDGES:
            shrunk = energy / (energy + ridge * len(dense))
            slack = 1.0 - left**2 @ shrunk
            mean = float(np.mean(((rows.targets - left @ (shrunk * along)) / slack) ** 2))
            if mean < (1.0 - _NO_GAIN) * error:
                error = mean
                beta = (along * singular / (energy + ridge * len(dense))) @ right
    residuals = design.residuals(beta)
    return Fit(
        design.terms,
        _completed(sample, design, beta[:n], residuals, "odd"),
        "lstsq",
        None,
        len(columns),
        error,
    )


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
    """The weighted design √w χ_T(S) and targets √w y, produced in blocks of rows.

    Attributes:
        terms: Terms as boolean rows, shape ``(n_terms, n)``.
        coalitions: Boolean rows, shape ``(rows, n)``.
        targets: Values to fit, shape ``(rows,)``.
        root_weights: Roots of the row weights, shape ``(rows,)``.
        columns: Further columns of the design as rows, shape ``(k, rows)``; ``None`` for none.
    """

    terms: Terms
    coalitions: np.ndarray
    targets: np.ndarray
    root_weights: np.ndarray
    columns: np.ndarray | None = None

    @property
    def n_terms(self) -> int:
        """Number of terms."""
        return int(self.terms.shape[0])

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.n_terms + (0 if self.columns is None else len(self.columns))

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield blocks of shape ``(width, block)`` with their targets."""
        for start in range(0, len(self.coalitions), BLOCK):
            rows = slice(start, start + BLOCK)
            root = self.root_weights[rows]
            block = parities(self.terms, self.coalitions[rows]) * root
            if self.columns is not None:
                block = np.concatenate([block, self.columns[:, rows] * root])
            yield block, self.targets[rows] * root

    def normal_equations(self, corner: np.ndarray | None = None) -> Normal:
        """Return XᵀWX, shape ``(width, width)``, and XᵀWy, shape ``(width,)``.

        Args:
            corner: The normal matrix of the first terms if it is known, as ``singletons_gram``.
        """
        gram = np.zeros((self.width, self.width))
        moments = np.zeros(self.width)
        known = 0 if corner is None else len(corner)
        for block, targets in self.blocks():
            head, rest = block[:known], block[known:]
            gram[:known, known:] += head @ rest.T
            gram[known:, known:] += rest @ rest.T
            moments += block @ targets
        gram[:known, :known] = corner if known else 0.0
        gram[known:, :known] = gram[:known, known:].T
        return gram, moments

    def residuals(self, beta: np.ndarray) -> np.ndarray:
        """Return the targets minus what the coefficients give, without weights, shape ``(rows,)``."""
        weighted = [targets - beta @ block for block, targets in self.blocks()]
        return np.concatenate([np.zeros(0), *weighted]) / self.root_weights


def _solve(
    design: _Design, constraints: np.ndarray, totals: np.ndarray, normal: Normal | None
) -> tuple[np.ndarray, str, float | None]:
    """Return the coefficients, how they were solved for and the condition estimate.

    Args:
        design: The regression.
        constraints: A as disjoint 0/1 rows, shape ``(k, width)``.
        totals: b, shape ``(k,)``.
        normal: The normal equations; ``None`` where there are too few rows for them.
    """
    condition = None
    if normal is not None:
        gram, moments = normal
        factor, condition = _factorise(gram)
        if condition < _WORST_CONDITION:
            beta = scipy.linalg.cho_solve(factor, moments, check_finite=False)
            along = scipy.linalg.cho_solve(factor, constraints.T, check_finite=False)
            beta += along @ np.linalg.solve(constraints @ along, totals - constraints @ beta)
            return _enforce(beta, constraints, totals), "cholesky", condition
    beta = _project(design, constraints, totals)
    return _enforce(beta, constraints, totals), "lstsq", condition


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
    rows = np.zeros((0, design.width + 1))
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
