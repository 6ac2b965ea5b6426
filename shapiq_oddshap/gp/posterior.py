"""The posterior and its exact Shapley read-out (``docs/odd-gp.md``, equations 5 and 8 to 12)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, lapack, solve_triangular

from shapiq_oddshap.fourier import subsets
from shapiq_oddshap.gp.kernel import BLOCK
from shapiq_oddshap.gp.observations import EFFICIENCY_NOISE
from shapiq_oddshap.gp.parts.terms import Terms, term_precision
from shapiq_oddshap.gp.signs import signs

if TYPE_CHECKING:
    from shapiq_oddshap.gp.kernel import Kernel
    from shapiq_oddshap.gp.observations import Observations

__all__ = ["Posterior"]

_EXACT_DIAGONAL = 1500
"""Up to so many pairs the diagonal of the inverse is computed, of more its mean is estimated."""

_PROBES = 12
"""Random sign vectors that estimate a trace."""

_PREDICTED = 8 * BLOCK
"""Pairs at once: for every such block the characters of all pairs of the process are made again."""


@dataclass(frozen=True)
class Posterior:
    """A process conditioned on observations.

    Attributes:
        kernel: The prior, with the noise that was needed to factorise.
        data: The observations.
        factor: Lower Cholesky factor L of their noisy Gram matrix K, shape ``(m + 1, m + 1)``.
        alpha: Dual weights ``K^-1 y``, shape ``(m + 1,)``.
    """

    kernel: Kernel
    data: Observations
    factor: np.ndarray
    alpha: np.ndarray

    @classmethod
    def of(cls, kernel: Kernel, data: Observations, dtype: type = np.float64) -> Posterior:
        """Condition on observations (eq. 5 and 8).

        The noise is raised tenfold until the matrix is definite.

        Args:
            kernel: The prior.
            data: The observations.
            dtype: Precision of the matrix and its factor.
        """
        rounding = _rounding(kernel, len(data.x), dtype)
        noise = max(kernel.noise, rounding)
        while True:
            matrix = kernel.gram(data.x, data.x, dtype, lower=True)
            diagonal = matrix.reshape(-1)[:: len(matrix) + 1]
            diagonal[: data.exact] += max(EFFICIENCY_NOISE, rounding)
            diagonal[data.exact :] += noise
            try:
                # the transpose has LAPACK's order: factored in place, as U'U, and not copied
                factor = cholesky(matrix.T, lower=False, overwrite_a=True, check_finite=False).T
            except LinAlgError:
                noise *= 10.0
            else:
                alpha = cho_solve((factor.T, False), data.targets.astype(dtype), check_finite=False)
                return cls(kernel.with_noise(noise), data, factor, alpha.astype(np.float64))

    def with_data(self, data: Observations) -> Posterior:
        """Condition on other targets at the same rows, by the same factor.

        What depends on the kernel and the rows alone is shared, if it is known.
        """
        targets = data.targets.astype(self.factor.dtype)
        alpha = cho_solve((self.factor.T, False), targets, check_finite=False)
        other = Posterior(self.kernel, data, self.factor, alpha.astype(np.float64))
        shared = ("functionals", "_variances", "precisions")
        vars(other).update({name: vars(self)[name] for name in shared if name in vars(self)})
        return other

    @cached_property
    def functionals(self) -> np.ndarray:
        """Shapley values of the kernel functions of the observations, shape ``(m + 1, n)``."""
        return self.kernel.shapley_functionals(self.data.x)

    def shapley_values(self) -> np.ndarray:
        """Return the Shapley values of the posterior mean, shape ``(n,)`` (eq. 8 to 11)."""
        return self.alpha @ self.functionals

    def shapley_variances(self) -> np.ndarray:
        """Return the posterior variances of the Shapley values, ``(n,)`` (eq. 12)."""
        return self._variances

    @cached_property
    def _variances(self) -> np.ndarray:
        half = solve_triangular(self.factor, self.functionals, lower=True, check_finite=False)
        prior = self.kernel.shapley_prior_variances()
        return np.maximum(prior - (half**2).sum(axis=0), 0.0)

    def interactions(self, order: int) -> np.ndarray:
        """Return the interactions of the posterior mean, in the order of ``subsets``, ``(p,)``."""
        return self.kernel.interaction_means(self.data.x, self.alpha, order)

    def interaction_variances(self, order: int) -> np.ndarray:
        """Return the posterior variances of the interactions, shape ``(p,)``.

        In blocks of sets: their functionals at all observations might not fit in memory.
        """
        players = subsets(self.kernel.n, order)
        out = self.kernel.interaction_prior_variances(order)
        for start in range(0, len(out), BLOCK):
            some = tuple(each[start : start + BLOCK] for each in players)
            functionals = self.kernel.interaction_functionals(self.data.x, some)
            half = solve_triangular(
                self.factor, functionals, lower=True, overwrite_b=True, check_finite=False
            )
            out[start : start + BLOCK] -= np.einsum("ji,ji->i", half, half)
        return np.maximum(out, 0.0)

    def variances_of(self, x: np.ndarray, weights: np.ndarray, *, shapley: bool) -> np.ndarray:
        """Return the posterior variances of sums of values, and of Shapley values with them.

        Args:
            x: Sign rows, shape ``(c, n)``.
            weights: What the value at each counts, shape ``(r, c)``.
            shapley: Whether player i's Shapley value is added to sum i.

        Returns:
            The variances, shape ``(r,)``.
        """
        functionals = self.kernel.gram(self.data.x, x) @ weights.T
        prior = np.einsum("rc,rc->r", weights @ self.kernel.gram(x, x), weights)
        if shapley:
            functionals += self.functionals
            prior += self.kernel.shapley_prior_variances()
            prior += 2.0 * np.einsum("rc,cr->r", weights, self.kernel.shapley_functionals(x))
        half = solve_triangular(self.factor, functionals, lower=True, check_finite=False)
        return np.maximum(prior - (half**2).sum(axis=0), 0.0)

    def residuals(self) -> np.ndarray:
        """Return targets minus posterior means at the pairs conditioned on, shape ``(m,)``."""
        return self.kernel.noise * self.alpha[self.data.exact :]

    def mean(self, coalitions: np.ndarray) -> np.ndarray:
        """Return the posterior mean of the odd values of any coalitions, shape ``(k,)``."""
        blocks = [
            self.kernel.gram(signs(coalitions[start : start + _PREDICTED]), self.data.x)
            @ self.alpha
            for start in range(0, len(coalitions), _PREDICTED)
        ]
        return np.concatenate([np.zeros(0), *blocks])

    @cached_property
    def precisions(self) -> np.ndarray:
        """Return the diagonal of ``K^-1`` at the pairs, of many pairs its mean, shape ``(m,)``.

        The leave-one-out residual of a pair is its dual weight over its precision.
        """
        if len(self.factor) > _EXACT_DIAGONAL:
            return np.full(self.data.pairs, self.inverse_trace() / len(self.factor))
        inverse, _ = lapack.dpotri(self.factor.T, lower=False)
        return np.diag(inverse)[self.data.exact :].copy()

    def left_out_error(self) -> float:
        """Return the mean squared error at pairs left out one by one, under the same prior."""
        return float(np.mean((self.alpha[self.data.exact :] / self.precisions) ** 2))

    def inverse_trace(self) -> float:
        """Estimate the trace of ``K^-1`` by random signs (Hutchinson)."""
        # fixed signs: the estimate is a function of the matrix alone
        probes = np.random.default_rng(0).choice([-1.0, 1.0], (len(self.factor), _PROBES))
        probes = probes.astype(self.factor.dtype)
        half = solve_triangular(self.factor, probes, lower=True, check_finite=False)
        return float(np.sum(half.astype(np.float64) ** 2)) / _PROBES


def _rounding(kernel: Kernel, rows: int, dtype: type) -> float:
    """Return the rounding of the Gram matrix's entries."""
    terms = kernel.find(Terms)
    smooth = sum(part.total_variance for part in kernel.parts if part is not terms)
    rounding = 8.0 * float(np.finfo(dtype).eps) * smooth
    if terms is not None:
        precision = float(np.finfo(term_precision(rows, dtype)).eps)
        rounding += 8.0 * precision * terms.total_variance
    return float(rounding)
