"""The values of structured coalitions, which repeat within a design."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.sampling import row_keys

if TYPE_CHECKING:
    from shapiq_oddshap.approximators.base import Run

__all__ = ["GameTable"]


class GameTable:
    """The game as a table that grows: every distinct coalition of a run is evaluated once."""

    def __init__(self, run: Run, n: int) -> None:
        """Evaluate the empty and the grand coalition with the first request."""
        self._run = run
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
            values = np.concatenate([self._values, self._run.evaluate(rows[new])])
            known = np.concatenate([self._keys, keys[new]])
            order = np.argsort(known)
            self._keys, self._values = known[order], values[order]
        places = np.searchsorted(self._keys, keys[len(self._pending) :])
        self._pending = self._pending[:0]
        return self._values[places].reshape(shape)
