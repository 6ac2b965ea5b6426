"""What is read off which component: Shapley values off the odd one, pairwise interactions off the even.

The fit is the same for both; this is all in which they differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.fourier import pair_indices, singletons
from shapiq_oddshap.gp.correction import (
    Strata,
    msr_correction,
    msr_variances,
    pair_correction,
    pair_shares,
    pair_variances,
)

if TYPE_CHECKING:
    from typing import ClassVar

    from shapiq_oddshap.gp.parts import Part
    from shapiq_oddshap.gp.posterior import Posterior
    from shapiq_oddshap.gp.recipe import OddGPRecipe
    from shapiq_oddshap.sample import Parity

__all__ = ["PAIRWISE", "SHAPLEY_VALUES", "Readout"]


class Readout(ABC):
    """An index, and the component of the game that it depends on."""

    parity: ClassVar[Parity]
    simplest: ClassVar[str]
    """What a game of nothing but :meth:`simplest_terms` is called."""
    shrinks: ClassVar[bool] = False
    """Whether the correction is added as far as it is more than noise; see :meth:`credibility`."""

    @abstractmethod
    def count(self, n: int) -> int:
        """Return how many values there are."""

    @abstractmethod
    def parts(self, recipe: OddGPRecipe) -> tuple[type[Part], ...]:
        """Return the parts of the kernel."""

    @abstractmethod
    def values(self, posterior: Posterior) -> np.ndarray:
        """Return the values of the posterior mean."""

    @abstractmethod
    def variances(self, posterior: Posterior) -> np.ndarray:
        """Return their posterior variances."""

    @abstractmethod
    def correction(
        self, coalitions: np.ndarray, residuals: np.ndarray, strata: Strata
    ) -> np.ndarray:
        """Return the values of what the model left over, estimated per size."""

    @abstractmethod
    def sampling_variances(
        self, coalitions: np.ndarray, errors: np.ndarray, strata: Strata
    ) -> np.ndarray:
        """Return the sampling variances of that."""

    def credibility(self, correction: np.ndarray, variances: np.ndarray) -> float:
        """Return what share of the correction is added, given its sampling variances."""
        del correction, variances
        return 1.0

    @abstractmethod
    def mean_squares(self, strata: Strata) -> np.ndarray:
        """Return the mean over all coalitions of a row's size of its squared weight, ``(m,)``."""

    @abstractmethod
    def base_terms(self, n: int) -> np.ndarray:
        """Return the terms that every sparse game is taken to have, shape ``(t, n)``."""

    @abstractmethod
    def simplest_terms(self, n: int) -> np.ndarray:
        """Return the terms of the simplest games, shape ``(t, n)``."""

    @abstractmethod
    def functionals(self, terms: np.ndarray) -> np.ndarray:
        """Return the values of every term with coefficient one, a row per term."""

    def complete(self, values: np.ndarray, total: float) -> np.ndarray:
        """Return the values with what must hold of them exactly."""
        del total
        return values


class _ShapleyValues(Readout):
    """Shapley values, which sum to the total."""

    parity = "odd"
    simplest = "additive"

    def count(self, n: int) -> int:
        return n

    def parts(self, recipe: OddGPRecipe) -> tuple[type[Part], ...]:
        return recipe.parts

    def values(self, posterior: Posterior) -> np.ndarray:
        return posterior.shapley_values()

    def variances(self, posterior: Posterior) -> np.ndarray:
        return posterior.shapley_variances()

    def correction(
        self, coalitions: np.ndarray, residuals: np.ndarray, strata: Strata
    ) -> np.ndarray:
        return msr_correction(coalitions, residuals, strata)

    def sampling_variances(
        self, coalitions: np.ndarray, errors: np.ndarray, strata: Strata
    ) -> np.ndarray:
        return msr_variances(coalitions, errors, strata)

    def mean_squares(self, strata: Strata) -> np.ndarray:
        squares: np.ndarray = strata.factor**2 / (strata.sizes * (strata.n - strata.sizes))
        return squares

    def base_terms(self, n: int) -> np.ndarray:
        return singletons(n)

    def simplest_terms(self, n: int) -> np.ndarray:
        return singletons(n)

    def functionals(self, terms: np.ndarray) -> np.ndarray:
        return -2.0 / terms.sum(axis=1)[:, None] * terms

    def complete(self, values: np.ndarray, total: float) -> np.ndarray:
        """Spread what is missing to the total evenly."""
        return values + (total - values.sum()) / len(values)


class _Pairwise(Readout):
    """The pairwise Shapley interactions, in the order of ``pair_indices``."""

    parity = "even"
    simplest = "pairwise"
    shrinks = True

    def count(self, n: int) -> int:
        return n * (n - 1) // 2

    def parts(self, recipe: OddGPRecipe) -> tuple[type[Part], ...]:
        return recipe.even_parts

    def values(self, posterior: Posterior) -> np.ndarray:
        return posterior.pairwise_interactions()

    def variances(self, posterior: Posterior) -> np.ndarray:
        return posterior.pairwise_variances()

    def correction(
        self, coalitions: np.ndarray, residuals: np.ndarray, strata: Strata
    ) -> np.ndarray:
        return pair_correction(coalitions, residuals, strata)

    def sampling_variances(
        self, coalitions: np.ndarray, errors: np.ndarray, strata: Strata
    ) -> np.ndarray:
        return pair_variances(coalitions, errors, strata)

    def credibility(self, correction: np.ndarray, variances: np.ndarray) -> float:
        """Return James and Stein's share, see :class:`Readout`.

        A pair is held whole or not at all by few coalitions of a size, and there are many pairs: what
        noise alone would make of the correction may be most of it.
        """
        energy = float(correction @ correction)
        return max(1.0 - float(variances.sum()) / energy, 0.0) if energy > 0.0 else 1.0

    def mean_squares(self, strata: Strata) -> np.ndarray:
        shares = pair_shares(strata)
        squares = np.array([[1.0], [4.0], [1.0]])
        inverse = np.divide(squares, shares, out=np.zeros_like(shares), where=shares > 0)
        return inverse.sum(axis=0) * (strata.factor / (strata.n - 1)) ** 2

    def base_terms(self, n: int) -> np.ndarray:
        """Return the constant; see :class:`Readout`."""
        return np.zeros((1, n), dtype=bool)

    def simplest_terms(self, n: int) -> np.ndarray:
        """Return the constant and all pairs; see :class:`Readout`."""
        rows = np.zeros((1 + self.count(n), n), dtype=bool)
        np.put_along_axis(rows[1:], np.column_stack(pair_indices(n)), values=True, axis=1)
        return rows

    def functionals(self, terms: np.ndarray) -> np.ndarray:
        first, second = pair_indices(terms.shape[1])
        orders = terms.sum(axis=1, keepdims=True)
        return 4.0 / np.maximum(orders - 1.0, 1.0) * (terms[:, first] & terms[:, second])


SHAPLEY_VALUES: Readout = _ShapleyValues()
PAIRWISE: Readout = _Pairwise()
