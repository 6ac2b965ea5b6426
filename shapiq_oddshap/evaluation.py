"""The values of coalitions as a game gives them, checked.

:func:`evaluate` is the one stage through which every approximator of this package asks a game.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["GameValueError", "check_callable", "evaluate", "pack", "players", "unpack"]


class GameValueError(ValueError):
    """A game returned something other than one finite number per coalition.

    Attributes:
        values: What it returned where that is one number each, some of them not finite, shape
            ``(m,)``; ``None`` otherwise.

    """

    def __init__(self, message: str, values: np.ndarray | None = None) -> None:
        """Initialize the error; arguments as in the attributes."""
        super().__init__(message)
        self.values = values


def check_callable(game: object) -> None:
    """Raise a ``TypeError`` if a game cannot be called."""
    if not callable(game):
        msg = f"Received a game of type {type(game).__name__}, but a callable is required."
        raise TypeError(msg)


def evaluate(game: Callable[[np.ndarray], Any], coalitions: np.ndarray) -> np.ndarray:
    """Return the values of coalitions as the game gives them, checked.

    The game gets a copy of the coalitions, and what it returns is copied: neither side can change
    the other's arrays. Exceptions of the game pass through.

    Args:
        game: A shapiq ``Game``, an imputer or any callable from coalitions to values.
        coalitions: Boolean matrix of shape ``(m, n)``, one coalition per row.

    Returns:
        The values, a new float64 array of shape ``(m,)``.

    Raises:
        GameValueError: If the game does not return m finite real numbers of shape ``(m,)`` or
            ``(m, 1)``.

    Example:
        >>> evaluate(lambda coalitions: coalitions.sum(axis=1), np.eye(3, dtype=bool))
        array([1., 1., 1.])

    """
    coalitions = np.asarray(coalitions, dtype=bool)
    if not len(coalitions):
        return np.empty(0)
    return _checked(game(coalitions.copy()), coalitions)


def _checked(answer: object, coalitions: np.ndarray) -> np.ndarray:
    """Return what a game answered as float64 of shape ``(m,)``, or refuse it."""
    m = len(coalitions)
    required = f"One finite real number per coalition is required, as an array of shape ({m},)."
    try:
        raw = np.asarray(answer)
    except Exception as error:  # a ragged list, or whatever an array-like's conversion raises
        msg = f"The game returned a {type(answer).__name__} that is no array ({error}). {required}"
        raise GameValueError(msg) from error
    if raw.shape not in {(m,), (m, 1)}:
        msg = (
            f"The game returned values of shape {raw.shape} for {m} coalitions. {required} If it "
            "has several outputs, wrap it in a function that selects one."
        )
        raise GameValueError(msg)
    text = raw.dtype == object and any(isinstance(value, str | bytes) for value in raw.flat)
    try:
        if text or raw.dtype.kind not in "biufO":
            raise TypeError  # noqa: TRY301 - NumPy would parse text and drop imaginary parts
        values = raw.astype(np.float64).reshape(m)  # a copy, even of float64
    except (TypeError, ValueError, OverflowError) as error:
        msg = (
            f"The game returned values of type {raw.dtype}, such as {raw.flat[0]!r}. {required} "
            "Convert them in the game."
        )
        raise GameValueError(msg) from error
    broken = np.flatnonzero(~np.isfinite(values))
    if len(broken):
        msg = (
            f"The game returned {len(broken)} values that are NaN or infinite for {m} coalitions, "
            f"such as {values[broken[0]]} for the coalition {players(coalitions[broken[0]])}. "
            f"{required} Let the game return a finite value there."
        )
        raise GameValueError(msg, values)
    return values


def players(coalition: np.ndarray) -> tuple[int, ...]:
    """Return a boolean row as a tuple of players."""
    return tuple(np.flatnonzero(coalition).tolist())


def pack(coalitions: np.ndarray) -> list[bytes]:
    """Return each row's bits as bytes: the name of a coalition in stores and between processes."""
    return [row.tobytes() for row in np.packbits(coalitions, axis=1)]


def unpack(keys: list[bytes], n: int) -> np.ndarray:
    """Return the boolean matrix of shape ``(len(keys), n)`` that :func:`pack` packed."""
    packed = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), -1)
    return np.unpackbits(packed, axis=1, count=n).astype(bool)
