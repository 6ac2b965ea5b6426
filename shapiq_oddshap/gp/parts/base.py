"""What a part of the kernel is: one summand, with all that the process asks of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, ClassVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from shapiq_oddshap.sample import Parity

    Players = tuple[np.ndarray, ...]

__all__ = ["Hints", "OnRows", "Part", "lower_blocks"]

_ROWS, _HELD = 512, 512 * 19900
"""Rows whose functionals of all sets of players are held at once, and numbers: all pairs of 200."""

_BLOCK = 128
"""Rows of a search's matrices that are made at once: what is made of them stays in the cache."""


@dataclass(frozen=True)
class Hints:
    """What the proxy says before the search.

    Attributes:
        importance: Importance of every player in the proxy's spectrum, zeros if unknown, ``(n,)``.
        terms: Odd terms of order three and more that the proxy favours, may be empty, ``(t, n)``.
        scores: The proxy's coefficients of those terms, ``(t,)``.
    """

    importance: np.ndarray
    terms: np.ndarray
    scores: np.ndarray

    @property
    def n(self) -> int:
        """Number of players."""
        return len(self.importance)

    @classmethod
    def none(cls, n: int) -> Hints:
        """Return the hints of a proxy that says nothing."""
        return cls(np.zeros(n), np.zeros((0, n), dtype=bool), np.zeros(0))


@dataclass(frozen=True, eq=False)
class Part(ABC):
    """A summand of the kernel: the covariance of one kind of function.

    A new part is a frozen subclass in a file of its own. It gives its matrix at unit variance, the
    Shapley values and the interactions of its kernel functions, and their prior variances; the rest
    has defaults. ``docs/extending.md`` has a worked example.

    Attributes:
        variance: Prior variance of the part, relative to that of the targets. It is searched, as
            are the hyperparameters of ``shape``, on the logarithm.
        parity: Which half of the functions: the odd one, the even one, or both at once.
    """

    variance: float
    parity: Parity = field(default="odd", kw_only=True)
    bounds: ClassVar[tuple[float, float]] = (1e-8, 1e4)
    """Between which the variance is searched."""
    shape_bounds: ClassVar[tuple[float, float]] = (1e-4, 2.0)
    """Between which each entry of the shape is searched."""
    parities: ClassVar[tuple[Parity, ...]] = ("odd", "even", "both")
    """In which kernels the part may be."""
    independent_terms: ClassVar[bool] = True
    """Whether the part is a sum over independent terms, whose variances :meth:`term_variances` gives."""
    most_players: ClassVar[float] = inf
    """With more players the part is left out of a kernel, as it would take too long."""

    @classmethod
    @abstractmethod
    def start(cls, hints: Hints, parity: Parity = "odd") -> Self:
        """Return the part from which the search starts."""

    @abstractmethod
    def matrix(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the covariance at unit variance of sign rows ``(p, n)`` and ``(q, n)``, ``(p, q)``."""

    @abstractmethod
    def add_functionals(self, out: np.ndarray, x: np.ndarray) -> None:
        """Add ``phi_i(k(., x_j))``, row j and column i, to ``out`` of the shape of ``x``, (m, n)."""

    @abstractmethod
    def add_prior_variances(self, out: np.ndarray) -> None:
        """Add the prior variances of the Shapley values to ``out``, shape ``(n,)``."""

    def add_interactions(self, out: np.ndarray, x: np.ndarray, players: Players) -> None:
        """Add the Shapley interactions of ``k(., x_j)`` to row j of ``out``.

        Those of order k depend on the half of the parity of k alone (``docs/interactions.md``,
        equation 1); nothing is to be added where :meth:`carries` says so.

        Args:
            out: One column per set of players, shape ``(m, p)``.
            x: Sign rows, shape ``(m, n)``.
            players: The first, the second and so on of the sets, k arrays of shape ``(p,)``: two for
                pairs, three for triples.

        Raises:
            NotImplementedError: If the part has that half and does not override this.
        """
        del out, x
        self._only_other("add_interactions", len(players))

    def add_interaction_variances(self, out: np.ndarray) -> None:
        """Add the interactions' prior variances to ``out``, k axes of length n.

        Of its entries those of k distinct players have a meaning.

        Raises:
            NotImplementedError: If the part has that half and does not override this.
        """
        self._only_other("add_interaction_variances", out.ndim)

    def carries(self, order: int) -> bool:
        """Return whether the part's half is one that interactions of an order depend on."""
        return self.parity in ("both", ("even", "odd")[order % 2])

    def _only_other(self, method: str, order: int) -> None:
        """Refuse to leave out the interactions of a part that has some."""
        if self.carries(order):
            msg = (
                f"{type(self).__name__} has an {('even', 'odd')[order % 2]} half, but no {method}. "
                "Please write it, or declare parities without that half if there is none."
            )
            raise NotImplementedError(msg)

    def add_interaction_means(
        self, out: np.ndarray, x: np.ndarray, weights: np.ndarray, players: Players
    ) -> None:
        """Add ``sum_j weights_j`` times row j of :meth:`add_interactions` to ``out``, ``(p,)``.

        To override where the rows can be summed before they meet the sets.
        """
        block = max(1, min(_ROWS, _HELD // max(len(out), 1)))
        for start in range(0, len(x), block):
            rows = slice(start, start + block)
            some = np.zeros((len(x[rows]), len(out)))
            self.add_interactions(some, x[rows], players)
            out += weights[rows] @ some

    def term_variances(self, terms: np.ndarray) -> np.ndarray:
        """Return the prior variances that the part gives to single terms, ``(t,)``.

        Zeros for a part that is not a sum over independent terms.
        """
        return np.zeros(len(terms))

    @property
    def total_variance(self) -> float:
        """The part's variance at a coalition, ``k(x, x)``."""
        return self.variance

    @property
    def shape(self) -> np.ndarray:
        """Further positive hyperparameters; a hyperprior pulls their logarithms to their mean."""
        return np.zeros(0)

    def tuned(self, variance: float, shape: np.ndarray) -> Self:
        """Return the part with other hyperparameters."""
        del shape
        return replace(self, variance=variance)

    def between(
        self, left: np.ndarray, right: np.ndarray
    ) -> Callable[[np.ndarray, slice, slice], None]:
        """Return a function that adds the block of some left and right rows to an array.

        To override where work on the rows can be shared by the blocks, or buffers saved. The
        precision is that of the rows; ``left is right`` in a Gram matrix.
        """

        def add(out: np.ndarray, rows: slice, columns: slice) -> None:
            out += self.variance * self.matrix(left[rows], right[columns])

        return add

    def on(self, x: np.ndarray) -> OnRows:
        """Return the part on the rows of a search, shape ``(m, n)``."""
        return OnRows(self.matrix(x, x))


class OnRows:
    """A part on the rows of a search, where only the variance changes from step to step.

    The evidence takes all of these at once; others override both methods. Matrices are symmetric, and
    nothing above the diagonal is read: others may leave it out, see :func:`lower_blocks`.
    """

    def __init__(self, matrix: np.ndarray) -> None:
        """Keep the matrix at unit variance, shape ``(m, m)``."""
        self.matrix = matrix

    def add(self, out: np.ndarray, variance: float, shape: np.ndarray) -> None:
        """Add the matrix at these hyperparameters to ``out``."""
        del shape
        out += variance * self.matrix

    def gradient(
        self, weights: np.ndarray, variance: float, shape: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """Return ``sum_jl W_jl dK_jl/dlog(.)`` for the variance and the shape (eq. 6).

        Args:
            weights: W, shape ``(m, m)``; it meets symmetric matrices only, so that its lower triangle
                holds both halves, and the upper one is zero.
            variance: The variance of the last :meth:`add`.
            shape: The shape of the last :meth:`add`.
        """
        return variance * float(np.vdot(weights, self.matrix)), np.zeros_like(shape)


def lower_blocks(count: int) -> Iterator[tuple[slice, slice]]:
    """Yield the rows and columns of blocks that cover the lower triangle of a matrix.

    Args:
        count: Number of its rows.
    """
    for start in range(0, count, _BLOCK):
        stop = min(start + _BLOCK, count)
        yield slice(start, stop), slice(0, stop)
