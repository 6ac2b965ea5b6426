"""Is the component nothing but its simplest terms and a few more? (``docs/odd-gp.md``, section 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular
from scipy.special import ndtri, stdtrit

from shapiq_oddshap.gp.readout import SHAPLEY_VALUES
from shapiq_oddshap.gp.signs import characters, signs

if TYPE_CHECKING:
    from shapiq_oddshap.gp.readout import Readout

__all__ = ["TOLERANCE", "ExactFit", "few_levels", "fit_exactly", "may_be_accident"]

TOLERANCE = 5e-6
"""Relative residual that counts as none: sums of trees in single precision round at 1e-6."""

_ROUNDING = 1e-13
"""Relative rounding of the arithmetic itself, where the residual has none."""

_MOST_TERMS = 1500
"""Of more terms, such as all pairs of 56 players, the equations would take longer than the process."""

_ACCIDENT = 1e-3
"""Probability of an accident from which on a fit is doubted."""


@dataclass(frozen=True)
class ExactFit:
    """What is read off a game of few terms.

    Attributes:
        terms: The terms, main effects included, shape ``(t, n)``.
        coefficients: Their coefficients, shape ``(t,)``.
        factor: Lower Cholesky factor of the normal equations, shape ``(t, t)``.
        squared_noise: Variance of what rounding in the game leaves uncertain.
    """

    terms: np.ndarray
    coefficients: np.ndarray
    factor: np.ndarray
    squared_noise: float

    @property
    def noise(self) -> float:
        """Standard deviation of the rounding."""
        return float(np.sqrt(self.squared_noise))

    @property
    def n_terms(self) -> int:
        """Number of terms."""
        return len(self.terms)

    def read(self, readout: Readout) -> tuple[np.ndarray, np.ndarray]:
        """Return what is read off, and what rounding in the game leaves uncertain of it."""
        functionals = readout.functionals(self.terms)
        half = solve_triangular(self.factor, functionals, lower=True)
        variances = (half**2).sum(axis=0)
        if readout is SHAPLEY_VALUES:
            # all functionals together are -2 times the row of the total, so that this is its leverage;
            # its residual, which the values are to share evenly, is uncorrelated with what was fitted
            leverage = 0.25 * float(np.sum(half.sum(axis=1) ** 2))
            variances += 4.0 * max(1.0 - leverage, 0.0) / self.terms.shape[1] ** 2
        return self.coefficients @ functionals, self.squared_noise * variances


def fit_exactly(
    coalitions: np.ndarray,
    targets: np.ndarray,
    total: float,
    terms: np.ndarray,
) -> ExactFit | None:
    """Return the fit if terms, with or without main effects or pairs, are the whole component.

    Whether they are is asked of the equations that are left over: with as few more equations than
    unknowns as one, a function of another kind leaves a residual. What rounding leaves there, in
    models of single precision, gives the variances of least squares, to which those of the
    efficient values add what the total lacks.

    Args:
        coalitions: One member of each pair, shape ``(m, n)``.
        targets: The component there, shape ``(m,)``.
        total: ``f(N) - f(empty)``; zero for the even component.
        terms: All terms, distinct, shape ``(t, n)``.

    Returns:
        The fit, or ``None`` if the data contradict or do not determine it.
    """
    n = coalitions.shape[1]
    if len(coalitions) < len(terms) or len(terms) > max(_MOST_TERMS, n):
        return None
    rows = characters(np.vstack([np.ones((1, n)), signs(coalitions)]), terms)
    values = np.concatenate([[-0.5 * total], targets])
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
    if rank < len(terms) or np.abs(residuals).max() > TOLERANCE * scale:
        return None
    freedom = len(rows) - len(terms)
    # few equations that are left over tell little of the noise: Student's interval, as a normal one
    student = float(stdtrit(freedom, 0.95) / ndtri(0.95))
    noise = student**2 * (residuals @ residuals / freedom) + (_ROUNDING * scale) ** 2
    return ExactFit(terms, solution, factor, float(noise))


def few_levels(targets: np.ndarray, total: float) -> np.ndarray:
    """Return the absolute values that a component of a few levels has, such as a voting game's.

    Args:
        targets: The component, shape ``(m,)``.
        total: ``f(N) - f(empty)``; zero for the even component.

    Returns:
        The levels; none where they are so many that each is not taken twice in the mean.
    """
    values = np.abs(np.concatenate([[0.5 * total], targets]))
    unit = TOLERANCE * values.max()
    levels = unit * np.unique(np.round(values / unit))
    return levels if 2 * len(levels) <= len(values) else levels[:0]


def may_be_accident(targets: np.ndarray, total: float, terms: int) -> bool:
    """Tell whether terms may go by accident through values of a few levels.

    An equation that is left over would hold by accident in one case of so many as there are levels.

    Args:
        targets: The component, shape ``(m,)``.
        total: ``f(N) - f(empty)``; zero for the even component.
        terms: How many terms were fitted.
    """
    levels, left_over = len(few_levels(targets, total)), len(targets) + 1 - terms
    return levels > 0 and left_over * np.log(levels + 1) < -np.log(_ACCIDENT)
