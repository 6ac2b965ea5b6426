"""The posterior and its exact Shapley read-out (``docs/odd-gp.md``, equations 8 to 12)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, lapack, solve_triangular

from shapiq_oddshap.gp.kernel import (
    BLOCK,
    FLOAT32_PAIRS,
    OddKernel,
    characters,
    empty_log_variance,
    gram,
    term_dtype,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "factorise",
    "inverse_diagonal",
    "inverse_trace",
    "shapley_functionals",
    "shapley_posterior_variances",
    "shapley_prior_variances",
    "solve",
]

_MAX_NODES = 40
"""Gauss-Legendre nodes of the Shapley integral; the integrand is close to a polynomial of low
degree, and from about 40 nodes on more of them change nothing at any number of players."""


_LOG_NODES = 96
"""Nodes of the prior-variance integral, whose integrand carries a logarithm."""


_EFFICIENCY_NOISE = 1e-12
"""Noise of the observation (empty, grand): none, up to rounding."""


def factorise(
    kernel: OddKernel, x: np.ndarray, dtype: type = np.float64
) -> tuple[np.ndarray, OddKernel]:
    """Return the Cholesky factor of the noisy Gram matrix (eq. 5), row 0 being noise-free.

    The noise is raised tenfold until the matrix is definite, and returned with the kernel.
    """
    rounding = 8.0 * np.finfo(dtype).eps * (kernel.main + kernel.product)
    rounding += 8.0 * np.finfo(term_dtype(len(x), dtype)).eps * kernel.term_variances.sum()
    noise = max(kernel.noise, float(rounding))
    while True:
        matrix = gram(kernel, x, x, dtype, lower=True)
        diagonal = matrix.reshape(-1)[:: len(x) + 1]
        diagonal[0] += max(_EFFICIENCY_NOISE, float(rounding))
        diagonal[1:] += noise
        try:
            # the transpose has LAPACK's order: factored in place, as U'U, and not copied
            factor = cholesky(matrix.T, lower=False, overwrite_a=True, check_finite=False).T
        except LinAlgError:
            noise *= 10.0
        else:
            return factor, replace(kernel, noise=noise)


def solve(factor: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve ``L L' z = right`` with the factor of :func:`factorise`."""
    # its transpose has LAPACK's order: the other way round the matrix would be copied
    return cho_solve((factor.T, False), right, check_finite=False)


def shapley_functionals(kernel: OddKernel, x: np.ndarray) -> np.ndarray:
    r"""Return the Shapley values of the kernel functions ``k(., x_j)`` (eq. 9 to 11).

    Args:
        kernel: The prior.
        x: Sign rows, shape ``(m, n)``.

    Returns:
        ``phi_i(k(., x_j))`` in row j and column i, shape ``(m, n)``. The Shapley values of a
        posterior mean are its dual weights times this matrix.
    """
    n = x.shape[1]
    out = (-2.0 * kernel.main / n) * x
    orders = kernel.terms.sum(axis=1)
    if len(orders):
        scale = -2.0 * kernel.term_variances / orders
        for start in range(0, len(x), BLOCK):
            rows = slice(start, start + BLOCK)
            out[rows] += (characters(x[rows], kernel.terms) * scale) @ kernel.terms.astype(float)
    rho, offset = np.tanh(kernel.rates), empty_log_variance(kernel)
    for node, weight in _legendre(min((n + 2) // 2, _MAX_NODES)):
        along = node * rho
        shrink = np.log1p(-(along**2))
        density = np.exp(offset + 0.5 * shrink.sum() + x @ np.arctanh(along))
        slope = weight * -rho * np.exp(-shrink)
        out += (density[:, None] * (x - along)) * slope
    return out


def _legendre(count: int) -> Iterator[tuple[float, float]]:
    """Yield the nodes and weights of Gauss-Legendre quadrature on [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    yield from zip(nodes.tolist(), weights.tolist(), strict=True)


def shapley_prior_variances(kernel: OddKernel) -> np.ndarray:
    r"""Return the prior variances of the Shapley values, ``(n,)`` (eq. 12).

    ``Var phi_i = sum_{T: i in T} 4 nu_T / |T|^2``, where ``1 / |T|^2`` is the integral of
    ``-log(s) s^(|T| - 1)`` over [0, 1] and turns the sum over the product part into products.
    """
    n = len(kernel.rates)
    orders = kernel.terms.sum(axis=1)
    variances = np.full(n, 4.0 * kernel.main / n)
    variances += (4.0 * kernel.term_variances / orders**2) @ kernel.terms
    rho, offset = np.tanh(kernel.rates), empty_log_variance(kernel)
    for node, weight in _legendre(_LOG_NODES):
        # s = u^4 flattens the logarithm at zero, where Gauss-Legendre would be slow
        u = 0.5 * (node + 1.0)
        s, jacobian = u**4, 4.0 * u**3 * 0.5 * weight
        plus, minus = np.log1p(s * rho), np.log1p(-s * rho)
        others = np.exp(offset + plus.sum() - plus) + np.exp(offset + minus.sum() - minus)
        variances += 4.0 * jacobian * -np.log(s) * rho * 0.5 * others
    return variances


def inverse_trace(factor: np.ndarray) -> float:
    """Estimate the trace of the inverse of ``L L'`` by random signs (Hutchinson)."""
    # fixed signs: the estimate is a function of the matrix, and the caller's generator is not used
    probes = np.random.default_rng(0).choice([-1.0, 1.0], (len(factor), _PROBES))
    half = solve_triangular(factor, probes.astype(factor.dtype), lower=True, check_finite=False)
    return float(np.sum(half.astype(np.float64) ** 2)) / _PROBES


_PROBES = 12
"""Random sign vectors that estimate a trace."""


def inverse_diagonal(factor: np.ndarray) -> np.ndarray:
    """Return the diagonal of the inverse of ``L L'``, of a large one its mean, shape ``(m,)``."""
    if len(factor) > FLOAT32_PAIRS:
        return np.full(len(factor), inverse_trace(factor) / len(factor))
    inverse, _ = lapack.dpotri(factor.T, lower=False)
    return np.diag(inverse).copy()


def shapley_posterior_variances(
    kernel: OddKernel, factor: np.ndarray, functionals: np.ndarray
) -> np.ndarray:
    """Return the posterior variances of the Shapley values, ``(n,)`` (eq. 12).

    Args:
        kernel: The prior.
        factor: Lower Cholesky factor of the noisy Gram matrix, shape ``(m, m)``.
        functionals: Shapley values of the kernel functions, shape ``(m, n)``.
    """
    half = solve_triangular(factor, functionals, lower=True, check_finite=False)
    return np.maximum(shapley_prior_variances(kernel) - (half**2).sum(axis=0), 0.0)
