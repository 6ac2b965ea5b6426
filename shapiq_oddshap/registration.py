"""``approximator="oddshap"`` and the other names in shapiq's explainers."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NoReturn

from shapiq_oddshap.approximators import APPROXIMATORS
from shapiq_oddshap.approximators.base import ShapleyApproximator, offer
from shapiq_oddshap.shapiq_adapter import explainer_approximators, watch_explainers

if TYPE_CHECKING:
    from shapiq.approximator.base import Approximator

__all__ = ["register", "unregister"]

_replaced: dict[str, dict[str, type[Approximator]]] = {}


class _Entry(dict[str, Any]):
    """An explainer's table entry by index that says what to do when asked for another index."""

    def __init__(self, approximator: type[ShapleyApproximator]) -> None:
        """List the indices that the approximator offers, of whichever order."""
        self._offer = offer(approximator.offered)
        indices = [index for order in approximator.offered.values() for index in order]
        super().__init__(dict.fromkeys(indices, approximator))

    def __missing__(self, index: str) -> NoReturn:
        msg = f"Received index={index!r}, but this approximator {self._offer}"
        raise ValueError(msg)


def _refuse_another_index(approximator: object, index: str, max_order: int) -> None:
    """Refuse an instance of ours that computes something else than the explainer was asked for."""
    if not isinstance(approximator, ShapleyApproximator):
        return
    own = (approximator.index, approximator.max_order)
    if own != (index, max_order):
        kind = type(approximator).__name__
        msg = (
            f"Received an explainer of index={index!r}, max_order={max_order} and {kind} of "
            f"index={own[0]!r}, max_order={own[1]}. Please give both the same, e.g. the explainer "
            f"index={own[0]!r}, max_order={own[1]}."
        )
        raise ValueError(msg)


def register(*, overwrite: bool = False) -> None:
    """Make the package's approximators known to shapiq's explainers by name.

    Importing the package does this. A name that shapiq itself has brought is left alone, with a
    warning, unless ``overwrite`` is set. From then on the explainers refuse, with a ``ValueError``,
    an index that an approximator does not offer, and an instance of the package's of another index
    or order than their own, which shapiq would take in silence.

    Args:
        overwrite: Whether to replace shapiq's own approximators of the same names.

    Examples:
        >>> import shapiq, shapiq_oddshap
        >>> shapiq_oddshap.register()
    """
    watch_explainers(_refuse_another_index)
    table = explainer_approximators()
    for name, approximator in APPROXIMATORS.items():
        present = table.get(name)
        if isinstance(present, _Entry):
            continue
        if present is not None and not overwrite:
            warnings.warn(
                f"shapiq has an approximator named {name!r} of its own, which stays in place. "
                "shapiq_oddshap.register(overwrite=True) replaces it.",
                stacklevel=2,
            )
            continue
        if present is not None:
            _replaced[name] = present
        table[name] = _Entry(approximator)


def unregister() -> None:
    """Undo :func:`register`; what it replaced comes back."""
    watch_explainers(None)
    table = explainer_approximators()
    for name in APPROXIMATORS:
        if isinstance(table.get(name), _Entry):
            del table[name]
            if name in _replaced:
                table[name] = _replaced.pop(name)
