"""The values of coalitions as a game gives them, checked.

:func:`evaluate` is the one stage through which every approximator of this package asks a game.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "GameValueError",
    "check_callable",
    "evaluate",
    "evaluate_outputs",
    "pack",
    "players",
    "unpack",
]


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


def evaluate_outputs(game: Callable[[np.ndarray], Any], coalitions: np.ndarray) -> np.ndarray:
    """Return the values of coalitions in a game of several outputs, checked like :func:`evaluate`.

    Args:
        game: Any callable from coalitions to values.
        coalitions: Boolean matrix of shape ``(m, n)``, one coalition per row, at least one.

    Returns:
        The values, a new float64 array of shape ``(m, k)``; ``(m, 1)`` if the game has one output.

    Raises:
        GameValueError: If the game does not return finite real numbers of shape ``(m, k)``, or
            ``(m,)``.

    Example:
        >>> evaluate_outputs(lambda coalitions: 1.0 * coalitions, np.eye(2, dtype=bool)).tolist()
        [[1.0, 0.0], [0.0, 1.0]]

    """
    coalitions = np.asarray(coalitions, dtype=bool)
    return _checked(game(coalitions.copy()), coalitions, outputs=True)


def _checked(answer: object, coalitions: np.ndarray, *, outputs: bool = False) -> np.ndarray:
    """Return what a game answered as float64 of shape ``(m,)``, or refuse it; ``(m, k)`` of many."""
    m = len(coalitions)
    required = (
        f"Finite real numbers are required, as an array of shape ({m}, k) for k outputs."
        if outputs
        else f"One finite real number per coalition is required, as an array of shape ({m},)."
    )
    try:
        raw = np.asarray(answer)
    except Exception as error:  # a ragged list, or whatever an array-like's conversion raises
        msg = f"The game returned a {type(answer).__name__} that is no array ({error}). {required}"
        raise GameValueError(msg) from error
    several = raw.ndim == 2 and len(raw) == m and raw.shape[1] > 0
    if raw.shape not in {(m,), (m, 1)} and not (outputs and several):
        msg = f"The game returned values of shape {raw.shape} for {m} coalitions. {required}"
        if several:
            msg += (
                f" All its {raw.shape[1]} outputs at once are estimated by "
                "approximator.estimate_outputs(budget, game); for one of them, wrap the game in a "
                "function that selects it."
            )
        raise GameValueError(msg)
    text = raw.dtype == object and any(isinstance(value, str | bytes) for value in raw.flat)
    try:
        if text or raw.dtype.kind not in "biufO":
            raise TypeError  # noqa: TRY301 - NumPy would parse text and drop imaginary parts
        shape = raw.shape if several and outputs else (m, 1) if outputs else (m,)
        values = raw.astype(np.float64).reshape(shape)  # a copy, even of float64
    except (TypeError, ValueError, OverflowError) as error:
        msg = (
            f"The game returned values of type {raw.dtype}, such as {raw.flat[0]!r}. {required} "
            "Convert them in the game."
        )
        raise GameValueError(msg) from error
    broken = np.argwhere(~np.isfinite(values))
    if len(broken):
        row, *output = first = tuple(broken[0].tolist())
        msg = (
            f"The game returned {len(broken)} values that are NaN or infinite for {m} coalitions, "
            f"such as {values[first]} for the coalition {players(coalitions[row])}"
            f"{f' in output {output[0]}' if output else ''}. "
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
