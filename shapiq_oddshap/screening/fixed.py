"""Strategies whose terms do not depend on the game."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, combinations, islice
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.checks import as_integer
from shapiq_oddshap.sample import has_parity
from shapiq_oddshap.sampling import distinct_rows
from shapiq_oddshap.screening.base import Screener

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shapiq_oddshap.sample import Parity, Sample

__all__ = ["FixedOrder", "GivenTerms", "NoInteractions", "RandomTerms"]


@dataclass(frozen=True)
class NoInteractions(Screener):
    """Singletons only: the regression is LeverageSHAP's (Musco and Witter, 2025)."""

    name = "none"

    def n_terms(self, n: int, *, parity: Parity) -> int:
        """Return zero; see :class:`Screener`."""
        del n, parity
        return 0

    def screen(
        self, sample: Sample, max_terms: int, rng: np.random.Generator, *, parity: Parity
    ) -> np.ndarray:
        """Return no terms; see :class:`Screener`."""
        del max_terms, rng, parity
        return np.zeros((0, sample.n), dtype=bool)


@dataclass(frozen=True)
class FixedOrder(Screener):
    """All terms up to an order: the regression is PolySHAP's (Fumagalli et al., 2026).

    With odd terms only an even order adds nothing to the odd one below (paper, Theorem 3.2).

    Attributes:
        order: The largest interaction order k of PolySHAP-k.
    """

    order: int = 3
    name = "order"

    def __post_init__(self) -> None:
        """Check the order."""
        object.__setattr__(self, "order", as_integer(self.order, "order", "order=3", least=1))

    def n_terms(self, n: int, *, parity: Parity) -> int:
        """Return the number of all these terms; see :class:`Screener`."""
        return sum(comb(n, order) for order in _orders(self.order, n, parity))

    def screen(
        self, sample: Sample, max_terms: int, rng: np.random.Generator, *, parity: Parity
    ) -> np.ndarray:
        """Return the terms, the lowest orders first; see :class:`Screener`."""
        del rng
        orders = _orders(self.order, sample.n, parity)
        terms = chain.from_iterable(combinations(range(sample.n), order) for order in orders)
        return _as_rows(islice(terms, max_terms), sample.n)


@dataclass(frozen=True)
class GivenTerms(Screener):
    """Terms from the user: domain knowledge, or the terms of an earlier run.

    Attributes:
        terms: The terms as tuples of players, the most important first. Singletons are in the
            regression anyway.

    Examples:
        >>> GivenTerms([(0, 1, 2), (2, 5, 4)])
        GivenTerms(terms=((0, 1, 2), (2, 4, 5)))
    """

    terms: Iterable[Iterable[int]] = ()
    name = "given"

    def __post_init__(self) -> None:
        """Normalise the terms to sorted tuples and check what does not depend on ``n``."""
        terms = tuple(
            tuple(
                sorted(as_integer(player, "player", "players such as (0, 1, 2)") for player in term)
            )
            for term in self.terms
        )
        example = "Please pass GivenTerms([(0, 1, 2), …])."
        if not terms:
            msg = f"Received no terms, but at least one is required. {example}"
            raise ValueError(msg)
        for term in terms:
            if len(set(term)) < max(len(term), 2) or term[0] < 0:
                msg = f"Received the term {term}, but two or more distinct players are required. "
                raise ValueError(msg + example)
        object.__setattr__(self, "terms", tuple(dict.fromkeys(terms)))

    def n_terms(self, n: int, *, parity: Parity) -> int:
        """Return the number of terms of use; see :class:`Screener`.

        Raises:
            ValueError: If a term has a player that the game has not.
        """
        return len(self._useful(n, parity=parity))

    def screen(
        self, sample: Sample, max_terms: int, rng: np.random.Generator, *, parity: Parity
    ) -> np.ndarray:
        """Return the terms in their order; see :class:`Screener`."""
        del rng
        return _as_rows(self._useful(sample.n, parity=parity)[:max_terms], sample.n)

    def _useful(self, n: int, *, parity: Parity) -> list[tuple[int, ...]]:
        """Return the terms, without those of even order where they cannot enter."""
        terms = [tuple(term) for term in self.terms]
        for term in terms:
            if term[-1] >= n:
                msg = f"Received the term {term}, but the players of the game are 0 to {n - 1}."
                raise ValueError(msg)
        return [term for term in terms if has_parity(np.array(len(term)), parity)]


@dataclass(frozen=True)
class RandomTerms(Screener):
    """Random terms, every one equally likely within its order: a sanity baseline.

    Any strategy that looks at the game should do better.

    Attributes:
        order: The largest interaction order; low orders are filled with as many terms as high ones.
    """

    order: int = 5
    name = "random"

    def __post_init__(self) -> None:
        """Check the order."""
        object.__setattr__(self, "order", as_integer(self.order, "order", "order=3", least=1))

    def screen(
        self, sample: Sample, max_terms: int, rng: np.random.Generator, *, parity: Parity
    ) -> np.ndarray:
        """Return random terms; see :class:`Screener`."""
        n = sample.n
        orders = _orders(self.order, n, parity)
        count = min(max_terms, sum(comb(n, order) for order in orders))
        terms = np.zeros((0, n), dtype=bool)
        while len(terms) < count:
            drawn = rng.choice(orders, size=count)
            shuffled = rng.random((count, n)).argsort(axis=1)
            terms = np.concatenate([terms, shuffled < drawn[:, None]])
            terms = distinct_rows(terms)
        return terms[:count]


def _orders(largest: int, n: int, parity: Parity) -> list[int]:
    """Return the interaction orders of a parity beside the singletons."""
    orders = np.arange(2, min(largest, n) + 1)
    return [int(order) for order in orders[has_parity(orders, parity)]]


def _as_rows(terms: Iterable[tuple[int, ...]], n: int) -> np.ndarray:
    """Return tuples of players as boolean rows of shape ``(k, n)``."""
    listed = list(terms)
    rows = np.zeros((len(listed), n), dtype=bool)
    for row, term in zip(rows, listed, strict=True):
        row[list(term)] = True
    return rows
