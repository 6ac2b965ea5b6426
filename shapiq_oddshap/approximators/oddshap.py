"""OddSHAP: the paper's Algorithm 1, by composing the stages."""

from __future__ import annotations

import copy
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
from shapiq.approximator.sampling import CoalitionSampler

from shapiq_oddshap import fourier, trees
from shapiq_oddshap.approximators.base import Fitted, Plan, Run, ShapleyApproximator
from shapiq_oddshap.checks import as_integer, as_number, refuse_options
from shapiq_oddshap.diagnostics import FitFacts
from shapiq_oddshap.interactions import regressed_interactions
from shapiq_oddshap.proxy import TreeProxy
from shapiq_oddshap.regression import SizeEffects, fit_terms
from shapiq_oddshap.sampling import (
    Sizes,
    UnpairedCoalitionSampler,
    distinct_rows,
    row_weights,
    size_weights,
)
from shapiq_oddshap.screening import (
    ProxySPEX,
    Screener,
    TermUnion,
    resolve_screener,
    usable_terms,
)
from shapiq_oddshap.selection import Linear, Process, Proxy, Regression, SmallLeaves, averaged
from shapiq_oddshap.spreading import SpreadPairSampler

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shapiq_oddshap.approximators.base import Design
    from shapiq_oddshap.regression import Fit
    from shapiq_oddshap.sample import Parity, Sample
    from shapiq_oddshap.selection import Candidate

__all__ = ["FourierRegression", "OddSHAP"]

LowBudget = Literal["auto", "proxy", "linear"]
_CHOICES: dict[str, Any] = {
    "low_budget": LowBudget,
    "size_effects": SizeEffects,
    "sizes": Sizes,
}
_INSTEAD = {
    "tree_params": "proxy_params={...}, LightGBM's parameters by any of their names",
    "sampling_weights": "sizes='paper' for equally many coalitions of every size, or "
    "sampler=CoalitionSampler(n, sampling_weights)",
}
"""What shapiq's own OddSHAP calls otherwise."""
_LOW_BUDGET = 20
"""Evaluations per player up to which several estimators are compared: they take little time then."""


class FourierRegression(ShapleyApproximator):
    """Paired or unpaired sampling × odd or all terms: OddSHAP and its ablations.

    Subclasses choose by two class attributes; the stages are the same.

    Attributes:
        paired: Whether coalitions come with their complements.
        parity: Which terms the regression holds: ``"odd"`` ones or ``"both"``.
    """

    paired: bool
    parity: Parity

    def __init__(
        self,
        n: int,
        *,
        interaction_factor: float = 10,
        max_interactions: int | None = None,
        screener: str | Screener = "proxyspex",
        size_effects: SizeEffects = "auto",
        low_budget: LowBudget = "auto",
        proxy_params: Mapping[str, Any] | None = None,
        sizes: Sizes = "auto",
        sampler: CoalitionSampler | None = None,
        max_order: int = 1,
        index: str = "SV",
        random_state: int | None = None,
        **foreign: Any,  # noqa: ANN401 - refused
    ) -> None:
        """Initialize the approximator.

        Args:
            n: The number of players.
            interaction_factor: η, evaluations per regression term; ⌈m/η⌉ - n higher-order terms
                join the n singletons.
            max_interactions: At most so many higher-order terms, which bounds the cost at large
                budgets; ``None`` for no bound.
            screener: Which terms: a name of ``shapiq_oddshap.SCREENERS`` or an instance.
            size_effects: Whether the regression may hold functions of the coalitions' size, which
                games with a learning curve need: ``"none"`` is the paper's regression, ``"always"``
                has them as soon as there are more rows than unknowns, ``"auto"`` where they lower
                the error at rows left out.
            low_budget: Where evaluations are few: ``"proxy"`` takes the Shapley values of the
                gradient-boosted proxy (the paper), ``"linear"`` the regression on singletons, both
                below η·n evaluations; ``"auto"`` averages regression, trees and the odd process
                below 20n (or η·n if that is more), weighted by their errors at pairs left out.
            proxy_params: LightGBM parameters that replace the defaults, of the screener
                ``"proxyspex"`` (not within a union) and of the proxies at low budgets.
                Gradients are quantised unless ``use_quantized_grad=False`` is among them, or one that
                is not about the number, the size or the shrinkage of the trees.
            sizes: How many coalitions of each size: ``"auto"`` has more of the smallest and the
                largest while evaluations are few, and their pairs from
                :class:`~shapiq_oddshap.SpreadPairSampler`; ``"paper"`` draws equally many throughout.
            sampler: One of shapiq's coalition samplers instead of the own; it is copied and
                seeded with ``random_state`` for every run. It chooses the sizes itself.
            max_order: 1; shapiq's explainers pass it.
            index: ``"SV"``; shapiq's explainers pass it.
            random_state: The seed; ``None`` takes fresh entropy for every run.
            **foreign: None; those of shapiq's own OddSHAP are refused with what to pass instead.

        Raises:
            TypeError: If an argument is of the wrong type, or there is none of the name.
            ValueError: If an argument is out of its range.
        """
        refuse_options(foreign, _INSTEAD, type(self).__name__)
        super().__init__(n, max_order=max_order, index=index, random_state=random_state)
        as_number(interaction_factor, "interaction_factor", "interaction_factor=10")
        if not interaction_factor >= 1:
            msg = (
                f"Received interaction_factor={interaction_factor!r}, but at least one evaluation "
                "per term is required. The paper takes 10."
            )
            raise ValueError(msg)
        if max_interactions is not None:
            as_integer(
                max_interactions, "max_interactions", "a count such as 1000, or None", least=0
            )
        chosen = {"low_budget": low_budget, "size_effects": size_effects, "sizes": sizes}
        for name, value in chosen.items():
            if value not in get_args(_CHOICES[name]):
                known = ", ".join(map(repr, get_args(_CHOICES[name])))
                msg = f"Received {name}={value!r}, but one of {known} is required."
                raise ValueError(msg)
        if not isinstance(sampler, CoalitionSampler | None):
            msg = f"Received sampler={sampler!r}, but an instance of CoalitionSampler is required."
            raise TypeError(msg)
        if sampler is not None and sampler.n != n:
            msg = f"Received a sampler of {sampler.n} players, but one of {n} is required."
            raise ValueError(msg)
        if sampler is not None and sizes != "auto":
            msg = f"Received a sampler and sizes={sizes!r}. Please leave sizes to the sampler."
            raise ValueError(msg)
        self.interaction_factor = interaction_factor
        self.max_interactions = max_interactions
        self.screener = screener
        self.size_effects = size_effects
        self.low_budget = low_budget
        self.proxy_params = None if proxy_params is None else trees.checked_params(proxy_params, n)
        self.sizes = sizes
        self.sampler = sampler
        for params in _proxy_params(self._resolved()):  # refuses what is no strategy
            if params != self.proxy_params:
                trees.checked_params(params, n)

    @classmethod
    def paper(
        cls,
        n: int,
        *,
        interaction_factor: float = 10,
        max_order: int = 1,
        index: str = "SV",
        random_state: int | None = None,
    ) -> Self:
        """Return the estimator of the paper, its Algorithm 1 to the letter.

        Equally many coalitions of every size; the proxy that screens is LightGBM with
        ``max_depth=10``, fitted to the values; nothing but terms in the regression, under the
        constraints; below η·n evaluations the proxy's own values, which are made efficient.

        Args:
            n: The number of players.
            interaction_factor: η, evaluations per regression term.
            max_order: 1; shapiq's explainers pass it.
            index: ``"SV"``; shapiq's explainers pass it.
            random_state: The seed; ``None`` takes fresh entropy for every run.

        Examples:
            >>> paper = OddSHAP.paper(n=8, random_state=42)
            >>> paper.size_effects, paper.sizes, paper.low_budget
            ('none', 'paper', 'proxy')
        """
        return cls(
            n,
            interaction_factor=interaction_factor,
            screener=ProxySPEX(params={"use_quantized_grad": False}, target="values"),
            size_effects="none",
            low_budget="proxy",
            sizes="paper",
            max_order=max_order,
            index=index,
            random_state=random_state,
        )

    def _resolved(self) -> Screener:
        """Return the screening strategy that the options name."""
        screener = resolve_screener(self.screener)
        params = self.proxy_params
        return screener if params is None else screener.with_proxy_params(params)

    def _design(self, run: Run) -> Design:
        """Draw coalitions, those that the screening strategy needs among them."""
        if self._asks_lightgbm(run.budget):
            trees.import_lightgbm()  # refuses before anything is paid for
        screener = self._resolved().prepare(self.n, run.budget - 2, run.rng)
        own = screener.coalitions(self.n)
        sampler = copy.deepcopy(self.sampler)
        if sampler is None:
            kind = SpreadPairSampler if self.paired else UnpairedCoalitionSampler
            sampler = kind(self.n, sizes=self.sizes)
        sampler.set_random_state(int(run.rng.integers(2**63)))
        sampler.sample(run.budget - len(own))
        coalitions, weights = sampler.coalitions_matrix, row_weights(sampler)
        inner = coalitions.any(axis=1) & ~coalitions.all(axis=1)
        coalitions, weights = coalitions[inner], weights[inner]
        if len(own):
            coalitions = distinct_rows(np.concatenate([coalitions, own]))
            weights = size_weights(coalitions)
        yield coalitions
        return Plan(weights, screener)

    def _asks_lightgbm(self, budget: int) -> bool:
        """Return whether a run of so many evaluations will take LightGBM."""
        screener = self._resolved()
        if self._compared(screener) and budget < max(self.interaction_factor, _LOW_BUDGET) * self.n:
            return True
        if budget < self.interaction_factor * self.n and not self._fixed_terms(screener):
            own = self._trees(screener).model is None
            return own and self.low_budget == "proxy" and self._n_terms(screener) != 0
        return screener.proxy is not None and screener.proxy.model is None

    def _fit(self, sample: Sample, notes: Screener, run: Run) -> Fitted:
        """Screen and regress (paper, Algorithm 1), or take the proxy."""
        if np.ptp(sample.values) == 0:
            return Fitted(np.zeros(self.count), FitFacts(path="constant"))
        fitted = self._fit_shapley(sample, notes, run)
        return self._with_pairs(fitted, sample, notes, run) if self.max_order > 1 else fitted

    def _fit_shapley(self, sample: Sample, notes: Screener, run: Run) -> Fitted:
        """Estimate the Shapley values."""
        compared = self._compared(notes)
        limit = max(self.interaction_factor, _LOW_BUDGET) if compared else self.interaction_factor
        if len(sample.values) < limit * self.n and not self._fixed_terms(notes):
            return (self._fit_several if compared else self._fit_few)(sample, notes, run)
        terms = self._terms(sample, notes, run)
        with run.clock("regression"):
            fit = fit_terms(sample, terms, self.parity, self.size_effects)
            phi = fourier.shapley_values(fit.coefficients, fit.terms)
        return Fitted(phi, _facts("regression", fit, len(terms), notes.name))

    def _compared(self, screener: Screener) -> bool:
        """Return whether several estimators are compared where evaluations are few."""
        return self.low_budget == "auto" and self._n_terms(screener) is None

    def _fit_few(self, sample: Sample, screener: Screener, run: Run) -> Fitted:
        """Estimate where terms outnumber the budget, in the one way that was asked for."""
        if self.low_budget == "proxy" and self._n_terms(screener) != 0:
            with run.clock("proxy"):
                values = Proxy(self._trees(screener)).opinion(sample, run.rng).values
            return Fitted(values, FitFacts(path="proxy"))
        with run.clock("regression"):
            opinion = self._linear().opinion(sample, run.rng)
        return Fitted(opinion.values, _facts("linear", opinion.fit, self.n))

    def _fit_several(self, sample: Sample, screener: Screener, run: Run) -> Fitted:
        """Average several estimators, weighted by their errors at pairs left out."""
        regression: Candidate = self._linear()
        n_terms, name = self.n, None
        if len(sample.values) >= self.interaction_factor * self.n:
            terms = self._terms(sample, screener, run)
            regression = Regression(terms, self.parity, self.size_effects)
            n_terms, name = len(terms), screener.name
        candidates = [regression, SmallLeaves(self._trees(screener))]
        if 2 * len(sample.component("odd").targets) == len(sample.values) - 2:
            candidates.append(Process())
        with run.clock("selection"):
            phi, opinions, details = averaged(candidates, sample, run.rng)
        facts = _facts("average", opinions[regression.name].fit, n_terms, name)
        return Fitted(phi, replace(facts, details={**details, **facts.details}))

    def _linear(self) -> Linear:
        """Return the regression on singletons."""
        return Linear(self.parity, sizes=self.size_effects != "none")

    def _trees(self, screener: Screener) -> TreeProxy:
        """Return the trees that were asked for."""
        return screener.proxy or TreeProxy(self.proxy_params)

    def _terms(self, sample: Sample, screener: Screener, run: Run) -> np.ndarray:
        """Return the terms of the regression, the singletons first."""
        with run.clock("screening"):
            interactions = self._screen(sample, screener, run.rng)
        return np.concatenate([fourier.singletons(self.n), interactions])

    def _with_pairs(self, fitted: Fitted, sample: Sample, screener: Screener, run: Run) -> Fitted:
        """Append the interactions of the even twin: a regression on screened even terms."""
        with run.clock("screening"):
            terms = self._screen_even(sample, screener, run.rng)
        with run.clock("regression"):
            pairs = regressed_interactions(sample, terms)
        details = {**fitted.facts.details, "even_terms": float(len(terms))}
        return Fitted(
            np.concatenate([fitted.values, pairs]), replace(fitted.facts, details=details)
        )

    def required_budget(self) -> int:
        """Return the smallest budget that ``approximate`` takes.

        Where the screening strategy insists on its terms, they need as many rows: pairs for the odd
        ones under paired sampling (even ones do not touch them), coalitions otherwise.
        """
        screener = self._resolved()
        fixed = self._fixed_terms(screener)
        if not fixed:
            return 2
        if self.paired:
            odd = screener.n_terms(self.n, parity="odd") or 0
            even = (screener.n_terms(self.n, parity="even") or 0) if self.max_order > 1 else 0
            return 2 * max(self.n + min(odd, fixed), even + 1)
        return self.n + fixed + 1

    def _n_terms(self, screener: Screener) -> int | None:
        """Return how many higher-order terms the strategy insists on, whatever is allowed."""
        return screener.n_terms(self.n, parity=self.parity)

    def _fixed_terms(self, screener: Screener) -> int:
        """Return how many higher-order terms the screening strategy insists on, zero if none."""
        terms = self._n_terms(screener) or 0
        return terms if self.max_interactions is None else min(terms, self.max_interactions)

    def _refusal(self, budget: int, required: int) -> str:
        """Name the terms of a support that the budget has no rows for."""
        message, screener = super()._refusal(budget, required), self._resolved()
        fixed = self._fixed_terms(screener)
        if not fixed:
            return message
        return (
            f"{message[:-1]} or choose fewer terms: the screener {screener.name!r} puts "
            f"{self.n + fixed} into the regression."
        )

    def _screen(self, sample: Sample, screener: Screener, rng: np.random.Generator) -> np.ndarray:
        """Return the higher-order terms of the regression, as many as the budget allows."""
        count = max(ceil(len(sample.values) / self.interaction_factor) - self.n, 0)
        count = self._fixed_terms(screener) or count
        if self.max_interactions is not None:
            count = min(count, self.max_interactions)
        return self._usable(sample, screener, rng, count, self.parity)

    def _screen_even(
        self, sample: Sample, screener: Screener, rng: np.random.Generator
    ) -> np.ndarray:
        """Return the terms of the even regression: twice as many as of the odd one.

        There are more pairs than players, and what the terms miss is estimated too.
        """
        count = ceil(2 * len(sample.values) / self.interaction_factor)
        if self.max_interactions is not None:
            count = min(count, self.max_interactions)
        count = screener.n_terms(self.n, parity="even") or count
        return self._usable(sample, screener, rng, count, "even")

    def _usable(
        self,
        sample: Sample,
        screener: Screener,
        rng: np.random.Generator,
        count: int,
        parity: Parity,
    ) -> np.ndarray:
        """Return what a strategy screens and a regression can hold, at most ``count`` terms."""
        if count == 0:
            return np.zeros((0, self.n), dtype=bool)
        terms = screener.screen(sample, count, rng, parity=parity)
        return usable_terms(terms, self.n, parity=parity, name=screener.name)[:count]


class OddSHAP(FourierRegression):
    r"""OddSHAP: regression of the odd component on screened odd Fourier terms.

    Shapley values depend on the odd part of a game alone (Fumagalli et al., *An Odd Estimator for
    Shapley Values*, ICML 2026). Algorithm 1 of the paper:

    1. Sample coalitions in complementary pairs, equally many per size, without replacement.
    2. Screen the higher-order odd Fourier terms that matter, by default those of the largest
       coefficients of a gradient-boosted proxy (ProxySPEX).
    3. Regress f_odd(S) = (f(S) - f(Sᶜ)) / 2 on the singletons and these terms, under the exact
       efficiency constraint, one row per pair.
    4. Read the Shapley values off: φ_i = -2 Σ_{T∋i} β_T / |T|.

    Note:
        Departures from the paper, measured in ``docs/oddshap.md``; :meth:`paper` has none of them.
        While evaluations are few there are more of the smallest and largest coalitions, and which
        pairs is chosen, not drawn. The proxy that screens has more and smaller trees and is fitted
        to what the regression on singletons leaves, not to the values.
        Functions of the coalitions' size may join the terms (``size_effects``), and the Shapley
        values of what the regression leaves over are added. Below 20n evaluations the regression,
        trees and the odd process are averaged by their errors at pairs left out (``low_budget``).

    Examples:
        >>> import numpy as np
        >>> game = lambda coalitions: coalitions @ np.arange(8.0)
        >>> values = OddSHAP(n=8, random_state=42).approximate(budget=100, game=game)
        >>> np.allclose(values.get_n_order_values(1), np.arange(8))
        True

    See Also:
        - :class:`~shapiq_oddshap.PairedAllSHAP`, :class:`~shapiq_oddshap.UnpairedOddSHAP` and
          :class:`~shapiq_oddshap.UnpairedAllSHAP`: its ablations.
    """

    paired = True
    parity = "odd"
    offered = {1: ("SV",), 2: ("SII", "k-SII")}  # noqa: RUF012


def _proxy_params(screener: Screener) -> list[Mapping[str, Any]]:
    """Return the parameters of all proxies of a strategy, those within a union too."""
    if isinstance(screener, TermUnion):
        return [params for each in screener.screeners for params in _proxy_params(each)]
    proxy = screener.proxy
    return [] if proxy is None or proxy.params is None else [proxy.params]


def _facts(path: str, fit: Fit | None, n_terms: int, screener: str | None = None) -> FitFacts:
    """Return what a regression tells of itself."""
    if fit is None:
        return FitFacts(path=path)
    return FitFacts(
        path=path,
        screener=screener,
        n_terms=n_terms,
        solver=fit.solver,
        condition=fit.condition,
        details={"size_columns": float(fit.size_columns)},
    )
