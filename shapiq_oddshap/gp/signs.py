"""Coalitions as rows of signs, in which the process is written (``docs/odd-gp.md``, equation 1)."""

from __future__ import annotations

import numpy as np

from shapiq_oddshap.fourier import parities

__all__ = ["characters", "signs"]


def signs(coalitions: np.ndarray, dtype: type = np.float64) -> np.ndarray:
    """Return ``x_i = -1`` for present and ``+1`` for absent players, shape ``(m, n)``."""
    return (1 - 2 * coalitions.astype(np.int8)).astype(dtype)


def characters(x: np.ndarray, terms: np.ndarray, dtype: type = np.float64) -> np.ndarray:
    """Return ``chi_T(x)`` for every row of ``x`` and every term, shape ``(m, t)`` (eq. 1)."""
    return parities(terms, x < 0).T.astype(dtype, order="C")
