"""The protocol of screening strategies: which higher-order terms join the regression."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from shapiq_oddshap.sample import has_parity
from shapiq_oddshap.sampling import distinct_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shapiq_oddshap.proxy import TreeProxy
    from shapiq_oddshap.sample import Parity, Sample

__all__ = ["Screener", "usable_terms"]


class Screener(ABC):
    """Ranks the terms of order two and more that the regression should hold.

    A strategy is one short subclass with a ``name``, which ``Diagnostics`` reports, and ``screen``.
    Make it a frozen dataclass, so that equal options compare equal and pickle. It keeps nothing
    about a run. What else it can do is optional: ask for coalitions of its own (``prepare`` and
    ``coalitions``) or insist on a number of terms (``n_terms``).

    Examples:
        Three-player terms around the players that matter most on their own:

        >>> from dataclasses import dataclass
        >>> from itertools import combinations, islice
        >>> import numpy as np
        >>> from shapiq_oddshap import OddSHAP, Screener
        >>> @dataclass(frozen=True)
        ... class StrongestPlayers(Screener):
        ...     name = "strongest"
        ...
        ...     def screen(self, sample, max_terms, rng, *, parity):
        ...         effect = np.abs((sample.values - sample.values.mean()) @ sample.coalitions)
        ...         triples = combinations(np.argsort(-effect).tolist(), 3)
        ...         players = np.array(list(islice(triples, max_terms)))
        ...         terms = np.zeros((len(players), sample.n), dtype=bool)
        ...         np.put_along_axis(terms, players, True, axis=1)
        ...         return terms
        >>> game = lambda coalitions: 6.0 * coalitions[:, :3].all(axis=1)
        >>> approximator = OddSHAP(n=10, screener=StrongestPlayers(), random_state=42)
        >>> approximator.approximate(budget=300, game=game).get_n_order_values(1)[:4].round(9) + 0.0
        array([2., 2., 2., 0.])
    """

    name: str

    @property
    def proxy(self) -> TreeProxy | None:
        """The trees that the strategy fits, if any.

        At low budgets OddSHAP may take the Shapley values of the same trees.
        """
        return None

    def with_proxy_params(self, params: Mapping[str, Any]) -> Screener:  # noqa: ARG002
        """Return the strategy with LightGBM parameters for a proxy that has none, if it has one.

        Args:
            params: LightGBM parameters by their main names.
        """
        return self

    @abstractmethod
    def screen(
        self, sample: Sample, max_terms: int, rng: np.random.Generator, *, parity: Parity
    ) -> np.ndarray:
        """Return at most ``max_terms`` distinct terms, the most important first.

        Args:
            sample: The evaluated coalitions.
            max_terms: How many terms the regression can hold beside the singletons.
            rng: The run's random generator.
            parity: Which terms are of use: those of ``"odd"`` order (three and more), of ``"even"``
                order (two and more), or of ``"both"``.

        Returns:
            Terms as boolean rows, shape ``(k, n)`` with ``k <= max_terms``.
        """

    def n_terms(self, n: int, *, parity: Parity) -> int | None:  # noqa: ARG002
        """Return how many terms the strategy insists on, or ``None`` if it takes what there is.

        Such terms are not held to η evaluations each: a budget that gives them a row each will do,
        and a smaller one is refused before anything is evaluated.

        Args:
            n: Number of players.
            parity: Which terms are of use; see :meth:`screen`.
        """
        return None

    def prepare(self, n: int, budget: int, rng: np.random.Generator) -> Screener:  # noqa: ARG002
        """Return the strategy for one run, the same object unless it draws coalitions of its own.

        Args:
            n: Number of players.
            budget: How many coalitions may be asked for; they come out of the run's budget.
            rng: The run's random generator.
        """
        return self

    def coalitions(self, n: int) -> np.ndarray:
        """Return the coalitions that a prepared strategy needs; the regression uses them too.

        Args:
            n: Number of players.

        Returns:
            Distinct boolean rows without the empty and the grand coalition, shape ``(k, n)`` with
            ``k`` at most the budget of ``prepare``.
        """
        return np.zeros((0, n), dtype=bool)


def usable_terms(terms: np.ndarray, n: int, *, parity: Parity, name: str) -> np.ndarray:
    """Check what a strategy returned, and keep what can enter the regression, each term once.

    Args:
        terms: What ``screen`` returned.
        n: Number of players.
        parity: Which orders are of use.
        name: The strategy's name for the message.

    Returns:
        Boolean rows of order two and more, in their order, shape ``(k, n)``.

    Raises:
        ValueError: If they are no rows of zeros and ones with a column per player.
    """
    rows = np.asarray(terms)
    if rows.ndim != 2 or rows.shape[1] != n or not np.isin(rows, (0, 1)).all():
        msg = (
            f"Received terms of shape {rows.shape} and type {rows.dtype} from the screener {name!r}, "
            f"but boolean rows of shape (k, {n}) are required: a row per term, a column per player."
        )
        raise ValueError(msg)
    rows = rows.astype(bool)
    orders = rows.sum(axis=1)
    rows = rows[(orders >= 2) & has_parity(orders, parity)]
    return distinct_rows(rows)
