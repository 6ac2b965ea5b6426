"""Which few terms a game might be made of (``docs/odd-gp.md``, equation 14)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import qr

from shapiq_oddshap.gp.exact_fit import TOLERANCE
from shapiq_oddshap.gp.parts import Terms
from shapiq_oddshap.gp.reweighting import (
    TermPosterior,
    explicit_terms,
    posterior_of_terms,
    scanned_terms,
    term_sums,
    with_terms,
)
from shapiq_oddshap.gp.signs import characters
from shapiq_oddshap.sampling import row_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from shapiq_oddshap.gp.kernel import Kernel
    from shapiq_oddshap.gp.observations import Observations
    from shapiq_oddshap.gp.reweighting import ReweightingOptions

__all__ = ["RecoveryOptions", "find_terms", "penalised", "pursue"]

_PRODUCT_SHARE = 0.1
"""What the product part keeps of its variance in every step."""

_DEPENDENT = 1e-10
"""Relative size of what a column adds to the others, below which it is their combination."""

_KEPT_ENTRIES = 2**21
"""Characters of the scanned terms, one of each at every pair, that a pursuit keeps."""

_SMALLEST = 1e-7
"""Smallest variance of a term that is left at last, relative to the largest."""


@dataclass(frozen=True)
class RecoveryOptions:
    """How an exactly sparse function is looked for (eq. 14).

    Attributes:
        powers: Penalties of the steps, from an l1 penalty (1) towards a count of terms (0); none
            for no search.
        unions_at: The step before which unions of two strong terms join, of order five, or six if even.
        strong: So many of the strongest terms are united.
        few_terms: If at most so many terms carry nearly all variance, per pair of the part, it is
            the part that is searched.
        most_pairs: Otherwise all pairs, if they are no more than this: in vain, the search of
            more would take longer than all the rest.
        candidates_per_pair: Terms that a step keeps, per pair.
        terms_per_pair: Terms that are left at last, per pair, at most.
        pursuits: Terms that the matching pursuit may add to those.
        certain_pairs: Pairs per term from which on a function found is taken for the game. With fewer
            there may be another through the same pairs: it has to be found without a fifth of them
            too, or the variances are the process's.
    """

    powers: tuple[float, ...] = (1.0, 1.0, 1.0, 0.7, 0.5, 0.3, 0.0)
    unions_at: int = 3
    strong: int = 200
    few_terms: float = 0.1
    most_pairs: int = 1500
    candidates_per_pair: int = 3
    terms_per_pair: float = 0.25
    pursuits: int = 48
    certain_pairs: float = 4.0

    def certain(self, terms: int, pairs: int) -> bool:
        """Tell whether a function of so many terms through so many pairs is the game."""
        return pairs >= self.certain_pairs * terms

    def searched(
        self, kernel: Kernel, data: Observations, part: Observations
    ) -> Observations | None:
        """Return the pairs to search, if any, given those of the first rounds."""
        if _terms_that_matter(kernel) <= self.few_terms * part.pairs:
            return part.part(self.most_pairs)
        return data if data.pairs <= self.most_pairs else None


def find_terms(
    kernel: Kernel,
    data: Observations,
    options: RecoveryOptions,
    reweighting: ReweightingOptions,
    base: np.ndarray,
) -> np.ndarray | None:
    """Look for the sparsest function through the data: l1 first, then ever closer to l0 (eq. 14).

    Args:
        kernel: The kernel after rounds of reweighting.
        data: All observations.
        options: The options.
        reweighting: The options of the rounds, for the pairs that they saw and the terms.
        base: Terms that every candidate has, shape ``(b, n)``.

    Returns:
        The base and the terms that are left, at most a quarter as many as there are searched pairs
        and a few of the pursuit, shape ``(t, n)``; ``None`` if there is no search.
    """
    part = options.searched(kernel, data, reweighting.part(data))
    if part is None or not options.powers:
        return None
    scanned = scanned_terms(kernel, reweighting.most_scanned)
    if len(scanned) == 0:
        return None
    for step, power in enumerate(options.powers):
        if step == options.unions_at:
            kernel = _with_unions(kernel, options.strong, scanned.shape[1] + 2)
        posterior = posterior_of_terms(kernel, part, scanned)
        kernel = penalised(kernel, posterior, options.candidates_per_pair * part.pairs, power)
    explicit = explicit_terms(kernel)
    size = explicit.variances
    keep = np.argsort(-size, kind="stable")[: int(options.terms_per_pair * part.pairs)]
    keep = keep[size[keep] > _SMALLEST * size.max(initial=0.0)]
    return pursue(explicit.terms[keep], part, scanned, options, base)


def penalised(kernel: Kernel, posterior: TermPosterior, count: int, power: float) -> Kernel:
    """Set the prior variances to ``|beta_T|^(2 - power)``, scaled to their energy (eq. 14).

    Power one is reweighted least squares for an l1 penalty, power zero for a count of terms.
    """
    size = np.abs(posterior.means)
    keep = posterior.largest(size, count)
    weights = size[keep] ** (2.0 - power)
    weights *= float(size[keep] @ size[keep]) / max(float(weights.sum()), 1e-300)
    return with_terms(kernel, posterior.terms(keep), weights, _PRODUCT_SHARE)


def pursue(
    terms: np.ndarray,
    data: Observations,
    scanned: np.ndarray,
    options: RecoveryOptions,
    base: np.ndarray,
) -> np.ndarray:
    """Add the terms that the residuals ask for: orthogonal matching pursuit over a few steps.

    The penalties lose terms whose coefficients are a thousandth of the largest. Once the others
    are fitted, the residuals are made of these alone.

    Args:
        terms: Terms to start from, shape ``(t, n)``.
        data: The observations.
        scanned: Candidates, besides the unions of terms; see ``scanned_terms``.
        options: The options.
        base: Terms that are in any case, shape ``(b, n)``.

    Returns:
        The base and the terms, shape ``(b + t, n)``.
    """
    n, sums = terms.shape[1], _sums_over(data.x, scanned)
    unions = _unions(terms[: options.strong], scanned.shape[1] + 2)
    union_columns = characters(data.x, unions, np.float32)
    basis = _orthonormal(characters(data.x, np.concatenate([base, terms])))
    residuals = _off(basis, data.targets)
    for _ in range(options.pursuits):
        if np.abs(residuals).max() <= TOLERANCE:
            break
        gains = np.abs(sums(residuals))
        found = _as_rows(scanned[[int(np.argmax(gains))]], n)
        union_gains = np.abs(residuals.astype(np.float32) @ union_columns)
        if union_gains.max(initial=0.0) > gains.max():
            found = unions[[int(np.argmax(union_gains))]]
        terms = np.concatenate([terms, found])
        column = _off(basis, characters(data.x, found)[:, 0])
        basis = np.column_stack([basis, column / np.linalg.norm(column)])
        residuals = _off(basis, residuals)
    return np.concatenate([base, terms])


def _sums_over(x: np.ndarray, scanned: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return what sums weights over the characters of scanned terms, which few pairs keep."""
    if len(x) * len(scanned) > _KEPT_ENTRIES:
        return lambda weights: term_sums(x, weights, scanned)
    columns = characters(x, _as_rows(scanned, x.shape[1]))
    return lambda weights: weights @ columns


def _as_rows(scanned: np.ndarray, n: int) -> np.ndarray:
    """Return padded players of terms as boolean rows, shape ``(t, n)``."""
    rows = np.zeros((len(scanned), n + 1), dtype=bool)
    np.put_along_axis(rows, scanned, values=True, axis=1)
    return rows[:, :n]


def _orthonormal(columns: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of what columns span, shape ``(m, rank)``."""
    basis, upper, _ = qr(columns, mode="economic", pivoting=True, check_finite=False)
    sizes = np.abs(np.diag(upper))
    return basis[:, sizes > _DEPENDENT * sizes.max(initial=0.0)]


def _off(basis: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Return what of a vector is orthogonal to a basis; a second pass takes what rounding leaves."""
    for _ in range(2):
        vector = vector - basis @ (vector @ basis)
    return vector


def _terms_that_matter(kernel: Kernel) -> int:
    """Return how many explicit terms carry 0.99 of the variance of all."""
    energy = np.cumsum(np.sort(explicit_terms(kernel).variances)[::-1])
    return int(np.searchsorted(energy, 0.99 * energy[-1])) + 1 if len(energy) else 0


def _with_unions(kernel: Kernel, strong: int, order: int) -> Kernel:
    """Add the unions of two terms that are of an order, with a small variance."""
    explicit = explicit_terms(kernel)
    strongest = np.argsort(-explicit.variances, kind="stable")[:strong]
    known = {row.tobytes() for row in explicit.terms}
    unions = _unions(explicit.terms[strongest], order)
    unions = unions[[row.tobytes() not in known for row in unions]]
    small = 0.01 * float(np.median(explicit.variances)) if len(strongest) else 0.0
    return kernel.with_part(
        Terms.of(
            np.concatenate([explicit.terms, unions]),
            np.concatenate([explicit.variances, np.full(len(unions), small)]),
        )
    )


def _unions(terms: np.ndarray, order: int) -> np.ndarray:
    """Return the unions of two of the terms that are of an order, each once."""
    first, second = np.triu_indices(len(terms), 1)
    unions = terms[first] | terms[second]
    unions = unions[unions.sum(axis=1) == order]
    return unions[np.unique(row_keys(unions), return_index=True)[1]]
