"""The values of coalitions that are asked for more than once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.sampling import row_keys

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["GameTable"]


class GameTable:
    """The game as a table that grows: every distinct coalition is evaluated once.

    Attributes:
        coalitions: What was evaluated, in the order in which it was asked for, after the empty and
            the grand coalition, shape ``(m, n)``.
        values: Their values, shape ``(m,)``, or ``(m, k)`` of k outputs; none before the first call.
    """

    def __init__(self, evaluate: Callable[[np.ndarray], np.ndarray], n: int) -> None:
        """Ask for the empty and the grand coalition before the first request.

        They go alone: a game whose answers are of the wrong kind has then cost two evaluations.
        """
        self._evaluate = evaluate
        self.coalitions = np.array([[False] * n, [True] * n])
        self.values: np.ndarray = np.zeros(0)

    def __call__(self, coalitions: np.ndarray) -> np.ndarray:
        """Return the values of boolean rows of shape ``(..., n)``, shape ``(...)`` or ``(..., k)``."""
        shape, n = coalitions.shape[:-1], coalitions.shape[-1]
        asked = np.concatenate([self.coalitions, coalitions.reshape(-1, n)])
        _, first, inverse = np.unique(row_keys(asked), return_index=True, return_inverse=True)
        order = np.argsort(first)  # known coalitions are in front and keep their places
        known, rows = len(self.coalitions), asked[first[order]]
        if len(self.values) == 0:
            self.values = self._evaluate(self.coalitions)
        new = rows[len(self.values) :]
        if len(new):
            values = self._evaluate(new)
            known_values = [self.values] if len(self.values) else []
            self.values = np.concatenate([*known_values, values])
            self.coalitions = rows
        places = np.argsort(order)[inverse.ravel()[known:]]
        return self.values[places].reshape(*shape, *self.values.shape[1:])
