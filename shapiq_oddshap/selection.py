"""Which estimator where the budget is small: the candidate of the least cross-validated error."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from shapiq_oddshap import fourier, trees
from shapiq_oddshap.proxy import TreeProxy
from shapiq_oddshap.regression import fit_terms, leave_one_out_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shapiq_oddshap.regression import Fit
    from shapiq_oddshap.sample import Parity, Sample

__all__ = ["Candidate", "Linear", "Proxy", "least_error"]

_FOLDS = 5


class Candidate(Protocol):
    """An estimator that can tell from a sample how well it predicts the odd component."""

    @property
    def name(self) -> str:
        """What the run's path is called if it is taken."""

    def error(self, sample: Sample, rng: np.random.Generator) -> float:
        """Return the weighted mean squared error on pairs left out, infinite if it is unknown."""

    def shapley_values(
        self, sample: Sample, rng: np.random.Generator
    ) -> tuple[np.ndarray, Fit | None]:
        """Return the Shapley values, shape ``(n,)``, and the regression if there is one."""


@dataclass(frozen=True)
class Linear:
    """The regression on singletons.

    Attributes:
        parity: ``"both"`` takes the coalitions as rows, and a constant along.
    """

    parity: Parity = "odd"
    name = "linear"

    def error(self, sample: Sample, rng: np.random.Generator) -> float:
        """Return the leave-one-out error, in closed form; see :class:`Candidate`."""
        del rng
        rows = sample.component("odd")
        return leave_one_out_error(rows.coalitions, rows.targets, rows.weights, -sample.total / 2)

    def shapley_values(self, sample: Sample, rng: np.random.Generator) -> tuple[np.ndarray, Fit]:
        """Return the values and the regression; see :class:`Candidate`."""
        del rng
        fit = fit_terms(sample, fourier.singletons(sample.n), self.parity)
        return -2.0 * fit.coefficients[-sample.n :], fit  # behind the constant, if there is one


@dataclass(frozen=True)
class Proxy:
    """The gradient-boosted trees' own Shapley values (the paper's choice).

    Attributes:
        trees: How they are fitted.
    """

    trees: TreeProxy = field(default_factory=TreeProxy)
    name = "proxy"

    def error(self, sample: Sample, rng: np.random.Generator) -> float:
        """Return the five-fold error over pairs; see :class:`Candidate`."""
        rows = sample.component("odd")
        count = len(rows.targets)
        if count < 2:
            return np.inf
        folds = rng.permutation(count) % min(_FOLDS, count)
        errors = np.zeros(count)
        seed = int(rng.integers(2**31))
        fold_of = np.concatenate([[-1, -1], folds[rows.members]])  # ∅ and [n] are in all
        for fold in range(folds.max() + 1):
            kept, left = fold_of != fold, folds == fold
            leaves = self.trees.fit(sample.coalitions[kept], sample.values[kept], seed)
            out = rows.coalitions[left]
            odd = (trees.predict(leaves, out) - trees.predict(leaves, ~out)) / 2
            errors[left] = rows.targets[left] - odd
        return float(np.sum(rows.weights * errors**2) / np.sum(rows.weights))

    def shapley_values(self, sample: Sample, rng: np.random.Generator) -> tuple[np.ndarray, None]:
        """Return the values; what they miss of the total is spread evenly."""
        seed = int(rng.integers(2**31))
        leaves = self.trees.fit(sample.coalitions, sample.values, seed)
        phi = trees.shapley_values(leaves)
        return phi + (sample.total - phi.sum()) / sample.n, None


def least_error(
    candidates: Sequence[Candidate], sample: Sample, rng: np.random.Generator
) -> tuple[Candidate, dict[str, float]]:
    """Return the candidate of the least error, the first of equals, and all errors by name.

    Args:
        candidates: The candidates, of different names.
        sample: Evaluated coalitions.
        rng: The run's generator, drawn from in the order of the candidates.
    """
    errors = [candidate.error(sample, rng) for candidate in candidates]
    names = [f"{candidate.name}_error" for candidate in candidates]
    return candidates[int(np.argmin(errors))], dict(zip(names, errors, strict=True))
