"""Which players a sample proves to be null: whether they are there changes no value.

A tree model explains many a row by some of its features alone. Without its null players the game is
the same and smaller: what was sampled is a larger share of it, or all (``docs/odd-gp.md``,
section 10).
"""

from __future__ import annotations

import numpy as np

__all__ = ["relevant_players"]

_TOLERANCE = 5e-6
"""Relative difference that counts as none: sums of trees in single precision round at 1e-6."""

_LEAST_EVIDENCE = 20.0
"""Contradictions to be expected, had a player who matters been left out. By chance the chosen games of
the suite reach 8; those that have null players pass it at 30 to 100 evaluations per player."""

_LARGEST_SHARE = 0.5
"""What a test is worth at most: where all players matter at every coalition, one who is left out may
matter at a few."""


def relevant_players(coalitions: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return which players matter, as far as values prove that the others do not.

    Players are left out one by one, those least correlated with the values first, as long as all
    coalitions that differ in nothing else have the same value. A few coalitions contradict nothing:
    what they prove is counted by how often it was put to the test, times the share of the tests that
    fail where another player is left out, the one of fewest failures.

    Args:
        coalitions: Boolean rows, distinct, the empty one first, shape ``(m, n)``.
        values: Their values, shape ``(m,)``, or ``(m, k)`` of several outputs: a player matters who
            does for any of them.

    Returns:
        A boolean per player, all true if the proof is too weak, shape ``(n,)``.

    Examples:
        >>> coalitions = (np.arange(64)[:, None] >> np.arange(6) & 1).astype(bool)
        >>> relevant_players(coalitions, coalitions[:, [1, 4]] @ [2.0, 3.0]).tolist()
        [False, True, False, False, True, False]
    """
    n = coalitions.shape[1]
    everyone = np.ones(n, dtype=bool)
    centred = _one_output(values - values[0])
    tolerance = _TOLERANCE * np.abs(centred).max()
    # sums of these tell coalitions apart: two of a million share one with a probability below 1e-7
    codes = np.random.default_rng(0).integers(2**64, size=n, dtype=np.uint64)
    keys, relevant = coalitions @ codes, everyone.copy()
    correlations = (centred - centred.mean()) @ np.where(coalitions, 1.0, -1.0)
    for player in np.argsort(np.abs(correlations), kind="stable").tolist():
        without = keys - coalitions[:, player] * codes[player]
        if np.all(_classes(without, centred)[1] <= tolerance):
            keys, relevant[player] = without, False
    if relevant.all() or not relevant.any():
        return everyone
    first, _ = _classes(keys, centred)
    tests, rows, keys, centred = len(keys) - len(first), coalitions[first], keys[first], centred[first]
    worth = _LARGEST_SHARE
    for player in np.flatnonzero(relevant).tolist():
        starts, spreads = _classes(keys - rows[:, player] * codes[player], centred)
        worth = min(worth, np.sum(spreads > tolerance) / max(len(keys) - len(starts), 1))
    return relevant if tests * worth >= _LEAST_EVIDENCE else everyone


def _one_output(values: np.ndarray) -> np.ndarray:
    """Return one output that differs wherever any of several does, ``(m,)``."""
    if values.ndim == 1:
        return values
    largest = np.abs(values).max(axis=0)
    largest[largest == 0] = 1.0
    mixed: np.ndarray = (values / largest) @ np.random.default_rng(0).normal(size=len(largest))
    return mixed


def _classes(keys: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where each distinct key is first, and the spread of the values that share it."""
    order = np.argsort(keys, kind="stable")
    ordered, sorted_values = keys[order], values[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    highest = np.maximum.reduceat(sorted_values, starts)
    return order[starts], highest - np.minimum.reduceat(sorted_values, starts)
