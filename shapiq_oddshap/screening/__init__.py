"""Screening strategies, by name or as instances: ``OddSHAP(n, screener="proxyspex")``."""

from shapiq_oddshap.screening.base import Screener, usable_terms
from shapiq_oddshap.screening.fixed import FixedOrder, GivenTerms, NoInteractions, RandomTerms
from shapiq_oddshap.screening.proxyspex import ProxySPEX
from shapiq_oddshap.screening.spex import SPEX
from shapiq_oddshap.screening.union import TermUnion

__all__ = [
    "SCREENERS",
    "SPEX",
    "FixedOrder",
    "GivenTerms",
    "NoInteractions",
    "ProxySPEX",
    "RandomTerms",
    "Screener",
    "TermUnion",
    "resolve_screener",
    "usable_terms",
]

SCREENERS: dict[str, type[Screener]] = {
    screener.name: screener
    for screener in (
        ProxySPEX,
        NoInteractions,
        FixedOrder,
        SPEX,
        RandomTerms,
        GivenTerms,
        TermUnion,
    )
}


def resolve_screener(screener: str | Screener) -> Screener:
    """Return the strategy of that name with its default options, or the instance itself.

    Args:
        screener: A name of ``SCREENERS`` or an object with the methods of :class:`Screener`.

    Returns:
        The strategy.

    Raises:
        ValueError: If there is no strategy of that name.
        TypeError: If the object lacks ``name`` or ``screen``, or the named strategy needs options.

    Examples:
        >>> resolve_screener("none")
        NoInteractions()
    """
    if isinstance(screener, str):
        if screener not in SCREENERS:
            msg = (
                f"Received screener={screener!r}, but the strategies are {sorted(SCREENERS)}. "
                "Please choose one of them or pass a Screener instance."
            )
            raise ValueError(msg)
        try:
            return SCREENERS[screener]()
        except TypeError as error:
            msg = f"Received screener={screener!r}, which has no defaults: {error}. Please pass an instance."
            raise TypeError(msg) from error
    if isinstance(screener, type) or not isinstance(screener, Screener):
        msg = (
            f"Received screener={screener!r}, but a name of {sorted(SCREENERS)} or an instance of "
            "a Screener subclass is required."
        )
        raise TypeError(msg)
    return screener
