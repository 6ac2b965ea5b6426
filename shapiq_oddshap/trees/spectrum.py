"""From the leaves of a tree ensemble to its exact Fourier spectrum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.sample import has_parity
from shapiq_oddshap.sampling import player_codes

if TYPE_CHECKING:
    from shapiq_oddshap.sample import Parity
    from shapiq_oddshap.trees.leaves import Leaves

__all__ = ["Spectrum", "fourier_spectrum"]

_COUNTED = 4
"""Up to so many sets of players for each addend, these are counted and not sorted."""


@dataclass(frozen=True)
class Spectrum:
    """Fourier coefficients of a function, those that can be non-zero, each term once.

    Attributes:
        n: Number of players.
        coefficients: β_T, shape ``(n_terms,)``.
        players: The players of each term, padded with ``n``, shape ``(n_terms, depth)``.
    """

    n: int
    coefficients: np.ndarray
    players: np.ndarray

    @property
    def orders(self) -> np.ndarray:
        """The interaction orders |T|, shape ``(n_terms,)``."""
        return np.sum(self.players < self.n, axis=1)

    def of(self, parity: Parity) -> Spectrum:
        """Return the terms of a parity alone."""
        keep = has_parity(self.orders, parity)
        return Spectrum(self.n, self.coefficients[keep], self.players[keep])

    def largest(self, count: int, *, min_order: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return the non-zero terms of the largest |β_T|, largest first.

        Args:
            count: How many terms at most.
            min_order: Smallest interaction order.

        Returns:
            Boolean rows, shape ``(k, n)``, and their coefficients, shape ``(k,)``.
        """
        candidates = np.flatnonzero((self.orders >= min_order) & (self.coefficients != 0))
        ranked = np.argsort(-np.abs(self.coefficients[candidates]), kind="stable")[:count]
        chosen = candidates[ranked]
        return self.terms(chosen), self.coefficients[chosen]

    def terms(self, chosen: np.ndarray) -> np.ndarray:
        """Return the chosen terms as boolean rows of shape ``(len(chosen), n)``."""
        rows = np.zeros((len(chosen), self.n + 1), dtype=bool)
        np.put_along_axis(rows, self.players[chosen], values=True, axis=1)
        return rows[:, : self.n]

    def importance(self) -> np.ndarray:
        """Return per player the root of the summed squared coefficients, shape ``(n,)``."""
        energy = np.zeros(self.n + 1)
        top = np.abs(self.coefficients).max(initial=0.0) or 1.0  # squares might overflow
        np.add.at(energy, self.players, ((self.coefficients / top) ** 2)[:, None])
        return np.sqrt(energy[: self.n]) * top


def fourier_spectrum(leaves: Leaves, *, odd_only: bool = True) -> Spectrum:
    """Expand the ensemble in the parity basis: β_T = v 2^-(p+q) (-1)^|T ∩ P| for T ⊆ P ∪ A.

    Leaves are expanded by path length, each group at once, and terms are added up by key.

    Args:
        leaves: The ensemble.
        odd_only: Whether to leave out the terms of even order.

    Returns:
        The spectrum; without the constant if ``odd_only``, else but for the model's base value.
    """
    n, depth = leaves.n, leaves.players.shape[1]
    code = player_codes(n)
    keys, coefficients, sources = [], [], []
    for length in np.unique(leaves.lengths).tolist():
        group = np.flatnonzero(leaves.lengths == length)
        subsets = (np.arange(2**length)[:, None] >> np.arange(length) & 1).astype(bool)
        if odd_only:
            subsets = subsets[subsets.sum(axis=1) % 2 == 1]
        flips = leaves.present[group, :length].astype(np.float32) @ subsets.T.astype(np.float32)
        signs = 1.0 - 2.0 * (flips % 2)
        coefficients.append((signs * (leaves.values[group] / 2**length)[:, None]).ravel())
        keys.append((code[leaves.players[group, :length]] @ subsets.T.astype(np.uint64)).ravel())
        members = np.zeros((len(subsets), depth), dtype=bool)
        members[:, :length] = subsets
        sources.append((group, members))
    if not keys:
        return Spectrum(n, np.zeros(0), np.zeros((0, 0), dtype=int))
    first, added = _added_up(np.concatenate(keys), np.concatenate(coefficients), n)
    return Spectrum(n, added, _players_of(first, sources, leaves))


def _added_up(keys: np.ndarray, addends: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Add up what has the same key.

    Returns:
        Where each key is first, in the order of the keys, and the sums, which are added from the
        first to the last.
    """
    if n < 64 and 2**n <= _COUNTED * len(keys):
        # few sets of players: to count takes a tenth of the time that to sort takes
        places = keys.astype(np.intp)
        first = np.full(2**n, -1)
        first[places[::-1]] = np.arange(len(keys))[::-1]
        there = np.flatnonzero(first >= 0)
        return first[there], np.bincount(places, addends)[there]
    _, first, index = np.unique(keys, return_index=True, return_inverse=True)
    return first, np.bincount(index.ravel(), addends)


def _players_of(
    chosen: np.ndarray, sources: list[tuple[np.ndarray, np.ndarray]], leaves: Leaves
) -> np.ndarray:
    """Return the players of the chosen (leaf, subset) pairs, which are numbered through."""
    players = np.full((len(chosen), leaves.players.shape[1]), leaves.n)
    offset = 0
    for group, members in sources:
        size = len(group) * len(members)
        here = np.flatnonzero((chosen >= offset) & (chosen < offset + size))
        leaf, subset = np.divmod(chosen[here] - offset, len(members))
        players[here] = np.where(members[subset], leaves.players[group[leaf]], leaves.n)
        offset += size
    return players
