"""The kernel of a process: a sum of parts, and noise (``docs/odd-gp.md``, equation 4)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from shapiq_oddshap.fourier import subsets
from shapiq_oddshap.gp.parts import PARTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shapiq_oddshap.gp.parts import Hints, Part
    from shapiq_oddshap.gp.parts.base import Players
    from shapiq_oddshap.sample import Parity

__all__ = ["BLOCK", "Kernel"]

BLOCK = 256
"""Rows of the Gram matrix that are assembled at once, which bounds the temporaries."""

_START_NOISE = 1e-3

P = TypeVar("P", bound="Part")


@dataclass(frozen=True, eq=False)
class Kernel:
    """A prior over set functions, relative to the variance of the targets.

    Attributes:
        n: Number of players.
        parts: The summands, at most one of each kind.
        noise: Variance of what no smooth odd function explains, white over the pairs.
    """

    n: int
    parts: tuple[Part, ...]
    noise: float

    @classmethod
    def start(
        cls, hints: Hints, parts: Sequence[type[Part]] = PARTS, parity: Parity = "odd"
    ) -> Kernel:
        """Return the kernel from which the search starts."""
        kept = [p for p in parts if parity in p.parities and hints.n <= p.most_players]
        return cls(hints.n, tuple(part.start(hints, parity) for part in kept), _START_NOISE)

    def find(self, kind: type[P]) -> P | None:
        """Return the part of a kind, ``None`` if there is none."""
        return next((part for part in self.parts if isinstance(part, kind)), None)

    def with_part(self, part: Part) -> Kernel:
        """Return the kernel with a part in the place of the one of its kind, or after the others."""
        by_kind = {type(old): old for old in self.parts} | {type(part): part}
        return replace(self, parts=tuple(by_kind.values()))

    def without(self, kind: type[Part]) -> Kernel:
        """Return the kernel without the part of a kind, if it has one."""
        return replace(self, parts=tuple(part for part in self.parts if type(part) is not kind))

    def with_parts_of(self, other: Kernel) -> Kernel:
        """Return the kernel with another's parts and noise, and its own parts of other kinds."""
        kernel = self
        for part in other.parts:
            kernel = kernel.with_part(part)
        return kernel.with_noise(other.noise)

    def with_noise(self, noise: float) -> Kernel:
        """Return the kernel with another noise."""
        return replace(self, noise=noise)

    def gram(
        self,
        left: np.ndarray,
        right: np.ndarray,
        dtype: type = np.float64,
        *,
        lower: bool = False,
    ) -> np.ndarray:
        """Return the kernel matrix without noise, assembled in blocks of rows.

        Args:
            left: Sign rows of shape ``(p, n)``.
            right: Sign rows of shape ``(q, n)``; the same object in a Gram matrix.
            dtype: Precision of the result and of the work.
            lower: Leave the blocks above the diagonal zero, at half the cost.

        Returns:
            The matrix ``k(left_j, right_l)`` of shape ``(p, q)``.
        """
        same = left is right
        left = left.astype(dtype, copy=False)
        right = left if same else right.astype(dtype, copy=False)
        add = self.between(left, right)
        out: np.ndarray = np.zeros((len(left), len(right)), dtype)
        for start in range(0, len(left), BLOCK):
            rows = slice(start, min(start + BLOCK, len(left)))
            columns = slice(0, rows.stop if lower else len(right))
            add(out[rows, columns], rows, columns)
        return out

    def between(
        self, left: np.ndarray, right: np.ndarray
    ) -> Callable[[np.ndarray, slice, slice], None]:
        """Return a function that adds the block of some left and right rows to an array."""
        adders = [part.between(left, right) for part in self.parts]

        def add(out: np.ndarray, rows: slice, columns: slice) -> None:
            for each in adders:
                each(out, rows, columns)

        return add

    def shapley_functionals(self, x: np.ndarray) -> np.ndarray:
        """Return the Shapley values of the kernel functions ``k(., x_j)`` (eq. 9 to 11).

        Args:
            x: Sign rows, shape ``(m, n)``.

        Returns:
            ``phi_i(k(., x_j))`` in row j and column i, shape ``(m, n)``. The Shapley values of a
            posterior mean are its dual weights times this matrix.
        """
        out = np.zeros(x.shape)
        for part in self.parts:
            part.add_functionals(out, x)
        return out

    def interaction_means(self, x: np.ndarray, weights: np.ndarray, order: int) -> np.ndarray:
        """Return ``sum_j weights_j`` times the interactions of ``k(., x_j)``, shape ``(p,)``."""
        players = subsets(self.n, order)
        out = np.zeros(len(players[0]))
        for part in self.parts:
            part.add_interaction_means(out, x, weights, players)
        return out

    def interaction_functionals(self, x: np.ndarray, players: Players) -> np.ndarray:
        """Return the interactions of the kernel functions ``k(., x_j)``, rows j, ``(m, p)``."""
        out = np.zeros((len(x), len(players[0])))
        for part in self.parts:
            part.add_interactions(out, x, players)
        return out

    def interaction_prior_variances(self, order: int) -> np.ndarray:
        """Return the prior variances of the interactions of an order, shape ``(p,)``."""
        out = np.zeros((self.n,) * order)
        for part in self.parts:
            part.add_interaction_variances(out)
        return np.asarray(out[subsets(self.n, order)])

    def shapley_prior_variances(self) -> np.ndarray:
        """Return the prior variances of the Shapley values, ``(n,)`` (eq. 12)."""
        out = np.zeros(self.n)
        for part in self.parts:
            part.add_prior_variances(out)
        return out
