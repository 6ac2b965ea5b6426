"""What is read off which component: Shapley values and triples off the odd one, pairs off the even.

The fit is the same for both; this is all in which they differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import reduce
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.fourier import carrying_terms, singletons, subsets
from shapiq_oddshap.gp.correction import (
    Strata,
    correction,
    correction_variances,
    msr_correction,
    msr_variances,
    overlap_shares,
)
from shapiq_oddshap.gp.signs import characters, signs

if TYPE_CHECKING:
    from typing import ClassVar

    from shapiq_oddshap.gp.parts import Part
    from shapiq_oddshap.gp.posterior import Posterior
    from shapiq_oddshap.gp.recipe import OddGPRecipe
    from shapiq_oddshap.sample import Parity

__all__ = ["PAIRWISE", "SHAPLEY_VALUES", "TRIPLEWISE", "OddValues", "Readout"]


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

    def single_squares(self) -> np.ndarray | float:
        """Return the squared weights of values whose own noise is read too, as sampled or not."""
        return 0.0

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


@dataclass(frozen=True)
class _Interactions(Readout):
    """The Shapley interactions of an order from two on, in the order of ``subsets``.

    Of even order they lead a fit; of odd order they are read off that of the Shapley values, and are
    not asked for its terms.
    """

    order: int
    simplest = "pairwise"
    shrinks = True

    @property
    def parity(self) -> Parity:  # type: ignore[override]
        """The parity of the order; see :class:`Readout`."""
        return "odd" if self.order % 2 else "even"

    def count(self, n: int) -> int:
        return comb(n, self.order)

    def parts(self, recipe: OddGPRecipe) -> tuple[type[Part], ...]:
        return recipe.parts if self.order % 2 else recipe.even_parts

    def values(self, posterior: Posterior) -> np.ndarray:
        return posterior.interactions(self.order)

    def variances(self, posterior: Posterior) -> np.ndarray:
        return posterior.interaction_variances(self.order)

    def correction(
        self, coalitions: np.ndarray, residuals: np.ndarray, strata: Strata
    ) -> np.ndarray:
        return correction(coalitions, residuals, strata, self.order)

    def sampling_variances(
        self, coalitions: np.ndarray, errors: np.ndarray, strata: Strata
    ) -> np.ndarray:
        return correction_variances(coalitions, errors, strata, self.order)

    def credibility(self, correction: np.ndarray, variances: np.ndarray) -> float:
        """Return James and Stein's share, see :class:`Readout`.

        A set is held whole or not at all by few coalitions of a size, and there are many sets: what
        noise alone would make of the correction may be most of it.
        """
        energy = float(correction @ correction)
        return max(1.0 - float(variances.sum()) / energy, 0.0) if energy > 0.0 else 1.0

    def mean_squares(self, strata: Strata) -> np.ndarray:
        shares = overlap_shares(strata, self.order)
        squares = np.array([[float(comb(self.order, held) ** 2)] for held in range(self.order + 1)])
        inverse = np.divide(squares, shares, out=np.zeros_like(shares), where=shares > 0)
        squares = inverse.sum(axis=0) * (strata.factor / (strata.n - self.order + 1)) ** 2
        return np.asarray(squares)

    def base_terms(self, n: int) -> np.ndarray:
        """Return the constant; see :class:`Readout`."""
        return np.zeros((1, n), dtype=bool)

    def simplest_terms(self, n: int) -> np.ndarray:
        """Return the constant and all pairs; see :class:`Readout`."""
        rows = np.zeros((1 + comb(n, 2), n), dtype=bool)
        np.put_along_axis(rows[1:], np.column_stack(subsets(n, 2)), values=True, axis=1)
        return rows

    def functionals(self, terms: np.ndarray) -> np.ndarray:
        carrying, divisors = carrying_terms(terms, self.order)
        shares = np.zeros((len(terms), 1))
        shares[carrying, 0] = (-2.0) ** self.order / divisors
        players = subsets(terms.shape[1], self.order)
        return shares * reduce(np.logical_and, [terms[:, each] for each in players])


@dataclass(frozen=True, eq=False)
class OddValues(_ShapleyValues):
    """Sums of odd values at some coalitions, with the Shapley values added or alone.

    Aggregated interactions are such sums. Their variances alone are asked for.

    Attributes:
        coalitions: Boolean rows, shape ``(c, n)``.
        weights: What the value at each counts, shape ``(r, c)``.
        shapley: Whether player i's Shapley value is added to row i, ``r = n``.
    """

    coalitions: np.ndarray
    weights: np.ndarray
    shapley: bool

    def count(self, n: int) -> int:
        """Return how many sums there are."""
        del n
        return len(self.weights)

    def values(self, posterior: Posterior) -> np.ndarray:
        """Return zeros: the values are aggregated from interactions, which :class:`Readout` tells."""
        del posterior
        return np.zeros(len(self.weights))

    def variances(self, posterior: Posterior) -> np.ndarray:
        """Return the posterior variances of the sums."""
        return posterior.variances_of(signs(self.coalitions), self.weights, shapley=self.shapley)

    def correction(
        self, coalitions: np.ndarray, residuals: np.ndarray, strata: Strata
    ) -> np.ndarray:
        """Return zeros, as :meth:`values`."""
        del coalitions, residuals, strata
        return np.zeros(len(self.weights))

    def sampling_variances(
        self, coalitions: np.ndarray, errors: np.ndarray, strata: Strata
    ) -> np.ndarray:
        """Return those of the Shapley values' correction; values at single coalitions have none."""
        if self.shapley:
            return super().sampling_variances(coalitions, errors, strata)
        return np.zeros(len(self.weights))

    def mean_squares(self, strata: Strata) -> np.ndarray:
        """Return those of the Shapley values, if they are added; see :class:`Readout`."""
        return super().mean_squares(strata) * self.shapley

    def single_squares(self) -> np.ndarray:
        """Return the sums of squared weights; see :class:`Readout`."""
        return np.asarray((self.weights**2).sum(axis=1))

    def functionals(self, terms: np.ndarray) -> np.ndarray:
        """Return the sums for every term; see :class:`Readout`."""
        sums = characters(signs(self.coalitions), terms).T @ self.weights.T
        return super().functionals(terms) + sums if self.shapley else sums

    def complete(self, values: np.ndarray, total: float) -> np.ndarray:
        """Return the values; see :class:`Readout`."""
        del total
        return values


SHAPLEY_VALUES: Readout = _ShapleyValues()
PAIRWISE: Readout = _Interactions(2)
TRIPLEWISE: Readout = _Interactions(3)
