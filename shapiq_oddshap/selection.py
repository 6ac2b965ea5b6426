"""Several estimators of one sample, averaged by how well each predicts what it has not seen."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from shapiq_oddshap import fourier, trees
from shapiq_oddshap.gp.correction import Strata, msr_correction
from shapiq_oddshap.process import fit_process
from shapiq_oddshap.proxy import TreeProxy
from shapiq_oddshap.regression import fit_terms, leave_one_out_error, ridge_with_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shapiq_oddshap.regression import Fit, SizeEffects
    from shapiq_oddshap.sample import Parity, Sample

__all__ = [
    "Candidate",
    "Linear",
    "Opinion",
    "Process",
    "Proxy",
    "Regression",
    "SmallLeaves",
    "averaged",
]

_FOLDS = 5
_PAIRS_PER_PLAYER = 1.5
"""Pairs per player from which the regression without shrinkage is to be trusted."""
_EXACT = 1e-9
"""Of the error of a regression with shrinkage: a smaller one is the rounding of an exact one."""


SMALL_LEAVES: dict[str, Any] = {
    "learning_rate": 0.3,
    "max_depth": 6,
    "num_leaves": 64,
    "min_data_in_leaf": 1,
    "min_sum_hessian_in_leaf": 1.0,
    "lambda_l2": 1.0,
    "use_quantized_grad": False,
}
"""XGBoost's defaults in LightGBM's terms, whose own cannot split fewer than 40 coalitions."""


@dataclass(frozen=True)
class Opinion:
    """What a candidate makes of a sample.

    Attributes:
        values: Shapley values, shape ``(n,)``; they sum to the total.
        error: Mean squared error at pairs that it has not seen, infinite if that is unknown.
        fit: The regression if there is one.
    """

    values: np.ndarray
    error: float
    fit: Fit | None = field(default=None)


class Candidate(Protocol):
    """An estimator that can tell from a sample how well it predicts the odd component."""

    @property
    def name(self) -> str:
        """What the run's path is called if it is taken."""

    def opinion(self, sample: Sample, rng: np.random.Generator) -> Opinion:
        """Return the Shapley values and the error at pairs left out."""


@dataclass(frozen=True)
class Linear:
    """The regression on singletons.

    Attributes:
        parity: ``"both"`` takes the coalitions as rows, and a constant along.
        sizes: Whether functions of the size may join, with as much shrinkage as pays.
    """

    parity: Parity = "odd"
    sizes: bool = False
    name = "linear"

    def opinion(self, sample: Sample, rng: np.random.Generator) -> Opinion:
        """Return the values and the leave-one-out error, in closed form; see :class:`Candidate`."""
        del rng
        rows = sample.component("odd")
        error = leave_one_out_error(rows.coalitions, rows.targets, rows.weights, -sample.total / 2)
        if self.sizes:
            ridge = ridge_with_sizes(sample)
            # little more than n pairs nearly interpolate: all they can tell is a game that is linear
            few = len(rows.targets) < _PAIRS_PER_PLAYER * sample.n
            if ridge.error < error or (few and error > _EXACT * ridge.error):
                return _read(ridge, ridge.error)
        return _read(fit_terms(sample, fourier.sparse_singletons(sample.n), self.parity), error)


@dataclass(frozen=True)
class Regression:
    """The regression on singletons and screened terms.

    Attributes:
        terms: The terms, the singletons first, shape ``(n_terms, n)``.
        parity: Which terms they are.
        size_effects: Whether functions of the size may join.
    """

    terms: np.ndarray
    parity: Parity
    size_effects: SizeEffects
    name = "regression"

    def opinion(self, sample: Sample, rng: np.random.Generator) -> Opinion:
        """Return the values and the error by generalised cross-validation; see :class:`Candidate`."""
        del rng
        fit = fit_terms(sample, self.terms, self.parity, self.size_effects)
        return _read(fit, fit.error)


def _read(fit: Fit, error: float) -> Opinion:
    """Return the opinion of a regression."""
    return Opinion(fourier.shapley_values(fit.coefficients, fit.terms), error, fit)


@dataclass(frozen=True)
class Proxy:
    """The gradient-boosted trees' own Shapley values (the paper's choice).

    Attributes:
        trees: How they are fitted.
    """

    trees: TreeProxy = field(default_factory=TreeProxy)
    name = "proxy"

    def opinion(self, sample: Sample, rng: np.random.Generator) -> Opinion:
        """Return the values; what they miss of the total is spread evenly."""
        seed = int(rng.integers(2**31))
        leaves = self.trees.fit(sample.coalitions, sample.values, seed)
        return Opinion(_efficient(trees.shapley_values(leaves), sample), np.inf)


@dataclass(frozen=True)
class SmallLeaves:
    """Trees that may split few coalitions, corrected by what they leave over.

    The Shapley values of their residuals are estimated size by size and added (RegressionMSR; Witter
    et al., 2025).

    Attributes:
        trees: How they are fitted: LightGBM's have ``SMALL_LEAVES`` where nothing else is said.
    """

    trees: TreeProxy = field(default_factory=TreeProxy)
    name = "proxy"

    def opinion(self, sample: Sample, rng: np.random.Generator) -> Opinion:
        """Return the values and the five-fold error over pairs; see :class:`Candidate`."""
        rows = sample.component("odd")
        count = len(rows.targets)
        seed = int(rng.integers(2**31))
        folds = rng.permutation(count) % max(min(_FOLDS, count), 1)
        values, residuals = self._fitted(sample, np.ones(count, dtype=bool), seed)
        values = values + msr_correction(rows.coalitions, residuals, Strata.of(rows.coalitions))
        if count < 2:
            return Opinion(_efficient(values, sample), np.inf)
        errors = np.empty(count)
        for fold in range(folds.max() + 1):
            left = folds == fold
            errors[left] = self._fitted(sample, ~left, seed)[1][left]
        return Opinion(_efficient(values, sample), float(np.mean(errors**2)))

    def _fitted(self, sample: Sample, kept: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the Shapley values of trees on some pairs, and the residuals of all pairs."""
        rows, proxy = sample.component("odd"), self.trees
        if proxy.model is None:
            proxy = replace(proxy, params=SMALL_LEAVES | dict(proxy.params or {}))
        chosen = np.concatenate([[True, True], kept[rows.members]])  # ∅ and [n] are in all
        leaves = proxy.fit(sample.coalitions[chosen], sample.values[chosen], seed)
        there, back = (trees.predict(leaves, c) for c in (rows.coalitions, ~rows.coalitions))
        return trees.shapley_values(leaves), rows.targets - (there - back) / 2


@dataclass(frozen=True)
class Process:
    """The odd Gaussian process, which is cheap where pairs are few."""

    name = "process"

    def opinion(self, sample: Sample, rng: np.random.Generator) -> Opinion:
        """Return the values and the leave-one-out error, in closed form; see :class:`Candidate`."""
        fit = fit_process(sample, rng)
        return Opinion(fit.values, fit.error)


def _efficient(values: np.ndarray, sample: Sample) -> np.ndarray:
    """Spread what is missing to the total evenly."""
    return values + (sample.total - values.sum()) / sample.n


def averaged(
    candidates: Sequence[Candidate], sample: Sample, rng: np.random.Generator
) -> tuple[np.ndarray, dict[str, Opinion], dict[str, float]]:
    """Return the mean of the candidates' values, weighted by their errors at pairs left out.

    Args:
        candidates: The candidates, of different names.
        sample: Evaluated coalitions.
        rng: The run's generator, drawn from in the order of the candidates.

    Returns:
        The values, the opinions by name (in a unit of the game's own, so that no square overflows),
        and their weights and the roots of their errors by name.
    """
    # a power of two changes no digit
    exponent = np.frexp(np.abs(sample.values - sample.empty_value).max())[1] - 1
    unit = 2.0 ** int(exponent)
    scaled = replace(sample, values=(sample.values - sample.empty_value) / unit)
    opinions = {each.name: each.opinion(scaled, rng) for each in candidates}
    errors = np.array([opinion.error for opinion in opinions.values()])
    least = errors.min()
    if not np.isfinite(least):
        weights = np.ones(len(errors))
    else:
        with np.errstate(invalid="ignore"):  # 0 / 0 is the weight of an exact candidate
            weights = np.nan_to_num(least / errors, nan=1.0)
        # errors of a few folds have no more digits than these; further ones would let the rounding
        # of games of large values through to the weights
        weights = np.array([float(f"{weight:.3g}") for weight in weights])
    weights /= weights.sum()
    values = sum(w * opinion.values for w, opinion in zip(weights, opinions.values(), strict=True))
    details = {
        f"{name}_error": float(np.sqrt(opinion.error) * unit) for name, opinion in opinions.items()
    }
    details |= {f"{name}_weight": float(w) for name, w in zip(opinions, weights, strict=True)}
    return np.asarray(values) * unit, opinions, details
