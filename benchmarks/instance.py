"""A game with known Shapley values, as every experiment uses it, and its counted evaluation."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from shapiq import Game

__all__ = ["FLOOR", "CountedGame", "GameUnavailableError", "Instance", "Values", "table_lookup"]

Values = Callable[[np.ndarray], np.ndarray]

FLOOR = 1e-13
"""Smaller errors are the rounding of models in single precision."""

_QUANTILE = 1.6449
"""Of the normal distribution at 95 %, so that 90 % lie within."""

_ROUNDING = 1e-9
"""Of the largest value: an exact estimate and an exact value differ by as much."""


class GameUnavailableError(Exception):
    """A game cannot be built here; the message is the reason."""


@dataclass(frozen=True)
class Instance:
    """One game: an explained prediction, a valued set of data, and the like.

    Attributes:
        n: Number of players.
        value_function: The value function on boolean rows.
        shapley: Its Shapley values.
        reference_error: The mean squared error of ``shapley`` itself, where it is an estimate.
    """

    n: int
    value_function: Values
    shapley: np.ndarray
    reference_error: float = 0.0

    def mean_squared_error(self, estimate: np.ndarray) -> float:
        """Return the paper's error: the mean of the squared errors over the players."""
        return float(np.mean((estimate - self.shapley) ** 2))

    def mean_square(self) -> float:
        """Return what a relative error is relative to: the mean of the squared Shapley values."""
        return float(np.mean(self.shapley**2))

    def coverage(self, estimate: np.ndarray, variances: np.ndarray) -> float:
        """Return the share of the exact values that lie within the 90 % intervals."""
        width = _QUANTILE * np.sqrt(variances) + _ROUNDING * np.abs(estimate).max()
        return float(np.mean(np.abs(estimate - self.shapley) <= width))


class CountedGame(Game):  # type: ignore[misc]
    """A shapiq game that counts its evaluations and the seconds that they take."""

    def __init__(self, instance: Instance) -> None:
        """Wrap an instance."""
        super().__init__(instance.n, normalize=False)
        self._instance = instance
        self.evaluations = 0
        self.seconds = 0.0

    def __call__(self, *args: Any, **options: Any) -> np.ndarray:  # noqa: ANN401
        """Return the values of the coalitions; shapiq's checks of them are the game's time too."""
        start = time.perf_counter()
        values: np.ndarray = super().__call__(*args, **options)
        self.seconds += time.perf_counter() - start
        return values

    def value_function(self, coalitions: np.ndarray) -> np.ndarray:
        """Return the values of the coalitions."""
        self.evaluations += len(coalitions)
        return self._instance.value_function(coalitions)


def table_lookup(values: np.ndarray, n: int) -> Values:
    """Return the value function of a game by a table; column b holds the coalition of bits b."""
    bits = 1 << np.arange(n)
    return lambda coalitions: values[coalitions @ bits]
