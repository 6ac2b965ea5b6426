"""Evaluated coalitions, and their odd and even component as rows of a regression."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from threading import get_ident
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from shapiq_oddshap.sampling import row_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BLOCK", "Component", "Outputs", "Parity", "Sample", "has_parity"]

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
    def is_complete(self) -> bool:
        """Whether all coalitions are there."""
        return len(self.values) == 2**self.n

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
        keys, order = self._design.sorted_keys
        wanted = row_keys(coalitions.reshape(-1, self.n))
        places = order[np.searchsorted(keys, wanted)]
        return self.values[places].reshape(coalitions.shape[:-1])

    def with_values(self, values: np.ndarray) -> Sample:
        """Return the sample of another game on the same coalitions, shape ``(m,)``.

        What depends on the coalitions alone is made once for all of them.
        """
        other = Sample(self.coalitions, values, self.weights)
        vars(other)["_design"] = self._design  # where the cached property looks first
        return other

    def among(self, players: np.ndarray) -> Sample:
        """Return the sample of the game of some players, the others being null.

        Args:
            players: A boolean per player, shape ``(n,)``.

        Returns:
            Every coalition of theirs once, with the mean of its values and the sum of its weights; the
            empty and the grand one with their own, which the Shapley values are to sum to.
        """
        if players.all():
            return self
        rows = self.coalitions[:, players]
        _, first, place = np.unique(row_keys(rows), return_index=True, return_inverse=True)
        place = place.ravel()
        order = np.argsort(first)
        centred = np.bincount(place, self.values - self.empty_value) / np.bincount(place)
        weights = np.bincount(place, self.weights)[order]
        weights[:2] = 0.0
        values = centred[order] + self.empty_value
        values[:2] = self.values[:2]
        return Sample(rows[first[order]], values, weights)

    def scatter(self, players: np.ndarray) -> float:
        """Return the variance of values that would be equal, were they not rounded.

        Args:
            players: Those who matter, a boolean per player, shape ``(n,)``.
        """
        smaller = self.among(players)
        off = self.values - smaller.at(self.coalitions[:, players])
        return float(off @ off) / max(len(off) - len(smaller.values), 1)

    def component(self, parity: Literal["odd", "even"]) -> Component:
        """Return the odd or the even component, one row per complementary pair.

        The rows are in the order in which the pairs first appear. Odd terms change their sign from
        a coalition to its complement and even ones do not, so that the two rows of a pair are one
        with the added weight and the weighted mean of f(S) - c and ∓(f(Sᶜ) - c) as its target,
        where c = (f(∅) + f([n])) / 2 (paper, Theorem 3.2). A coalition without its complement keeps
        its own row. All who ask share the arrays, which are read-only.
        """
        return self._odd if parity == "odd" else self._even

    @property
    def binned(self) -> dict[str, Any]:
        """Where proxies keep what they make of the coalitions, in every thread for itself."""
        return self._design.binned.setdefault(get_ident(), {})

    @cached_property
    def _design(self) -> _DesignRows:
        return _DesignRows(self.coalitions, self.weights)

    @cached_property
    def _odd(self) -> Component:
        return self._component(-1.0)

    @cached_property
    def _even(self) -> Component:
        return self._component(1.0)

    def _component(self, sign: float) -> Component:
        """Join the pairs, of which the complement counts with ``sign``."""
        # Differences to f(∅) first: they stay exact where the values are large and close together.
        centred = self.values[2:] - self.empty_value - self.total / 2
        rows = self._design
        targets = np.zeros(0) if len(centred) == 0 else rows.targets(centred, sign)
        return Component.shared(rows, targets)


@dataclass(frozen=True)
class Outputs:
    """Evaluated coalitions of a game with several outputs: a sample for each.

    Attributes:
        sample: That of the first output.
        columns: The values of all outputs, shape ``(k, m)``.
    """

    sample: Sample
    columns: np.ndarray

    @classmethod
    def of(cls, coalitions: np.ndarray, values: np.ndarray, weights: np.ndarray) -> Outputs:
        """Take values of shape ``(m, k)``; the arrays are read-only afterwards."""
        # a contiguous row each: sums over it then have the bits of a run on this output alone
        columns = np.ascontiguousarray(values.T)
        for array in (coalitions, columns, weights):
            array.flags.writeable = False  # screening strategies may be anyone's
        return cls(Sample(coalitions, columns[0], weights), columns)

    def __len__(self) -> int:
        """Return the number of outputs."""
        return len(self.columns)

    def __getitem__(self, output: int) -> Sample:
        """Return the sample of one output."""
        return self.sample.with_values(self.columns[output])

    def among(self, players: np.ndarray) -> Outputs:
        """Return the outputs of the game of some players; see :meth:`Sample.among`."""
        if players.all():
            return self
        samples = [sample.among(players) for sample in self]
        return Outputs(samples[0], np.array([sample.values for sample in samples]))

    def __iter__(self) -> Iterator[Sample]:
        """Yield the samples of all outputs."""
        return map(self.sample.with_values, self.columns)


class _DesignRows:
    """What depends on the coalitions of a sample alone: which of them are pairs, where each is."""

    def __init__(self, coalitions: np.ndarray, weights: np.ndarray) -> None:
        """Keep them; all else is made on demand."""
        self._coalitions = coalitions
        self._weights = weights[2:]
        self.binned: dict[int, dict[str, Any]] = {}

    @cached_property
    def sorted_keys(self) -> tuple[np.ndarray, np.ndarray]:
        """The keys of the coalitions in order, and where each is in the sample."""
        keys = row_keys(self._coalitions)
        order = np.argsort(keys)
        return keys[order], order

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which member is turned, the pair of each, and the first of each pair, by key."""
        flip = self._coalitions[2:, -1]
        _, first, pair = np.unique(
            row_keys(self._coalitions[2:] ^ flip[:, None]), return_index=True, return_inverse=True
        )
        return flip, pair.ravel(), first

    @cached_property
    def _added(self) -> np.ndarray:
        return np.bincount(self._pairs[1], self._weights)

    def targets(self, centred: np.ndarray, sign: float) -> np.ndarray:
        """Join the values of pairs, of which the complement counts with ``sign``."""
        flip, pair, first = self._pairs
        signed = self._weights * np.where(flip, sign * centred, centred)
        targets = np.bincount(pair, signed) / self._added
        order = np.argsort(first)
        first, targets = first[order], targets[order]
        return np.where(flip[first], sign * targets, targets)

    @cached_property
    def rows(self) -> tuple[np.ndarray, ...]:
        """The pairs' first members, weights, and the row of each coalition; read-only."""
        coalitions = self._coalitions[2:]
        if len(coalitions) == 0:
            return _read_only(coalitions, np.zeros(0), np.zeros(0, dtype=int))
        _, pair, first = self._pairs
        order = np.argsort(first)
        added = self._added[order]
        members = np.argsort(order)[pair]
        return _read_only(coalitions[first[order]], added / added.mean(), members)

    @cached_property
    def singletons_gram(self) -> np.ndarray:
        """See :class:`Component`."""
        coalitions, weights, _ = self.rows
        n = coalitions.shape[1]
        gram = np.zeros((n, n))
        for start in range(0, len(weights), BLOCK):
            rows = slice(start, start + BLOCK)
            # one contiguous row per player, in bytes up to the last step: memory is what takes time
            signs = 1 - 2 * np.ascontiguousarray(coalitions[rows].T).view(np.int8)
            block = signs * np.sqrt(weights[rows])
            gram += block @ block.T
        return _read_only(gram)[0]


def _read_only(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return arrays that nobody can write to: screening strategies may be anyone's."""
    for array in arrays:
        array.flags.writeable = False
    return arrays


@dataclass(frozen=True)
class Component:
    """One row per complementary pair (or per coalition that was sampled alone).

    Attributes:
        coalitions: One member of each pair as boolean rows, shape ``(rows, n)``.
        targets: The component there, shape ``(rows,)``: (f(S) - f(Sᶜ)) / 2 if it is the odd one, and
            (f(S) + f(Sᶜ)) / 2 less its value at ∅ and [n] if it is the even one.
        weights: Regression weights, mean one, shape ``(rows,)``.
        members: The row of each coalition of the sample but ∅ and [n], shape ``(m - 2,)``.
        design: What all values of the same coalitions share.
    """

    coalitions: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    members: np.ndarray

    design: _DesignRows = field(repr=False, compare=False)

    @classmethod
    def shared(cls, design: _DesignRows, targets: np.ndarray) -> Component:
        """Return rows that nobody can write to: screening strategies may be anyone's."""
        coalitions, weights, members = design.rows
        _read_only(targets)
        return cls(coalitions, targets, weights, members, design)

    @property
    def singletons_gram(self) -> np.ndarray:
        """The normal matrix of the singletons, which every odd regression has in its corner.

        Σ_r w_r χ_i(S_r) χ_j(S_r), summed in blocks of rows, shape ``(n, n)``.
        """
        return self.design.singletons_gram
