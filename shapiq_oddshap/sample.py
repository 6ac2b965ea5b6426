"""Evaluated coalitions, and their odd and even component as rows of a regression."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from shapiq_oddshap.sampling import row_keys

__all__ = ["BLOCK", "Component", "Parity", "Sample", "has_parity"]

Parity = Literal["odd", "even", "both"]
"""Which terms: those of odd order carry the Shapley values, ``"both"`` is for the ablations."""

BLOCK = 4096
"""Rows of a regression that are held as floats at a time."""


def has_parity(orders: np.ndarray, parity: Parity) -> np.ndarray:
    """Return which orders are of a parity, as a boolean array of the same shape.

    Examples:
        >>> has_parity(np.arange(4), "odd").tolist()
        [False, True, False, True]
    """
    if parity == "both":
        return np.ones(np.shape(orders), dtype=bool)
    return np.asarray(orders % 2 == (parity == "odd"))


@dataclass(frozen=True)
class Sample:
    """Evaluated coalitions: distinct, the empty one first and the grand one second.

    Attributes:
        coalitions: Boolean rows, shape ``(m, n)``.
        values: The game's values, shape ``(m,)``.
        weights: Regression weights, shape ``(m,)``; zero for the empty and the grand coalition.
    """

    coalitions: np.ndarray
    values: np.ndarray
    weights: np.ndarray

    @property
    def n(self) -> int:
        """Number of players."""
        return int(self.coalitions.shape[1])

    @property
    def empty_value(self) -> float:
        """The value of the empty coalition, f(∅)."""
        return float(self.values[0])

    @property
    def total(self) -> float:
        """What the players share, f([n]) - f(∅)."""
        return float(self.values[1] - self.values[0])

    def at(self, coalitions: np.ndarray) -> np.ndarray:
        """Return the values of coalitions of the sample.

        Args:
            coalitions: Boolean rows in any shape, ``(..., n)``; all must be of the sample.

        Returns:
            Their values, shape ``(...)``.
        """
        keys = row_keys(self.coalitions)
        order = np.argsort(keys)
        wanted = row_keys(coalitions.reshape(-1, self.n))
        places = order[np.searchsorted(keys[order], wanted)]
        return self.values[places].reshape(coalitions.shape[:-1])

    def component(self, parity: Literal["odd", "even"]) -> Component:
        """Return the odd or the even component, one row per complementary pair.

        The rows are in the order in which the pairs first appear. Odd terms change their sign from
        a coalition to its complement and even ones do not, so that the two rows of a pair are one
        with the added weight and the weighted mean of f(S) - c and ∓(f(Sᶜ) - c) as its target,
        where c = (f(∅) + f([n])) / 2 (paper, Theorem 3.2). A coalition without its complement keeps
        its own row. All who ask share the arrays, which are read-only.
        """
        return self._odd if parity == "odd" else self._even

    @cached_property
    def _odd(self) -> Component:
        return self._component(-1.0)

    @cached_property
    def _even(self) -> Component:
        return self._component(1.0)

    def _component(self, sign: float) -> Component:
        """Join the pairs, of which the complement counts with ``sign``."""
        coalitions, weights = self.coalitions[2:], self.weights[2:]
        if len(coalitions) == 0:
            return Component.shared(coalitions, np.zeros(0), np.zeros(0), np.zeros(0, dtype=int))
        # Differences to f(∅) first: they stay exact where the values are large and close together.
        centred = self.values[2:] - self.empty_value - self.total / 2
        flip = coalitions[:, -1]
        _, first, pair = np.unique(
            row_keys(coalitions ^ flip[:, None]), return_index=True, return_inverse=True
        )
        pair = pair.ravel()
        added = np.bincount(pair, weights)
        targets = np.bincount(pair, weights * np.where(flip, sign * centred, centred)) / added
        order = np.argsort(first)
        first, targets, added = first[order], targets[order], added[order]
        targets = np.where(flip[first], sign * targets, targets)
        members = np.argsort(order)[pair]
        return Component.shared(coalitions[first], targets, added / added.mean(), members)


@dataclass(frozen=True)
class Component:
    """One row per complementary pair (or per coalition that was sampled alone).

    Attributes:
        coalitions: One member of each pair as boolean rows, shape ``(rows, n)``.
        targets: The component there, shape ``(rows,)``: (f(S) - f(Sᶜ)) / 2 if it is the odd one, and
            (f(S) + f(Sᶜ)) / 2 less its value at ∅ and [n] if it is the even one.
        weights: Regression weights, mean one, shape ``(rows,)``.
        members: The row of each coalition of the sample but ∅ and [n], shape ``(m - 2,)``.
    """

    coalitions: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    members: np.ndarray

    @classmethod
    def shared(cls, *arrays: np.ndarray) -> Component:
        """Return rows that nobody can write to: screening strategies may be anyone's."""
        for array in arrays:
            array.flags.writeable = False
        return cls(*arrays)

    @cached_property
    def singletons_gram(self) -> np.ndarray:
        """The normal matrix of the singletons, which every odd regression has in its corner.

        Σ_r w_r χ_i(S_r) χ_j(S_r), summed in blocks of rows, shape ``(n, n)``.
        """
        n = self.coalitions.shape[1]
        gram = np.zeros((n, n))
        for start in range(0, len(self.targets), BLOCK):
            rows = slice(start, start + BLOCK)
            # one contiguous row per player, in bytes up to the last step: memory is what takes time
            signs = 1 - 2 * np.ascontiguousarray(self.coalitions[rows].T).view(np.int8)
            block = signs * np.sqrt(self.weights[rows])
            gram += block @ block.T
        gram.flags.writeable = False
        return gram
