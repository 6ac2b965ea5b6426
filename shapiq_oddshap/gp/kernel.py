"""The kernel of the odd process (``docs/odd-gp.md``, equations 1 to 4)."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from shapiq_oddshap.fourier import parities

__all__ = [
    "BLOCK",
    "FLOAT32_PAIRS",
    "OddKernel",
    "characters",
    "empty_log_variance",
    "gram",
    "log_sinh",
    "product_variances",
    "signs",
    "term_dtype",
]

BLOCK = 512
"""Rows of the Gram matrix that are assembled at once, which bounds the temporaries."""


@dataclass(frozen=True)
class OddKernel:
    """Prior variances of the odd Fourier coefficients (eq. 3 and 4), relative to the target's.

    Attributes:
        rates: ``a_i``, how much player ``i`` takes part in interactions, shape ``(n,)``.
        main: Total variance of the main effects, spread evenly over the players.
        product: Variance of the product part ``sinh(sum_i a_i x_i x'_i) / sinh(sum_i a_i)``.
        terms: Explicit odd terms, one row each, shape ``(t, n)``.
        term_variances: Their prior variances, shape ``(t,)``.
        noise: Variance of what no smooth odd function explains, white over the pairs.
    """

    rates: np.ndarray
    main: float
    product: float
    terms: np.ndarray
    term_variances: np.ndarray
    noise: float

    @property
    def product_log_scale(self) -> float:
        """``log(product / sinh(sum a))``, the logarithm of the factor before ``sinh`` (eq. 4)."""
        return log(self.product) - log_sinh(float(self.rates.sum()))


def log_sinh(value: float) -> float:
    """Return ``log(sinh(value))`` for a positive value of any size."""
    return value + float(np.log(-np.expm1(-2.0 * value))) - log(2.0)


def signs(coalitions: np.ndarray, dtype: type = np.float64) -> np.ndarray:
    """Return ``x_i = -1`` for present and ``+1`` for absent players, shape ``(m, n)``."""
    return (1 - 2 * coalitions.astype(np.int8)).astype(dtype)


def characters(x: np.ndarray, terms: np.ndarray, dtype: type = np.float64) -> np.ndarray:
    """Return ``chi_T(x)`` for every row of ``x`` and every term, shape ``(m, t)`` (eq. 1)."""
    return parities(terms, x < 0).T.astype(dtype, order="C")


def gram(
    kernel: OddKernel,
    left: np.ndarray,
    right: np.ndarray,
    dtype: type = np.float64,
    *,
    lower: bool = False,
) -> np.ndarray:
    """Return the kernel matrix without noise (eq. 4), assembled in blocks of rows.

    Args:
        kernel: The prior.
        left: Sign rows of shape ``(p, n)``.
        right: Sign rows of shape ``(q, n)``.
        dtype: Precision of the result and of the work.
        lower: Leave the blocks above the diagonal zero, at half the cost; both sides are the same.

    Returns:
        The matrix ``k(left_j, right_l)`` of shape ``(p, q)``.
    """
    n = left.shape[1]
    right = right.astype(dtype, copy=False)
    scaled = (right * kernel.rates).astype(dtype)
    scale = kernel.product_log_scale
    precision = term_dtype(len(right), dtype)
    root: np.ndarray = np.sqrt(kernel.term_variances).astype(precision)
    right_terms = characters(right, kernel.terms, precision) * root
    out: np.ndarray = np.zeros((len(left), len(right)), dtype)
    for start in range(0, len(left), BLOCK):
        stop = min(start + BLOCK, len(left))
        columns = slice(0, stop if lower else len(right))
        rows: np.ndarray = left[start:stop].astype(dtype, copy=False)
        block = out[start:stop, columns]
        exponent = rows @ scaled[columns].T
        # the two exponentials carry the scale, so neither overflows however large sum(a) is
        np.exp(scale + exponent, out=block)
        block -= np.exp(scale - exponent)
        block *= 0.5
        block += (kernel.main / n) * (rows @ right[columns].T)
        if len(root):
            if lower:  # both sides are the same rows
                left_terms = right_terms[start:stop]
            else:
                left_terms = characters(rows, kernel.terms, precision) * root
            block += left_terms @ right_terms[columns].T
    return out


def term_dtype(count: int, dtype: type) -> type:
    """Return the precision of the explicit terms: they are many, and of small variance."""
    return np.float32 if count > FLOAT32_PAIRS else dtype


def product_variances(kernel: OddKernel, terms: np.ndarray) -> np.ndarray:
    """Return the variances that the product part gives to some odd terms, ``(t,)`` (eq. 3).

    ``sinh(sum a_i x_i x'_i) = sum_{|T| odd} prod cosh(a) prod_{i in T} tanh(a_i) chi_T chi'_T``.
    """
    return np.exp(empty_log_variance(kernel) + terms @ np.log(np.tanh(kernel.rates)))


def empty_log_variance(kernel: OddKernel) -> float:
    """Return the logarithm of the factor that all terms of the product part share (eq. 3)."""
    log_cosh = np.logaddexp(kernel.rates, -kernel.rates) - log(2.0)
    return kernel.product_log_scale + float(log_cosh.sum())


FLOAT32_PAIRS = 1500
"""Above so many pairs the reweighting, which only ranks and weighs terms, is in float32."""
