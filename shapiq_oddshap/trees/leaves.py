"""The leaves of a tree ensemble on coalitions: prediction and exact Shapley values.

Coalitions are 0/1 features, so a leaf is a product of literals: with P the players that its path
needs present and A those absent, leaf(S) = v·1[P ⊆ S, A ∩ S = ∅].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

__all__ = ["Leaves", "no_leaves", "predict", "shapley_values"]


@dataclass(frozen=True)
class Leaves:
    """The leaves of a tree ensemble over ``n`` players.

    Attributes:
        n: Number of players.
        players: Players on each leaf's path, padded with ``n``, shape ``(leaves, depth)``.
        present: Whether the path needs the player present, shape ``(leaves, depth)``.
        lengths: Path lengths, shape ``(leaves,)``.
        values: Leaf values, shape ``(leaves,)``.
    """

    n: int
    players: np.ndarray
    present: np.ndarray
    lengths: np.ndarray
    values: np.ndarray


def no_leaves(n: int) -> Leaves:
    """Return the leaves of a constant."""
    empty = np.zeros((0, 0), dtype=int)
    return Leaves(n, empty, empty.astype(bool), np.zeros(0, dtype=int), np.zeros(0))


def predict(leaves: Leaves, coalitions: np.ndarray) -> np.ndarray:
    """Evaluate the ensemble on coalitions, up to its constant.

    Args:
        leaves: The ensemble.
        coalitions: Boolean rows, shape ``(m, n)``.

    Returns:
        Predictions, shape ``(m,)``.
    """
    # A leaf is reached when as many literals hold as its path has: one matrix product tells.
    literals = np.zeros((len(leaves.values), leaves.n + 1), dtype=np.float32)
    np.put_along_axis(literals, leaves.players, np.where(leaves.present, 1.0, -1.0), axis=1)
    literals = literals[:, : leaves.n]
    needed = leaves.present.sum(axis=1)
    reached = coalitions.astype(np.float32) @ literals.T == needed
    return reached @ leaves.values


def shapley_values(leaves: Leaves) -> np.ndarray:
    """Return the ensemble's exact Shapley values (TreeSHAP on present against absent).

    With p present and q absent literals, a leaf of value v gives v(p-1)!q!/(p+q)! to each present
    and -v p!(q-1)!/(p+q)! to each absent player.

    Args:
        leaves: The ensemble.

    Returns:
        Shapley values in units of the leaf values, shape ``(n,)``.
    """
    p = leaves.present.sum(axis=1)
    q = leaves.lengths - p
    log_total = gammaln(p + q + 1)
    # where there are none to get it, their share is never read: 1 instead of 0 keeps it finite
    to_present = np.exp(gammaln(np.maximum(p, 1)) + gammaln(q + 1) - log_total)
    to_absent = np.exp(gammaln(p + 1) + gammaln(np.maximum(q, 1)) - log_total)
    shares = np.where(leaves.present, to_present[:, None], -to_absent[:, None])
    real = leaves.players < leaves.n
    gains = (leaves.values[:, None] * shares)[real]
    return np.bincount(leaves.players[real], gains, minlength=leaves.n)
