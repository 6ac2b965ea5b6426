"""Options, checked in one dialect: what was received, what is required, what would be right."""

from __future__ import annotations

import operator
from math import inf
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["as_flag", "as_integer", "as_number", "as_seed", "as_text", "refuse_options"]


def as_integer(value: Any, name: str, example: str, *, least: int | None = None) -> int:  # noqa: ANN401
    """Return ``value`` as an ``int`` if it is an integer of any kind, but no ``bool``.

    Args:
        value: What was received.
        name: The argument's name for the message.
        example: What would be right, for the message, such as ``"rounds=5"``.
        least: The smallest value that will do; ``None`` for no bound.

    Raises:
        TypeError: If it is not an integer.
        ValueError: If it is less than ``least``.

    Examples:
        >>> as_integer(np.int64(3), "order", "order=3", least=1)
        3
        >>> as_integer(True, "order", "order=3")
        Traceback (most recent call last):
            ...
        TypeError: Received order=True, but an integer is required. Please pass order=3.
    """
    if not hasattr(value, "__index__") or isinstance(value, bool | np.bool_ | np.ndarray):
        msg = f"Received {name}={value!r}, but an integer is required. Please pass {example}."
        raise TypeError(msg)
    integer = operator.index(value)
    if least is not None and integer < least:
        msg = f"Received {name}={integer}, but at least {least} is required. Please pass {example}."
        raise ValueError(msg)
    return integer


def as_number(value: Any, name: str, example: str) -> float:  # noqa: ANN401
    """Return ``value`` as a ``float`` if it is a real number of any kind, but no ``bool``.

    What is too large for a ``float`` is infinite.

    Args:
        value: What was received.
        name: The argument's name for the message.
        example: What would be right, for the message.

    Raises:
        TypeError: If it is something else.
    """
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        msg = f"Received {name}={value!r}, but a number is required. Please pass {example}."
        raise TypeError(msg)
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf  # type: ignore[operator]


def as_seed(random_state: Any) -> int | None:  # noqa: ANN401
    """Return a seed as ``int``, or ``None`` for fresh entropy.

    Args:
        random_state: What was received.

    Raises:
        TypeError: If it is neither an integer nor ``None``.
        ValueError: If it is negative.
    """
    if random_state is None:
        return None
    return as_integer(random_state, "random_state", "random_state=42, or None", least=0)


def as_flag(value: Any, name: str) -> bool:  # noqa: ANN401
    """Return ``value`` as a ``bool`` if it is one, of Python or NumPy.

    Args:
        value: What was received.
        name: The argument's name for the message.

    Raises:
        TypeError: If it is something else: ``"no"`` would be true.
    """
    if not isinstance(value, (bool, np.bool_)):
        msg = f"Received {name}={value!r}, but True or False is required."
        raise TypeError(msg)
    return bool(value)


def as_text(value: Any, name: str, example: str) -> str:  # noqa: ANN401
    """Return ``value`` as a ``str`` if it is one.

    Args:
        value: What was received.
        name: The argument's name for the message.
        example: What would be right, for the message.

    Raises:
        TypeError: If it is something else.
    """
    if not isinstance(value, str):
        msg = f"Received {name}={value!r}, but a string is required. Please pass {example}."
        raise TypeError(msg)
    return str(value)  # of a subclass, such as NumPy's, too


def refuse_options(options: Mapping[str, Any], instead: Mapping[str, str], taker: str) -> None:
    """Refuse options that there are none of, rather than ignore them.

    Args:
        options: What was received beside the options there are.
        instead: What to pass instead, by name.
        taker: What was called.

    Raises:
        TypeError: If there are any.

    Examples:
        >>> refuse_options({"depth": 3}, {"depth": "max_depth=3"}, "fit")
        Traceback (most recent call last):
            ...
        TypeError: fit takes no option 'depth'. Please pass max_depth=3.
    """
    for name in options:
        remedy = f"pass {instead[name]}" if name in instead else "leave it out"
        msg = f"{taker} takes no option {name!r}. Please {remedy}."
        raise TypeError(msg)
