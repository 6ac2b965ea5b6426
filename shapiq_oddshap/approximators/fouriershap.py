"""FourierSHAP: Shapley values of a sparse Walsh-Hadamard transform."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap import fourier
from shapiq_oddshap.approximators.base import Fitted, Plan, Run, ShapleyApproximator
from shapiq_oddshap.checks import as_integer
from shapiq_oddshap.diagnostics import FitFacts
from shapiq_oddshap.regression import fit_terms
from shapiq_oddshap.screening.sparse import HashedDesign, recover

if TYPE_CHECKING:
    from shapiq_oddshap.approximators.base import Design
    from shapiq_oddshap.sample import Sample

__all__ = ["FourierSHAP", "required_budget"]


def required_budget(n: int, bits: int, rounds: int) -> int:
    """Return the evaluations of a transform with ``2**bits`` bins a round, at most.

    Args:
        n: Number of players.
        bits: Logarithm b of the number of bins.
        rounds: Number of hashes T.

    Returns:
        T(n + 1)2^b, of which all rounds share the empty coalition, and the grand coalition.

    Examples:
        >>> required_budget(n=16, bits=6, rounds=5)
        5437
    """
    return int(rounds * ((n + 1) * 2**bits - 1) + 2)


class FourierSHAP(ShapleyApproximator):
    """FourierSHAP: a sparse Walsh-Hadamard transform, read off in closed form.

    A baseline of the paper (Gorji et al., 2025):

    1. Hash the terms into 2^b bins in each of T random rounds, by the transform of the values at
       2^b coalitions and at their n single-player shifts.
    2. Peel off the terms that are alone in a bin, with the shifts telling which they are.
    3. Read the Shapley values off: φ_i = -2 Σ_{T∋i, |T| odd} β_T / |T|.

    Note:
        Terms that explain their bins exactly are peeled first: a game of few terms is recovered to
        rounding. Of the rest, terms are peeled as long as they explain a tenth of their bins; a
        strict transform alone finds nothing in a dense game. The values are not efficient in general.
        Where peeling diverges, which too few bins for the terms of a game make it do, a warning says
        so and the regression on singletons takes its place.

    Examples:
        >>> import numpy as np
        >>> game = lambda coalitions: 1.0 - 2.0 * (coalitions[:, [1, 4, 7]].sum(axis=1) % 2)
        >>> values = FourierSHAP(n=10, random_state=42).approximate(budget=300, game=game)
        >>> values.get_n_order_values(1)[:5].round(9) + 0.0
        array([ 0.        , -0.66666667,  0.        ,  0.        , -0.66666667])

    See Also:
        - :class:`~shapiq_oddshap.SPEX`: such a transform as a screening strategy.
    """

    efficient = False

    def __init__(
        self,
        n: int,
        *,
        rounds: int = 5,
        max_order: int = 1,
        index: str = "SV",
        random_state: int | None = None,
    ) -> None:
        """Initialize the approximator.

        Args:
            n: The number of players.
            rounds: Number of hashes T: more of them peel further, at fewer bins each.
            max_order: 1; shapiq's explainers pass it.
            index: ``"SV"``; shapiq's explainers pass it.
            random_state: The seed; ``None`` takes fresh entropy for every run.

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If an argument is out of its range.
        """
        super().__init__(n, max_order=max_order, index=index, random_state=random_state)
        self.rounds = as_integer(rounds, "rounds", "a number of hashes such as rounds=5", least=1)

    def required_budget(self) -> int:
        """Return the smallest budget that ``approximate`` takes: two bins a round."""
        return int(min(required_budget(self.n, 1, self.rounds), 2**self.n))

    def _design(self, run: Run) -> Design:
        """Hash with the largest b that fits the budget."""
        bits = 1
        while required_budget(self.n, bits + 1, self.rounds) <= run.budget:
            bits += 1
        design = HashedDesign.draw(self.n, bits, self.rounds, run.rng)
        yield design.coalitions()
        return Plan(notes=design)

    def _fit(self, sample: Sample, notes: HashedDesign, run: Run) -> Fitted:
        """Transform, and read the Shapley values off."""
        design, coalitions = notes, notes.coalitions()
        values = sample.at(coalitions) - sample.values[:2].mean()
        with run.clock("transform"):
            terms, coefficients = recover(design, values, strict=True)
            rest = values - _predicted(terms, coefficients, coalitions)
            if np.abs(rest).max() > 1e-9 * np.abs(values).max():
                found = recover(design, rest, strict=False)
                terms = np.concatenate([terms, found[0]])
                coefficients = np.concatenate([coefficients, found[1]])
                rest = rest - _predicted(*found, coalitions)
        top = max(np.abs(values).max(), np.abs(rest).max())
        if top > 0 and np.sum((rest / top) ** 2) > np.sum((values / top) ** 2):
            return self._fall_back(sample, design)
        facts = FitFacts(path="transform", n_terms=len(terms), details={"bits": design.bits})
        return Fitted(fourier.shapley_values(coefficients, terms), facts)

    def _fall_back(self, sample: Sample, design: HashedDesign) -> Fitted:
        """Regress on singletons where the transform explains less than nothing, and say so."""
        enough = required_budget(self.n, design.bits + 1, self.rounds)
        msg = (
            f"The transform with 2^{design.bits} bins diverged: its terms collide in too few bins. "
            "The values are those of the regression on singletons instead. The next larger "
            f"transform takes a budget of {enough}; OddSHAP serves games with many terms."
        )
        warnings.warn(msg, stacklevel=5)
        fit = fit_terms(sample, fourier.singletons(self.n), "both")
        facts = FitFacts(path="linear", n_terms=self.n, details={"bits": design.bits})
        return Fitted(fourier.shapley_values(fit.coefficients, fit.terms), facts)


def _predicted(terms: np.ndarray, coefficients: np.ndarray, coalitions: np.ndarray) -> np.ndarray:
    """Return the sum of the terms at coalitions of shape ``(..., n)``, shape ``(...)``."""
    rows = fourier.parities(terms, coalitions.reshape(-1, coalitions.shape[-1]))
    return (coefficients @ rows).reshape(coalitions.shape[:-1])
