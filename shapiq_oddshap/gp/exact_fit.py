"""Is the game nothing but main effects and a few terms? (``docs/odd-gp.md``, section 6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular
from scipy.special import ndtri, stdtrit

from shapiq_oddshap.fourier import shapley_values
from shapiq_oddshap.gp.signs import characters, signs

__all__ = ["TOLERANCE", "ExactFit", "fit_exactly"]

TOLERANCE = 5e-6
"""Relative residual that counts as none: sums of trees in single precision round at 1e-6."""

_ROUNDING = 1e-13
"""Relative rounding of the arithmetic itself, where the residual has none."""


@dataclass(frozen=True)
class ExactFit:
    """Shapley values of a game of few terms.

    Attributes:
        values: The Shapley values, shape ``(n,)``.
        variances: What rounding in the game leaves uncertain, shape ``(n,)``.
        noise: Standard deviation of that rounding.
        n_terms: Number of terms, main effects included.
    """

    values: np.ndarray
    variances: np.ndarray
    noise: float
    n_terms: int


def fit_exactly(
    coalitions: np.ndarray, odd_values: np.ndarray, total: float, terms: np.ndarray
) -> ExactFit | None:
    """Return the Shapley values if main effects and the given terms are the whole game.

    Whether they are is asked of the equations that are left over: with as few more equations than
    unknowns as one, a function of another kind leaves a residual. What rounding leaves there, in
    models of single precision, gives the variances of least squares, to which those of the
    efficient values add what the total lacks.

    Args:
        coalitions: One member of each pair, shape ``(m, n)``.
        odd_values: Their odd values, shape ``(m,)``.
        total: ``f(N) - f(empty)``.
        terms: Odd terms besides the main effects, shape ``(t, n)``.

    Returns:
        The fit, or ``None`` if the data contradict or do not determine it.
    """
    n = coalitions.shape[1]
    unknowns = np.concatenate([np.eye(n, dtype=bool), terms])
    if len(coalitions) < len(unknowns):
        return None
    rows = characters(np.vstack([np.ones((1, n)), signs(coalitions)]), unknowns)
    values = np.concatenate([[-0.5 * total], odd_values])
    scale = np.abs(values).max()
    # The normal equations only screen: they lose digits, so what passes is solved again.
    try:
        factor = cholesky(rows.T @ rows, lower=True)
    except LinAlgError:
        return None
    solution = cho_solve((factor, True), rows.T @ values)
    if np.abs(rows @ solution - values).max() > TOLERANCE * scale:
        return None
    solution, _, rank, _ = np.linalg.lstsq(rows, values, rcond=1e-10)
    residuals = rows @ solution - values
    if rank < len(unknowns) or np.abs(residuals).max() > TOLERANCE * scale:
        return None
    functionals = -2.0 / unknowns.sum(axis=1)[:, None] * unknowns
    half = solve_triangular(factor, functionals, lower=True)
    freedom = len(rows) - len(unknowns)
    # few equations that are left over tell little of the noise: Student's interval, as a normal one
    student = float(stdtrit(freedom, 0.95) / ndtri(0.95))
    noise = student**2 * (residuals @ residuals / freedom) + (_ROUNDING * scale) ** 2
    # all functionals together are -2 times the row of the total, so that this is its leverage; its
    # residual, which the values are to share evenly, is uncorrelated with what was fitted
    leverage = 0.25 * float(np.sum(half.sum(axis=1) ** 2))
    shared = 4.0 * max(1.0 - leverage, 0.0) / n**2
    variances = noise * ((half**2).sum(axis=0) + shared)
    return ExactFit(
        shapley_values(solution, unknowns), variances, float(np.sqrt(noise)), len(unknowns)
    )
