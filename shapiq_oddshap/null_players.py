"""Which players a sample proves to be null: whether they are there changes no value.

A tree model explains many a row by some of its features alone. Without its null players the game is
the same and smaller: what was sampled is a larger share of it, or all (``docs/odd-gp.md``,
section 10).
"""

from __future__ import annotations

import numpy as np

from shapiq_oddshap.sampling import player_codes

__all__ = ["PAIRS_PER_PLAYER", "relevant_players"]

PAIRS_PER_PLAYER = 5
"""With fewer pairs there are too few that differ in somebody who might be null."""

_TOLERANCE = 5e-6
"""Relative difference that counts as none: sums of trees in single precision round at 1e-6."""

_LEAST_EVIDENCE = 10.0
"""Contradictions to be expected, had a player who matters been left out. By chance the chosen games of
the suite reach 1.7; of those that have null players most pass it at 20 to 100 evaluations per player."""

_WORTH_OF_REPEATING = 0.2
"""What a test is worth where others have the same of those players who stay: it may tell nothing new."""

_LARGEST_SHARE = 0.5
"""What a test is worth at most: where all players matter at every coalition, one who is left out may
matter at a few."""


def relevant_players(coalitions: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return which players matter, as far as values prove that the others do not.

    Players are left out one by one, those least correlated with the values first, as long as all
    coalitions that differ in nothing else have the same value. A few coalitions contradict nothing:
    what they prove is counted by how often the one who was tested least was put to the test, times the
    share of the tests that fail where another player is left out, the one of fewest failures (eq. 26).

    Args:
        coalitions: Boolean rows, distinct, the empty and the grand one first, shape ``(m, n)``.
        values: Their values, shape ``(m,)``, or ``(m, k)`` of several outputs.

    Returns:
        A boolean per player, all true if the proof is too weak, shape ``(n,)`` or ``(k, n)``.

    Examples:
        >>> numbers = np.arange(256)[[0, 255, *range(1, 255)]]
        >>> coalitions = (numbers[:, None] >> np.arange(8) & 1).astype(bool)
        >>> np.flatnonzero(relevant_players(coalitions, coalitions[:, [1, 4]] @ [2.0, 3.0])).tolist()
        [1, 4]
    """
    n = coalitions.shape[1]
    found = np.ones((*values.shape[1:], n), dtype=bool)
    if len(values) < 2 * PAIRS_PER_PLAYER * n:
        return found
    centred = values - values[0]
    tolerance = _TOLERANCE * np.abs(centred).max(axis=0)
    alone = _agree_at_the_ends(coalitions, centred, tolerance)
    codes = player_codes(n)
    keys = coalitions @ codes
    for player in np.flatnonzero(alone.reshape(n, -1).any(axis=1)).tolist():
        _, spreads = _classes(keys - coalitions[:, player] * codes[player], centred)
        alone[player] &= np.all(spreads <= tolerance, axis=0)
    if values.ndim == 1:
        return _left(coalitions, centred, alone, tolerance) if alone.any() else found
    for output in np.flatnonzero(alone.any(axis=0)).tolist():
        found[output] = _left(
            coalitions,
            np.ascontiguousarray(centred[:, output]),
            alone[:, output],
            tolerance[output],
        )
    return found


def _agree_at_the_ends(
    coalitions: np.ndarray, values: np.ndarray, tolerance: np.ndarray
) -> np.ndarray:
    """Return whose joining the empty coalition, or leaving the grand one, changes nothing.

    Most players who matter are told by these already, without a search for their equals.

    Args:
        coalitions: Boolean rows, the empty and the grand one first, shape ``(m, n)``.
        values: Their values, shape ``(m,)`` or ``(m, k)``.
        tolerance: The difference that counts as none.

    Returns:
        Booleans of shape ``(n,)`` or ``(n, k)``, true where the coalition is not there.
    """
    n, sizes = coalitions.shape[1], coalitions.sum(axis=1)
    agree = np.ones((n, *values.shape[1:]), dtype=bool)
    for end, size in ((0, 1), (1, n - 1)):
        rows = np.flatnonzero(sizes == size)
        players = np.argmax(coalitions[rows] != coalitions[end], axis=1)
        agree[players] &= np.abs(values[rows] - values[end]) <= tolerance
    return agree


def _left(
    coalitions: np.ndarray, values: np.ndarray, alone: np.ndarray, tolerance: float
) -> np.ndarray:
    """Return who matters of one output.

    Args:
        coalitions: Boolean rows, shape ``(m, n)``.
        values: Their values, less that of the empty one, shape ``(m,)``.
        alone: Whom no two coalitions contradict that differ in nobody else, shape ``(n,)``.
        tolerance: The difference that counts as none.
    """
    codes = player_codes(len(alone))
    keys, relevant = coalitions @ codes, np.ones(len(alone), dtype=bool)
    odd = (values - values.mean()) @ np.where(coalitions, 1.0, -1.0)
    order = np.argsort(np.abs(odd), kind="stable")
    for player in order[alone[order]].tolist():
        without = keys - coalitions[:, player] * codes[player]
        if np.all(_classes(without, values)[1] <= tolerance):
            keys, relevant[player] = without, False
    if relevant.all() or not relevant.any():
        return np.ones_like(relevant)
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    tests = min(
        _tests(coalitions[:, player], group) for player in np.flatnonzero(~relevant).tolist()
    )
    coalitions, values, keys = coalitions[first], values[first], keys[first]
    worth = _LARGEST_SHARE
    for player in np.flatnonzero(relevant).tolist():
        starts, spreads = _classes(keys - coalitions[:, player] * codes[player], values)
        worth = min(worth, np.sum(spreads > tolerance) / max(len(keys) - len(starts), 1))
    return relevant if tests * worth >= _LEAST_EVIDENCE else np.ones_like(relevant)


def _tests(member: np.ndarray, group: np.ndarray) -> float:
    """Return how often a player was put to the test.

    Args:
        member: Which coalitions have the player, shape ``(m,)``.
        group: The group of each; those of one group differ in nothing but who was left out.
    """
    with_player = np.bincount(group, member)
    pairs = np.minimum(with_player, np.bincount(group) - with_player)
    return max(float(np.count_nonzero(pairs)), _WORTH_OF_REPEATING * float(pairs.sum()))


def _classes(keys: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where each distinct key is first, and the spread of the values that share it."""
    order = np.argsort(keys, kind="stable")
    ordered, sorted_values = keys[order], values[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    highest = np.maximum.reduceat(sorted_values, starts)
    return order[starts], highest - np.minimum.reduceat(sorted_values, starts)
