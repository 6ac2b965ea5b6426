"""The odd Gaussian process: posterior mean and variance of Shapley values."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from math import ceil, comb
from typing import TYPE_CHECKING, Literal, cast, get_args

import numpy as np
from scipy.special import ndtri

from shapiq_oddshap import trees
from shapiq_oddshap.approximators.base import (
    Fitted,
    Plan,
    Run,
    ShapleyApproximator,
    exact_values,
)
from shapiq_oddshap.approximators.table import GameTable
from shapiq_oddshap.checks import as_integer, as_number
from shapiq_oddshap.choosing import ChoiceOptions, chosen_pairs
from shapiq_oddshap.diagnostics import FitFacts
from shapiq_oddshap.evaluation import check_callable, evaluate, evaluate_outputs
from shapiq_oddshap.fourier import subsets
from shapiq_oddshap.gp import OddGPRecipe
from shapiq_oddshap.null_players import relevant_players
from shapiq_oddshap.process import fit_interactions, fit_process, fit_processes
from shapiq_oddshap.sample import Outputs
from shapiq_oddshap.sampling import PairedCoalitionSampler, row_keys, row_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shapiq import Game, InteractionValues

    from shapiq_oddshap.approximators.base import Design
    from shapiq_oddshap.diagnostics import Estimate
    from shapiq_oddshap.gp import OddGPFit
    from shapiq_oddshap.sample import Sample

    Value = Callable[[np.ndarray], np.ndarray]

__all__ = ["OddGP"]

DesignName = Literal["auto", "paired", "active"]
"""Which coalitions are asked for."""

_GROWTH = 1.6
"""How much more than the last budget :meth:`OddGP.approximate_until` tries next."""


_MOST_PLAYERS = {2: 200, 3: 40}
"""By order: of more players, the variances of all sets would take longer than the whole rest by far."""


class OddGP(ShapleyApproximator):
    """Odd Gaussian process: every odd interaction at once, none enumerated, with error bars.

    The odd component of the game gets a Gaussian process whose kernel is the sum over all odd
    Fourier terms, sinh(Σ_i a_i x_i x'_i) in closed form. Its Shapley values are a Gauss–Legendre
    sum over the observed pairs, and so are their variances (``docs/odd-gp.md``):

    1. Ask for coalitions in complementary pairs: each batch holds the pairs that lower the
       variances of the Shapley values most, of those sizes that would be drawn next.
    2. Fit the gradient-boosted proxy; its odd Fourier spectrum tells which players and terms matter.
    3. Maximise the evidence over the kernel's parameters on a part of the pairs; of few pairs the
       even values help.
    4. Condition on all pairs (on a part past 8000) and read mean and variance off.
    5. Add the Shapley values of what the process leaves unexplained, with their sampling variance.

    Players whom the sample proves to be null are left out of all this, with the variance of rounding;
    ``diagnostics.details["null_players"]`` counts them.

    From about six evaluations per player on it has a lower error than every other approximator of
    this package on most games, below that about OddSHAP's; its own time grows with the cube of the
    number of pairs, up to 8000 of them.

    Note:
        The variances trust that coalitions not seen resemble those seen. A game that differs only on
        a few isolated coalitions, as a unanimity game of nearly all players does, breaks that trust.

    Examples:
        >>> import numpy as np
        >>> game = lambda coalitions: coalitions @ np.arange(8.0) + 4.0 * coalitions[:, :3].all(axis=1)
        >>> values, variances = OddGP(n=8, random_state=42).approximate_with_variance(100, game)
        >>> exact = np.arange(8) + np.repeat([4 / 3, 0], [3, 5])
        >>> bool(np.all(np.abs(values.get_n_order_values(1) - exact) < 1e-6 + 3 * np.sqrt(variances)))
        True
    """

    offered = {1: ("SV",), 2: ("SII", "k-SII"), 3: ("SII", "k-SII")}  # noqa: RUF012

    def __init__(
        self,
        n: int,
        *,
        recipe: OddGPRecipe | None = None,
        design: DesignName = "auto",
        batch_size: int = 1,
        max_order: int = 1,
        index: str = "SV",
        random_state: int | None = None,
    ) -> None:
        """Initialize the approximator.

        Args:
            n: The number of players.
            recipe: The recipe, for experiments with it; ``None`` for the one that was measured best.
            design: ``"auto"`` chooses pairs up to ten evaluations per player, as long as that takes
                less than some milliseconds per evaluation, and draws the others; ``"active"`` chooses
                as long as the matrices allow, where every evaluation is dear; ``"paired"`` draws all.
            batch_size: Coalitions that the game is asked for at once where pairs are chosen, at least:
                as many as it has workers. Six at least are asked for anyway.
            max_order: 1 for Shapley values, 2 for pairwise interactions too, of at most 200 players,
                3 for those of triples as well, of at most 40.
            index: ``"SV"`` with order 1; ``"SII"`` or ``"k-SII"`` with orders 2 and 3.
            random_state: The seed; ``None`` takes fresh entropy for every run.

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If an argument is out of its range.
        """
        super().__init__(n, max_order=max_order, index=index, random_state=random_state)
        most = _MOST_PLAYERS.get(max_order, self.n)
        if self.n > most:
            remedy = (
                "pass max_order=1, or take OddSHAP, whose interactions have no variances."
                if max_order == 2
                else "pass max_order=2."
            )
            msg = (
                f"Received n={n} and max_order={max_order}, but at most {most} players are allowed: "
                f"{comb(self.n, max_order)} {'pairs' if max_order == 2 else 'triples'} would need a "
                f"posterior variance each. Please {remedy}"
            )
            raise ValueError(msg)
        if not isinstance(recipe, OddGPRecipe | None):
            msg = f"Received recipe={recipe!r}, but an OddGPRecipe is required, or None."
            raise TypeError(msg)
        lacking = recipe.without_interactions(self.max_order) if recipe is not None else ()
        if lacking:
            msg = (
                f"Received max_order={max_order} and a recipe with {', '.join(lacking)}, which lacks "
                "add_interactions or add_interaction_variances. Please write both, or declare parities "
                "without the half that it has none of."
            )
            raise ValueError(msg)
        if design not in get_args(DesignName):
            msg = f"Received design={design!r}, but 'auto', 'paired' or 'active' is required."
            raise ValueError(msg)
        self.recipe = recipe
        self.design = design
        self.batch_size = as_integer(batch_size, "batch_size", "a number such as 16", least=1)

    def _design(self, run: Run) -> Design:
        """Draw pairs, or choose them batch by batch."""
        trees.import_lightgbm()  # refuses before anything is paid for
        entropy = int(run.rng.integers(2**63))
        if self.design == "paired":
            sampler = PairedCoalitionSampler(self.n, random_state=entropy)
            sampler.sample(run.budget)
            yield sampler.coalitions_matrix[2:]
            return Plan(row_weights(sampler)[2:], notes=0)
        chosen = yield from chosen_pairs(self.n, run.budget, entropy, self._choice())
        return Plan(notes=chosen)

    def _choice(self) -> ChoiceOptions:
        """Return how pairs are chosen."""
        options = ChoiceOptions.throughout() if self.design == "active" else ChoiceOptions()
        wanted = ceil(self.batch_size / 2)
        few = options.few_outputs if self.recipe is None else self.recipe.few_outputs
        return replace(options, least_batch=max(options.least_batch, wanted), few_outputs=few)

    def _fit(self, sample: Sample, notes: int, run: Run) -> Fitted:
        """Fit those players that matter; the notes are how many pairs were chosen."""
        if np.ptp(sample.values) == 0:
            # a constant sample tells nothing of the scale on which others may differ
            zeros = np.zeros(self.count)
            return Fitted(zeros, FitFacts(path="constant"), np.full(len(zeros), np.inf))
        with run.clock("screening"):
            players = relevant_players(sample.coalitions, sample.values)
        smaller = sample.among(players)
        if smaller.is_complete:
            fitted = self._fit_known(smaller, notes, run)
        else:
            fitted = self._fit_process(smaller, notes, run)
        return self._embedded(fitted, sample, players)

    def _fit_known(self, sample: Sample, notes: int, run: Run) -> Fitted:
        """Take the exact values of all coalitions of those players that matter."""
        fitted = exact_values(sample, run, max_order=self.max_order)
        details = {"pairs": len(sample.values) / 2 - 1, "chosen": float(notes)}
        return replace(fitted, facts=replace(fitted.facts, details=details))

    def _embedded(self, fitted: Fitted, sample: Sample, players: np.ndarray) -> Fitted:
        """Return a fit of some players as that of all, of which the others are null up to rounding.

        An interaction is a mean of differences of ``2**order`` values, of which each has the rounding.
        """
        if players.all():
            return fitted
        orders = range(1, self.max_order + 1)
        there = np.concatenate([players[np.array(subsets(self.n, k))].all(axis=0) for k in orders])
        rounding = sample.scatter(players)
        values = np.zeros(len(there))
        variances = np.full(len(there), 2.0**self.max_order * rounding)
        values[there] = fitted.values
        variances[there] += fitted.variances
        details = {"noise": float(np.sqrt(rounding)), **fitted.facts.details}
        details["null_players"] = float(np.sum(~players))
        return Fitted(values, replace(fitted.facts, details=details), variances)

    def _fit_process(self, sample: Sample, notes: int, run: Run) -> Fitted:
        """Screen, and fit the process."""
        if self.max_order == 1:
            return _fitted(fit_process(sample, run.rng, self.recipe, run.clock), notes)
        values, variances, odd, even = fit_interactions(
            sample,
            run.rng,
            self.recipe,
            run.clock,
            order=self.max_order,
            aggregated=self.index == "k-SII",
        )
        fitted = _fitted(odd, notes)
        details = {"even_pairs": float(even.pairs), "even_noise": even.noise}
        details |= {"even_terms": float(even.n_terms), **fitted.facts.details}
        facts = replace(fitted.facts, path=f"{odd.path}+{even.path}", details=details)
        return Fitted(values, facts, variances)

    def _fit_outputs(self, outputs: Outputs, notes: int, run: Run) -> Iterator[tuple[Fitted, Run]]:
        """Screen all outputs, and fit them together; their seconds are those of all.

        Together are those for which the same players matter.
        """
        varies = np.ptp(outputs.columns, axis=1) > 0
        if varies.sum() < 2 or self.max_order > 1:
            yield from super()._fit_outputs(outputs, notes, run)
            return
        with run.clock("screening"):
            columns = outputs.columns[varies]
            relevant = relevant_players(outputs.sample.coalitions, columns.T)
            _, first, game_of = np.unique(
                row_keys(relevant), return_index=True, return_inverse=True
            )
        fits = [
            self._fit_together(
                Outputs(outputs.sample, columns[game_of == game]), players, notes, run
            )
            for game, players in enumerate(relevant[first])
        ]
        chosen = iter(game_of.tolist())
        for varying, sample in zip(varies.tolist(), outputs, strict=True):
            yield next(fits[next(chosen)]) if varying else self._fit(sample, notes, run), run

    def _fit_together(
        self, outputs: Outputs, players: np.ndarray, notes: int, run: Run
    ) -> Iterator[Fitted]:
        """Fit outputs that vary, for each of which the same players matter."""
        smaller = outputs.among(players)
        if smaller.sample.is_complete:
            fits = (self._fit_known(sample, notes, run) for sample in smaller)
        else:
            together = fit_processes(smaller, run.rng, self.recipe, run.clock)
            fits = (_fitted(fit, notes) for fit in together)
        return (
            self._embedded(fit, sample, players) for fit, sample in zip(fits, outputs, strict=True)
        )

    def approximate_with_variance(
        self, budget: int, game: Game | Value
    ) -> tuple[InteractionValues, np.ndarray]:
        """Approximate the Shapley values, and the interactions, and tell how sure they are.

        Args:
            budget: Number of evaluations that may be made.
            game: The game; see :meth:`approximate`.

        Returns:
            The values and the variances of their errors in squared units of the game, in the order
            that :class:`~shapiq_oddshap.Estimate` says: shape ``(n,)`` without interactions. They are
            zero where all coalitions were evaluated, and infinite where the sample tells nothing, as
            when all its values are equal.
        """
        estimate = self.estimate(budget, game)
        return estimate.values, cast("np.ndarray", estimate.variances)

    def approximate_until(
        self,
        target_error: float,
        max_budget: int,
        game: Game | Value,
        *,
        confidence: float = 0.9,
    ) -> tuple[InteractionValues, np.ndarray]:
        """Grow the budget until every interval is narrow enough; nothing is evaluated twice.

        Args:
            target_error: Half-width of the widest interval that will do, in units of the game; of
                Shapley values and interactions alike.
            max_budget: Number of evaluations that may be made in all.
            game: The game; see :meth:`approximate`.
            confidence: Probability that an interval is meant to hold the true value with.

        Returns:
            The values, whose ``estimation_budget`` is what was spent, and their variances. If the
            target is not met, all of ``max_budget`` was.

        Raises:
            TypeError: If the game cannot be called, or the error or the confidence is no number.
            ValueError: If the error is not positive or the confidence not between 0 and 1.
        """

        def once(seeded: OddGP, budget: int, table: GameTable) -> list[Estimate]:
            return [seeded.estimate(budget, table)]

        table = GameTable(partial(evaluate, game), self.n)
        (found,) = self._grown(once, target_error, max_budget, game, table, confidence)
        return found.values, cast("np.ndarray", found.variances)

    def estimate_outputs_until(
        self,
        target_error: float,
        max_budget: int,
        game: Game | Value,
        *,
        confidence: float = 0.9,
    ) -> list[Estimate]:
        """Grow the budget until the widest interval of all outputs is narrow enough.

        Args:
            target_error: Half-width of the widest interval that will do, in units of the game.
            max_budget: Number of coalitions that may be evaluated in all.
            game: The game; see :meth:`estimate_outputs`.
            confidence: Probability that an interval is meant to hold the true value with.

        Returns:
            An estimate per output; see :meth:`approximate_until`, also for what is raised.
        """
        table = GameTable(partial(evaluate_outputs, game), self.n)
        return self._grown(
            OddGP.estimate_outputs, target_error, max_budget, game, table, confidence
        )

    def _grown(
        self,
        estimate: Callable[[OddGP, int, GameTable], list[Estimate]],
        target_error: float,
        max_budget: int,
        game: Game | Value,
        table: GameTable,
        confidence: float,
    ) -> list[Estimate]:
        """Estimate on ever larger budgets; what was evaluated lies in the table."""
        target_error = as_number(target_error, "target_error", "a half-width such as 0.01")
        confidence = as_number(confidence, "confidence", "a probability such as 0.9")
        if not target_error > 0:
            msg = f"Received target_error={target_error!r}, but a positive number is required."
            raise ValueError(msg)
        if not 0 < confidence < 1:
            msg = f"Received confidence={confidence!r}, but a probability such as 0.9 is required."
            raise ValueError(msg)
        check_callable(game)
        max_budget = as_integer(max_budget, "max_budget", "a number such as max_budget=10000")
        seeded = copy.copy(self)  # one seed for all budgets, so that each sample holds the last
        if self.random_state is None:
            seeded.set_random_state(int(np.random.SeedSequence().generate_state(1)[0]))
        quantile = ndtri(0.5 + confidence / 2)
        budget = min(4 * self.n + 2, max_budget)
        while True:
            found = estimate(seeded, budget, table)
            widest = quantile * np.sqrt(np.max([each.variances for each in found]))
            if widest <= target_error or budget >= min(max_budget, 2**self.n):
                return found
            budget = min(ceil(_GROWTH * budget), max_budget)


def _fitted(fit: OddGPFit, chosen: int) -> Fitted:
    """Return a fit in the terms of all approximators, after the choice of so many pairs."""
    facts = FitFacts(
        path=fit.path,
        screener="proxyspex",
        n_terms=fit.n_terms,
        details={"pairs": float(fit.pairs), "chosen": float(chosen), "noise": fit.noise},
    )
    return Fitted(fit.values, facts, fit.variances)
