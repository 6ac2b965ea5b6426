"""OddSHAP: the paper's Algorithm 1, by composing the stages."""

from __future__ import annotations

import copy
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from shapiq.approximator.sampling import CoalitionSampler

from shapiq_oddshap import fourier, trees
from shapiq_oddshap.approximators.base import Estimate, Run, ShapleyApproximator
from shapiq_oddshap.checks import as_integer
from shapiq_oddshap.regression import constrained_least_squares, leave_one_out_error
from shapiq_oddshap.sampling import (
    OddRows,
    PairedCoalitionSampler,
    Sample,
    UnpairedCoalitionSampler,
    distinct_rows,
    row_weights,
    size_weights,
)
from shapiq_oddshap.screening import ProxySPEX, Screener, resolve_screener, usable_terms

if TYPE_CHECKING:
    from collections.abc import Mapping


__all__ = ["FourierRegression", "OddSHAP"]

LowBudget = Literal["auto", "proxy", "linear"]
_FOLDS = 5


class FourierRegression(ShapleyApproximator):
    """Paired or unpaired sampling × odd or all terms: OddSHAP and its ablations.

    Subclasses choose by two class attributes; the stages are the same.

    Attributes:
        paired: Whether coalitions come with their complements.
        odd_only: Whether the regression holds odd terms only.
    """

    paired: bool
    odd_only: bool

    def __init__(
        self,
        n: int,
        *,
        interaction_factor: float = 10,
        max_interactions: int | None = None,
        screener: str | Screener = "proxyspex",
        low_budget: LowBudget = "auto",
        proxy_params: Mapping[str, Any] | None = None,
        sampler: CoalitionSampler | None = None,
        max_order: int = 1,
        index: str = "SV",
        random_state: int | None = None,
    ) -> None:
        """Initialize the approximator.

        Args:
            n: The number of players.
            interaction_factor: η, evaluations per regression term; ⌈m/η⌉ - n higher-order terms
                join the n singletons.
            max_interactions: At most so many higher-order terms, which bounds the cost at large
                budgets; ``None`` for no bound.
            screener: Which terms: a name of ``shapiq_oddshap.SCREENERS`` or an instance.
            low_budget: Below η·n evaluations: ``"proxy"`` takes the Shapley values of the
                gradient-boosted proxy (the paper), ``"linear"`` the regression on singletons,
                ``"auto"`` the one with the smaller cross-validated error on the same sample.
            proxy_params: LightGBM parameters that replace the paper's, of the screener
                ``"proxyspex"`` (not within a union) and of the proxy below η·n evaluations.
                Gradients are quantised unless ``use_quantized_grad=False`` is among them, or one that
                is not about the number, the size or the shrinkage of the trees.
            sampler: One of shapiq's coalition samplers instead of the own; it is copied and
                seeded with ``random_state`` for every run.
            max_order: 1; shapiq's explainers pass it.
            index: ``"SV"``; shapiq's explainers pass it.
            random_state: The seed; ``None`` takes fresh entropy for every run.

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If an argument is out of its range.
        """
        super().__init__(n, max_order=max_order, index=index, random_state=random_state)
        if isinstance(interaction_factor, bool) or not isinstance(
            interaction_factor, int | float | np.number
        ):
            msg = f"Received interaction_factor={interaction_factor!r}, but a number is required."
            raise TypeError(msg)
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
        if low_budget not in ("auto", "proxy", "linear"):
            msg = (
                f"Received low_budget={low_budget!r}, but 'auto', 'proxy' or 'linear' is required."
            )
            raise ValueError(msg)
        if not isinstance(sampler, CoalitionSampler | None):
            msg = f"Received sampler={sampler!r}, but an instance of CoalitionSampler is required."
            raise TypeError(msg)
        if sampler is not None and sampler.n != n:
            msg = f"Received a sampler of {sampler.n} players, but one of {n} is required."
            raise ValueError(msg)
        self.interaction_factor = interaction_factor
        self.max_interactions = max_interactions
        self.screener = screener
        self.low_budget = low_budget
        self.proxy_params = None if proxy_params is None else trees.checked_params(proxy_params)
        self.sampler = sampler
        self._strategy = resolve_screener(screener)
        self._proxy_params: Mapping[str, Any] | None = self.proxy_params
        if isinstance(self._strategy, ProxySPEX) and self._strategy.model is None:
            self._proxy_params = self._strategy.params or self.proxy_params
            self._strategy = replace(self._strategy, params=self._proxy_params)

    def _estimate(self, run: Run) -> Estimate:
        """Sample, screen, regress (paper, Algorithm 1)."""
        screener = self._strategy.prepare(self.n, run.budget - 2, run.rng)
        sample = self._sample(run, screener.coalitions(self.n))
        m, n = len(sample.values), self.n
        if np.ptp(sample.values) == 0:
            return Estimate(np.zeros(n), path="constant")
        path = "regression"
        details: dict[str, float] = {}
        if m < self.interaction_factor * n and not self._fixed_terms():
            path, details = self._low_budget_path(run, sample)
        if path == "proxy":
            with run.clock("proxy"):
                phi = self._proxy_shapley(run, sample)
            return Estimate(phi, path, details=details)
        interactions = np.zeros((0, n), dtype=bool)
        if path == "regression":
            with run.clock("screening"):
                interactions = self._screen(run, sample, screener)
        with run.clock("regression"):
            terms = np.concatenate([fourier.singletons(n), interactions])
            phi, solver, condition = self._regress(sample, terms)
        name = self._strategy.name if path == "regression" else None
        return Estimate(phi, path, name, len(terms), solver, condition, details)

    def required_budget(self) -> int:
        """Return the smallest budget that ``approximate`` takes.

        Where the screening strategy insists on its terms, they need as many rows: pairs for the odd
        ones under paired sampling (even ones do not touch them), coalitions otherwise.
        """
        if not self._fixed_terms():
            return 2
        if self.paired:
            odd = self._strategy.n_terms(self.n, odd_only=True) or 0
            return 2 * (self.n + min(odd, self._fixed_terms()))
        return self.n + self._fixed_terms() + 1

    def _fixed_terms(self) -> int:
        """Return how many higher-order terms the screening strategy insists on, zero if none."""
        terms = self._strategy.n_terms(self.n, odd_only=self.odd_only) or 0
        return terms if self.max_interactions is None else min(terms, self.max_interactions)

    def _refusal(self, budget: int, required: int) -> str:
        """Name the terms of a support that the budget has no rows for."""
        message = super()._refusal(budget, required)
        if not self._fixed_terms():
            return message
        return (
            f"{message[:-1]} or choose fewer terms: the screener {self._strategy.name!r} puts "
            f"{self.n + self._fixed_terms()} into the regression."
        )

    def _sample(self, run: Run, own: np.ndarray) -> Sample:
        """Draw coalitions, ``own`` of the screening strategy among them, and evaluate them."""
        with run.clock("sampling"):
            sampler = copy.deepcopy(self.sampler)
            if sampler is None:
                kind = PairedCoalitionSampler if self.paired else UnpairedCoalitionSampler
                sampler = kind(self.n)
            sampler.set_random_state(int(run.rng.integers(2**63)))
            sampler.sample(run.budget - len(own))
            coalitions, weights = _boundary_first(sampler.coalitions_matrix, row_weights(sampler))
            if len(own):
                coalitions = distinct_rows(np.concatenate([coalitions, own]))
                weights = size_weights(coalitions)
        values = run.evaluate(coalitions)
        for array in (coalitions, values, weights):
            array.flags.writeable = False  # screening strategies may be anyone's
        return Sample(coalitions, values, weights)

    def _screen(self, run: Run, sample: Sample, screener: Screener) -> np.ndarray:
        """Return the higher-order terms of the regression, as many as the budget allows."""
        count = max(ceil(len(sample.values) / self.interaction_factor) - self.n, 0)
        count = self._fixed_terms() or count
        if self.max_interactions is not None:
            count = min(count, self.max_interactions)
        if count == 0:
            return np.zeros((0, self.n), dtype=bool)
        terms = screener.screen(sample, count, run.rng, odd_only=self.odd_only)
        return usable_terms(terms, self.n, odd_only=self.odd_only, name=screener.name)[:count]

    def _low_budget_path(self, run: Run, sample: Sample) -> tuple[str, dict[str, float]]:
        """Choose between proxy and linear regression where terms outnumber the budget."""
        if self._strategy.n_terms(self.n, odd_only=self.odd_only) == 0:
            return "linear", {}
        if self.low_budget != "auto":
            return self.low_budget, {}
        with run.clock("selection"):
            rows = sample.odd_rows
            linear = leave_one_out_error(
                rows.coalitions, rows.targets, rows.weights, -sample.total / 2
            )
            proxy = self._proxy_error(run, sample, rows)
        details = {"linear_error": linear, "proxy_error": proxy}
        return ("linear" if linear <= proxy else "proxy"), details

    def _proxy_error(self, run: Run, sample: Sample, rows: OddRows) -> float:
        """Return the proxy's weighted mean squared error on the odd component, cross-validated."""
        count = len(rows.targets)
        if count < 2:
            return np.inf
        folds = run.rng.permutation(count) % min(_FOLDS, count)
        errors = np.zeros(count)
        seed = int(run.rng.integers(2**31))
        fold_of = np.concatenate([[-1, -1], folds[rows.members]])  # ∅ and [n] are in all
        for fold in range(folds.max() + 1):
            kept, left = fold_of != fold, folds == fold
            leaves = trees.fit_proxy(
                sample.coalitions[kept], sample.values[kept], self._proxy_params, seed
            )
            out = rows.coalitions[left]
            odd = (trees.predict(leaves, out) - trees.predict(leaves, ~out)) / 2
            errors[left] = rows.targets[left] - odd
        return float(np.sum(rows.weights * errors**2) / np.sum(rows.weights))

    def _proxy_shapley(self, run: Run, sample: Sample) -> np.ndarray:
        """Return the proxy's Shapley values; what they miss of the total is spread evenly."""
        seed = int(run.rng.integers(2**31))
        leaves = trees.fit_proxy(sample.coalitions, sample.values, self._proxy_params, seed)
        phi = trees.shapley_values(leaves)
        return phi + (sample.total - phi.sum()) / self.n

    def _regress(self, sample: Sample, terms: np.ndarray) -> tuple[np.ndarray, str, float | None]:
        """Solve the constrained regression on ``terms`` and read the Shapley values off."""
        corner = None
        if self.odd_only:
            odd = sample.odd_rows
            rows, corner = (odd.coalitions, odd.targets, odd.weights), odd.singletons_gram
            constraints, totals = np.ones((1, len(terms))), np.array([-sample.total / 2])
        else:
            # centred at f(∅), where the even part of the constraints is worth total / 2
            terms = np.concatenate([np.zeros((1, self.n), dtype=bool), terms])
            centred = sample.values[2:] - sample.empty_value
            rows = (sample.coalitions[2:], centred, sample.weights[2:])
            is_odd = terms.sum(axis=1) % 2 == 1
            constraints = np.array([is_odd, ~is_odd], dtype=float)
            totals = np.array([-sample.total / 2, sample.total / 2])
        fit = constrained_least_squares(terms, *rows, constraints, totals, corner)
        return fourier.shapley_values(fit.coefficients, terms), fit.solver, fit.condition


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
        Departures from the paper. The number of pairs per size is fixed, not random. The proxy that
        screens is fitted to what the regression on singletons leaves, not to the values. Below η·n
        evaluations, where the paper takes the proxy's values, ``low_budget="auto"`` compares them
        with the regression on singletons, by cross-validation on the sample at hand: leave-one-out
        in closed form for the regression, five folds for the proxy. And the proxy's values are made
        efficient, by spreading evenly what they miss of f([n]) - f(∅).

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
    odd_only = True


def _boundary_first(coalitions: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Put the empty and the grand coalition first, in that order."""
    sizes = coalitions.sum(axis=1)
    rank = np.where(sizes == 0, 0, np.where(sizes == coalitions.shape[1], 1, 2))
    order = np.argsort(rank, kind="stable")
    return coalitions[order], weights[order]
