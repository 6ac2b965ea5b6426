"""Explicit interactions with variances of their own: ``sum_T w_T chi_T(x) chi_T(x')``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from shapiq_oddshap.fourier import carrying_terms, sums_of_products
from shapiq_oddshap.gp.parts.base import Hints, Part
from shapiq_oddshap.gp.signs import characters

if TYPE_CHECKING:
    from collections.abc import Callable

    from shapiq_oddshap.gp.parts.base import Players
    from shapiq_oddshap.sample import Parity

__all__ = ["SINGLE_PRECISION_ROWS", "Terms", "term_precision"]

SINGLE_PRECISION_ROWS = 1500
"""From more rows on the characters are single precision: they are many, of small variance."""

_SMALLEST = 1e-300

_BLOCK = 512
"""Rows whose characters are held at once where the read-out passes over all of them."""


def term_precision(rows: int, dtype: type | np.dtype) -> type | np.dtype:
    """Return the precision of the explicit terms between so many rows of a precision."""
    return np.float32 if rows > SINGLE_PRECISION_ROWS else dtype


@dataclass(frozen=True, eq=False)
class Terms(Part):
    """Single terms, each with a variance of its own (eq. 4).

    Attributes:
        terms: The terms, one boolean row each, shape ``(t, n)``.
        relative: Their variances at unit ``variance``, shape ``(t,)``.
    """

    terms: np.ndarray
    relative: np.ndarray
    bounds: ClassVar[tuple[float, float]] = (1e-8, 1e3)

    @classmethod
    def start(cls, hints: Hints, parity: Parity = "odd") -> Terms:
        """Start with the proxy's favourites, in proportion to their squared coefficients."""
        # the largest first: squares of huge or tiny scores would leave the range of a double
        relative = (hints.scores / max(np.abs(hints.scores).max(initial=0.0), _SMALLEST)) ** 2
        some = relative.sum() > 0
        relative = relative / relative.sum() if some else np.zeros(len(hints.terms))
        return cls(0.05, hints.terms, relative, parity=parity)

    @classmethod
    def of(cls, terms: np.ndarray, variances: np.ndarray) -> Terms:
        """Return the part of these terms, shape ``(t, n)``, and variances, shape ``(t,)``."""
        return cls(1.0, terms, variances)

    @property
    def variances(self) -> np.ndarray:
        """The prior variances of the terms, shape ``(t,)``."""
        return self.variance * self.relative

    @property
    def _odd(self) -> tuple[np.ndarray, np.ndarray]:
        """The terms of odd order, which alone carry Shapley values, and their variances."""
        odd = self.terms.sum(axis=1) % 2 == 1
        return self.terms[odd], self.variances[odd]

    def _carrying(self, order: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The terms that carry interactions of an order, ``|T| - k + 1``, and their variances."""
        carrying, divisors = carrying_terms(self.terms, order)
        return self.terms[carrying], divisors, self.variances[carrying]

    @property
    def total_variance(self) -> float:
        """The sum of the variances; see :class:`Part`."""
        return float(self.variances.sum())

    def matrix(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the sum over the terms at their relative variances; see :class:`Part`."""
        root = np.sqrt(self.relative)
        features = characters(left, self.terms) * root
        others = features if left is right else characters(right, self.terms) * root
        return features @ others.T

    def between(
        self, left: np.ndarray, right: np.ndarray
    ) -> Callable[[np.ndarray, slice, slice], None]:
        """Share the characters of the right rows; see :class:`Part`."""
        precision = term_precision(len(right), right.dtype)
        root: np.ndarray = np.sqrt(self.variances).astype(precision)
        features = characters(right, self.terms, precision) * root  # type: ignore[arg-type]

        def add(out: np.ndarray, rows: slice, columns: slice) -> None:
            if len(root) == 0:
                return
            if left is right:
                own = features[rows]
            else:
                own = characters(left[rows], self.terms, precision) * root  # type: ignore[arg-type]
            out += own @ features[columns].T

        return add

    def add_functionals(self, out: np.ndarray, x: np.ndarray) -> None:
        """Add ``-2 sum_T w_T chi_T(x_j) / |T|`` over the terms with player i; see :class:`Part`."""
        terms, variances = self._odd
        if len(terms) == 0:
            return
        scale = -2.0 * variances / terms.sum(axis=1)
        members = terms.astype(float)
        for start in range(0, len(x), _BLOCK):
            rows = slice(start, start + _BLOCK)
            out[rows] += (characters(x[rows], terms) * scale) @ members

    def add_prior_variances(self, out: np.ndarray) -> None:
        """Add ``4 w_T / |T|^2`` of the terms with player i; see :class:`Part`."""
        terms, variances = self._odd
        out += (4.0 * variances / terms.sum(axis=1) ** 2) @ terms

    def add_interactions(self, out: np.ndarray, x: np.ndarray, players: Players) -> None:
        """Add ``(-2)^k sum_T w_T chi_T(x_j) / (|T| - k + 1)`` over the terms with all of a set."""
        order = len(players)
        terms, divisors, variances = self._carrying(order)
        if len(terms) == 0:
            return
        scale = (-2.0) ** order * variances / divisors
        members = reduce(np.logical_and, [terms[:, each] for each in players]).astype(float)
        for start in range(0, len(x), _BLOCK):
            rows = slice(start, start + _BLOCK)
            out[rows] += (characters(x[rows], terms) * scale) @ members

    def add_interaction_means(
        self, out: np.ndarray, x: np.ndarray, weights: np.ndarray, players: Players
    ) -> None:
        """Weigh the rows of every term first; see :class:`Part`."""
        order = len(players)
        terms, divisors, variances = self._carrying(order)
        blocks = range(0, len(x), _BLOCK)
        sums = [weights[s : s + _BLOCK] @ characters(x[s : s + _BLOCK], terms) for s in blocks]
        scaled = (-2.0) ** order * variances * np.sum(sums, axis=0) / divisors
        out += sums_of_products(scaled, terms.astype(float), order)[players]

    def add_interaction_variances(self, out: np.ndarray) -> None:
        """Add ``4^k w_T / (|T| - k + 1)^2`` of the terms with all of a set; see :class:`Part`."""
        terms, divisors, variances = self._carrying(out.ndim)
        weights = 4.0**out.ndim * variances / divisors**2
        out += sums_of_products(weights, terms.astype(float), out.ndim)

    def term_variances(self, terms: np.ndarray) -> np.ndarray:
        """Return the variances of those terms that are here; see :class:`Part`."""
        known = {row.tobytes(): w for row, w in zip(self.terms, self.variances, strict=True)}
        return np.array([known.get(row.tobytes(), 0.0) for row in terms])
