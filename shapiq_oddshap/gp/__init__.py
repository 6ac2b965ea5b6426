"""The odd Gaussian process: its kernel, evidence, posterior and exact Shapley read-out.

Pure functions on arrays. Equation numbers refer to ``docs/odd-gp.md``.

A set function enters only through its odd component ``f_odd(S) = (f(S) - f(S^c)) / 2``, one value
per complementary pair. In signs ``x_i = -1 if i in S else +1`` it is a sum of odd characters
``chi_T(x) = prod_{i in T} x_i``, and the process gives their coefficients independent Gaussian
priors. Everything below follows from that: the kernel, the Shapley values of the posterior mean
and their posterior variances are all closed forms in the prior variances of the coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shapiq_oddshap.gp.correction import Strata, calibrated_variances, msr_correction
from shapiq_oddshap.gp.evidence import SearchOptions, search_hyperparameters
from shapiq_oddshap.gp.kernel import BLOCK, OddKernel, gram, signs
from shapiq_oddshap.gp.posterior import (
    factorise,
    inverse_diagonal,
    shapley_functionals,
    shapley_posterior_variances,
    solve,
)
from shapiq_oddshap.gp.sparsity import (
    Observations,
    SparseOptions,
    reweight,
    sharpen,
    sparse_fit,
)

__all__ = ["OddGPFit", "fit_odd_gp"]


@dataclass(frozen=True)
class OddGPFit:
    """Shapley values and their variances.

    Attributes:
        values: Shapley values; they sum to the total, shape ``(n,)``.
        variances: Their variances, infinite where the data give no scale, shape ``(n,)``.
        kernel: The prior that was found, relative to ``scale**2``; ``None`` if none was needed.
        scale: Root mean square of the targets.
        model: ``"even"`` where the odd values are unknown or all zero, ``"additive"``, ``"sparse"``
            or ``"gp"``.
        pairs: Pairs that the process was conditioned on.
        error: Mean squared error at pairs left out, in squared units of the game.
    """

    values: np.ndarray
    variances: np.ndarray
    kernel: OddKernel | None
    scale: float
    model: str
    pairs: int
    error: float = 0.0


def fit_odd_gp(
    coalitions: np.ndarray,
    odd_values: np.ndarray,
    total: float,
    *,
    importance: np.ndarray,
    terms: np.ndarray,
    term_scores: np.ndarray,
    rng: np.random.Generator,
    search: SearchOptions | None = None,
    sparse: SparseOptions | None = None,
    max_pairs: int = 8000,
) -> OddGPFit:
    """Estimate Shapley values by the odd Gaussian process and a correction on its residuals.

    Args:
        coalitions: One member of each complementary pair, none empty or full, ``(m, n)``.
        odd_values: ``(f(S) - f(S^c)) / 2``, shape ``(m,)``.
        total: ``f(N) - f(empty)``.
        importance: Importance of every player in the proxy's spectrum, zeros if unknown, ``(n,)``.
        terms: Odd terms of order three and more that a proxy favours, may be empty, ``(t, n)``.
        term_scores: The proxy's coefficients of those terms, ``(t,)``.
        rng: Draws the subsample of the search, and that of the process past ``max_pairs``.
        search: Options of the hyperparameter search.
        sparse: Options of the reweighting.
        max_pairs: Pairs that the process is conditioned on at most; the correction uses all.

    Returns:
        The fit.
    """
    search, sparse = search or SearchOptions(), sparse or SparseOptions()
    n = coalitions.shape[1]
    targets = np.concatenate([[-0.5 * total], odd_values])
    # the maximum first: squares of huge or tiny values would leave the range of a double
    top = float(np.abs(targets).max())
    if top == 0.0:
        return OddGPFit(np.zeros(n), np.full(n, np.inf), None, 0.0, "even", 0)
    if len(coalitions) == 0:
        return OddGPFit(np.full(n, total / n), np.full(n, np.inf), None, top, "even", 0, np.inf)
    no_terms = np.zeros((0, n), dtype=bool)
    additive = sparse_fit(coalitions, odd_values / top, total / top, no_terms)
    if additive is not None:
        values, variances = _efficient(additive[0] * top, total), _scaled(additive[1], top)
        return OddGPFit(values, variances, None, top, "additive", len(coalitions))
    scale = top * float(np.sqrt(np.mean((targets / top) ** 2)))
    targets = targets / scale
    order = rng.permutation(len(coalitions))
    sub = np.sort(order[:max_pairs])
    searched = order[: search.count(len(order))]
    prior = search_hyperparameters(
        signs(coalitions[searched]),
        targets[1:][searched],
        importance=importance,
        terms=terms,
        term_scores=term_scores,
        options=search,
    )
    rows = np.concatenate([[0], sub + 1])
    data = Observations(np.vstack([np.ones((1, n)), signs(coalitions[sub])]), targets[rows])
    kernel = prior
    if sparse.allow(prior, data):
        part = sparse.part(data)
        kernel = reweight(prior, part, sparse, sparse.part_rounds, sparse.product_share)
        candidate = sharpen(kernel, data, sparse)
        if candidate is not None:
            exact = sparse_fit(coalitions, odd_values / top, total / top, candidate)
            if exact is not None:
                values, variances = _efficient(exact[0] * top, total), _scaled(exact[1], top)
                return OddGPFit(values, variances, kernel, scale, "sparse", len(sub))
        kernel = reweight(kernel, data, sparse, sparse.rounds)
    # the hyperprior of the rates takes about a fifth of their freedom
    hyperparameters = 0.8 * (n + 4) if kernel is prior else n + 4.0 + len(kernel.terms)
    values, variances, kernel, error = _estimate(
        kernel, data, coalitions, targets[1:], sub=sub, hyperparameters=hyperparameters
    )
    values = _efficient(values * scale, total)
    return OddGPFit(
        values, _scaled(variances, scale), kernel, scale, "gp", len(sub), error * scale**2
    )


def _estimate(
    kernel: OddKernel,
    data: Observations,
    coalitions: np.ndarray,
    targets: np.ndarray,
    *,
    sub: np.ndarray,
    hyperparameters: float,
) -> tuple[np.ndarray, np.ndarray, OddKernel, float]:
    """Return the corrected values, their variances, the kernel with the noise used, the error."""
    factor, kernel = factorise(kernel, data.x)
    alpha = solve(factor, data.targets)
    functionals = shapley_functionals(kernel, data.x)
    residuals = _residuals(kernel, data.x, alpha, coalitions=coalitions, targets=targets, sub=sub)
    correction = msr_correction(coalitions, residuals, Strata.of(coalitions))
    precisions = inverse_diagonal(factor)
    error = float(np.mean((alpha[1:] / precisions[1:]) ** 2))
    error *= len(sub) / max(len(sub) - hyperparameters, 0.25 * len(sub))
    variances = calibrated_variances(
        shapley_posterior_variances(kernel, factor, functionals),
        residuals,
        coalitions=coalitions,
        sub=sub,
        alpha=alpha,
        precisions=precisions,
        noise=kernel.noise,
        hyperparameters=hyperparameters,
    )
    return alpha @ functionals + correction, variances, kernel, error


def _scaled(variances: np.ndarray, unit: float) -> np.ndarray:
    """Return variances in squared units, infinite where those leave the range of a double."""
    with np.errstate(over="ignore"):
        return np.square(np.sqrt(variances) * unit)


def _efficient(values: np.ndarray, total: float) -> np.ndarray:
    """Spread what is missing to the total evenly."""
    return values + (total - values.sum()) / len(values)


def _residuals(
    kernel: OddKernel,
    x: np.ndarray,
    alpha: np.ndarray,
    *,
    coalitions: np.ndarray,
    targets: np.ndarray,
    sub: np.ndarray,
) -> np.ndarray:
    """Return targets minus posterior means at all pairs, conditioned on or not, ``(m,)``."""
    residuals = np.empty(len(coalitions))
    residuals[sub] = kernel.noise * alpha[1:]
    rest = np.setdiff1d(np.arange(len(coalitions)), sub, assume_unique=True)
    for start in range(0, len(rest), _RESIDUAL_BLOCK):
        rows = rest[start : start + _RESIDUAL_BLOCK]
        residuals[rows] = targets[rows] - gram(kernel, signs(coalitions[rows]), x) @ alpha
    return residuals


_RESIDUAL_BLOCK = 4 * BLOCK
"""Pairs at once: for every such block the characters of all pairs of the process are made again."""
