"""Several strategies at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.sampling import distinct_rows
from shapiq_oddshap.screening.base import Screener
from shapiq_oddshap.screening.proxyspex import ProxySPEX
from shapiq_oddshap.screening.spex import SPEX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shapiq_oddshap.sample import Parity, Sample

__all__ = ["TermUnion"]


@dataclass(frozen=True)
class TermUnion(Screener):
    """The first term of every strategy, then the second of every one, and so on, each once.

    Attributes:
        screeners: The strategies. At equal rank the earlier goes first; so it is with coalitions of
            their own, which the earlier takes out of the budget first.

    Examples:
        >>> from shapiq_oddshap.screening import GivenTerms
        >>> union = TermUnion((GivenTerms([(0, 1, 2)]), ProxySPEX()))
    """

    screeners: Sequence[Screener] = (ProxySPEX(), SPEX())
    name = "union"

    def __post_init__(self) -> None:
        """Check the members."""
        object.__setattr__(self, "screeners", tuple(self.screeners))
        if not self.screeners or not all(isinstance(each, Screener) for each in self.screeners):
            msg = f"Received {self.screeners!r}, but one or more Screener instances are required."
            raise TypeError(msg)

    def n_terms(self, n: int, *, parity: Parity) -> None:
        """Let the members check themselves; the union takes what there is. See :class:`Screener`."""
        for screener in self.screeners:
            screener.n_terms(n, parity=parity)

    def prepare(self, n: int, budget: int, rng: np.random.Generator) -> TermUnion:
        """Prepare every member with what those before it leave; see :class:`Screener`."""
        prepared = []
        for screener in self.screeners:
            prepared.append(screener.prepare(n, budget, rng))
            budget -= len(prepared[-1].coalitions(n))
        return replace(self, screeners=tuple(prepared))

    def coalitions(self, n: int) -> np.ndarray:
        """Return the coalitions of all members; see :class:`Screener`."""
        return _distinct(np.concatenate([screener.coalitions(n) for screener in self.screeners]))

    def screen(
        self, sample: Sample, max_terms: int, rng: np.random.Generator, *, parity: Parity
    ) -> np.ndarray:
        """Return the members' terms by rank; see :class:`Screener`."""
        ranked = [
            screener.screen(sample, max_terms, rng, parity=parity) for screener in self.screeners
        ]
        rank = np.concatenate([np.arange(len(terms)) for terms in ranked])
        return _distinct(np.concatenate(ranked)[np.argsort(rank, kind="stable")])[:max_terms]


def _distinct(rows: np.ndarray) -> np.ndarray:
    """Return boolean rows without repetitions, in the order of their first appearance."""
    return distinct_rows(rows)
