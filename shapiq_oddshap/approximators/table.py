"""The values of coalitions that are asked for more than once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.sampling import row_keys

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["GameTable"]


class GameTable:
    """The game as a table that grows: every distinct coalition is evaluated once."""

    def __init__(self, evaluate: Callable[[np.ndarray], np.ndarray], n: int) -> None:
        """Evaluate the empty and the grand coalition with the first request."""
        self._evaluate = evaluate
        self._pending = np.array([[False] * n, [True] * n])
        self._keys = row_keys(self._pending)[:0]
        self._values = np.zeros(0)

    def __call__(self, coalitions: np.ndarray) -> np.ndarray:
        """Return the values of boolean rows of shape ``(..., n)``, shape ``(...)``."""
        shape, n = coalitions.shape[:-1], coalitions.shape[-1]
        rows = np.concatenate([self._pending, coalitions.reshape(-1, n)])
        keys = row_keys(rows)
        first = np.unique(keys, return_index=True)[1]
        new = np.sort(first[~np.isin(keys[first], self._keys)])
        if len(new):
            values = np.concatenate([self._values, self._evaluate(rows[new])])
            known = np.concatenate([self._keys, keys[new]])
            order = np.argsort(known)
            self._keys, self._values = known[order], values[order]
        places = np.searchsorted(self._keys, keys[len(self._pending) :])
        self._pending = self._pending[:0]
        return self._values[places].reshape(shape)
