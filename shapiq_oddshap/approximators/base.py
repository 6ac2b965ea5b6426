"""What all approximators share: checks, counted evaluation, exactness at 2ⁿ, the result."""

from __future__ import annotations

import inspect
import operator
from abc import abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln

from shapiq_oddshap.checks import as_integer, as_seed
from shapiq_oddshap.diagnostics import Diagnostics, Stopwatch
from shapiq_oddshap.evaluation import check_callable, evaluate
from shapiq_oddshap.shapiq_adapter import ShapleyAdapter
from shapiq_oddshap.threads import one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from shapiq import Game, InteractionValues

    Value = Callable[[np.ndarray], np.ndarray]

__all__ = ["Estimate", "Run", "ShapleyApproximator"]


@dataclass(frozen=True)
class Estimate:
    """What an approximator's own part returns; most fields are those of ``Diagnostics``.

    Attributes:
        phi: Shapley values, shape ``(n,)``.
        variances: Variances of their errors, shape ``(n,)``; ``None`` where they are not estimated.
    """

    phi: np.ndarray
    path: str
    screener: str | None = None
    n_terms: int = 0
    solver: str | None = None
    condition: float | None = None
    details: Mapping[str, float] = field(default_factory=dict)
    variances: np.ndarray | None = None


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Run:
    """The context of one call of ``approximate``: everything that must not live on the instance.

    Attributes:
        budget: Evaluations that may be made.
        evaluations: Evaluations made so far.
        stopwatch: Seconds by stage.
        rng: The run's random generator.
        boundary: f(∅) and f([n]) once known, shape ``(2,)``.
    """

    def __init__(self, game: Game | Value, budget: int, random_state: int | None) -> None:
        """Start a run."""
        self._game = game
        self.budget = budget
        self.evaluations = 0
        self.stopwatch = Stopwatch()
        self.rng = np.random.default_rng(random_state)
        self.boundary = np.zeros(2)

    @contextmanager
    def clock(self, stage: str) -> Iterator[None]:
        """Time a stage of the estimator's own, on one BLAS thread (the game has all it wants)."""
        with self.stopwatch(stage), one_blas_thread():
            yield

    def evaluate(self, coalitions: np.ndarray) -> np.ndarray:
        """Return the values of distinct coalitions; the first call starts with ∅ and [n].

        Raises:
            RuntimeError: If the budget would be exceeded, which is an error of the approximator.
        """
        if self.evaluations + len(coalitions) > self.budget:
            msg = f"{self.evaluations + len(coalitions)} evaluations exceed {self.budget}."
            raise RuntimeError(msg)
        with self.stopwatch("evaluation"):
            values = evaluate(self._game, coalitions)
        if self.evaluations == 0:
            self.boundary = values[:2].copy()
        self.evaluations += len(coalitions)
        return values


class ShapleyApproximator(ShapleyAdapter):
    """Base class: an approximator is a constructor and ``_estimate``.

    Nothing about a run is kept on the instance, so that one instance may serve many threads. With
    a ``random_state`` every call gives the same answer, whichever thread or process makes it.

    Attributes:
        efficient: Whether the values sum to f([n]) - f(∅) at every budget.
    """

    efficient = True

    def __init__(
        self, n: int, *, max_order: int = 1, index: str = "SV", random_state: int | None = None
    ) -> None:
        """Initialize the approximator.

        Args:
            n: The number of players.
            max_order: 1; shapiq's explainers pass it.
            index: ``"SV"``; shapiq's explainers pass it.
            random_state: The seed; ``None`` takes fresh entropy for every run.

        Raises:
            TypeError: If ``n`` or ``random_state`` is no integer.
            ValueError: If an argument is out of its range.
        """
        n = as_integer(n, "n", "a number of players such as n=10", least=1)
        if index != "SV" or max_order != 1:
            msg = (
                f"Received index={index!r} and max_order={max_order!r}, but "
                f"{type(self).__name__} estimates Shapley values. Please pass index='SV' and "
                "max_order=1."
            )
            raise ValueError(msg)
        super().__init__(n, max_order=max_order, index=index, random_state=as_seed(random_state))

    def set_random_state(self, random_state: int | None = None) -> None:
        """Set the seed; afterwards the approximator equals one constructed with it.

        Args:
            random_state: The seed; ``None`` takes fresh entropy for every run.
        """
        super().set_random_state(as_seed(random_state))

    def approximate(  # type: ignore[override]
        self, budget: int, game: Game | Value
    ) -> InteractionValues:
        """Approximate the Shapley values of a game.

        Args:
            budget: Number of evaluations that may be made, at least ``required_budget()``. From
                ``2**n`` on all coalitions are evaluated and the values are exact.
            game: A shapiq ``Game``, an imputer, or any callable that takes coalitions as boolean
                rows of shape ``(m, n)`` and returns ``m`` numbers.

        Returns:
            The Shapley values, with f(∅) as the value of the empty interaction.

        Raises:
            TypeError: If the budget is no integer, or the game returns no real numbers.
            ValueError: If the budget is too small, or the game returns NaN, an infinite value or
                the wrong number of values.
        """
        return self.approximate_with_diagnostics(budget, game)[0]

    def approximate_with_diagnostics(
        self, budget: int, game: Game | Value
    ) -> tuple[InteractionValues, Diagnostics]:
        """Approximate the Shapley values and tell how; see :meth:`approximate`.

        Args:
            budget: Number of evaluations that may be made.
            game: The game.

        Returns:
            The Shapley values and the record of the run.
        """
        run, estimate = self._run(budget, game)
        diagnostics = Diagnostics(
            approximator=type(self).__name__,
            n=self.n,
            budget=operator.index(budget),
            evaluations=run.evaluations,
            seconds=run.stopwatch.seconds,
            path=estimate.path,
            screener=estimate.screener,
            n_terms=estimate.n_terms,
            solver=estimate.solver,
            condition=estimate.condition,
            details=estimate.details,
        )
        return self._result(run, estimate), diagnostics

    def required_budget(self) -> int:
        """Return the smallest budget that ``approximate`` takes."""
        return 2

    @abstractmethod
    def _estimate(self, run: Run) -> Estimate:
        """Evaluate coalitions through ``run`` and estimate, with ``run.budget`` below ``2**n``."""

    def _refusal(self, budget: int, required: int) -> str:
        """Return the message for a budget that is too small."""
        return (
            f"Received budget={budget}, but {type(self).__name__} needs at least {required} "
            f"evaluations for {self.n} players. Please increase the budget."
        )

    def _run(self, budget: int, game: Game | Value) -> tuple[Run, Estimate]:
        """Check what was asked for, then evaluate and estimate."""
        budget = as_integer(budget, "budget", "a number of evaluations such as budget=1000")
        required = min(self.required_budget(), 2**self.n)
        if budget < required:
            raise ValueError(self._refusal(budget, required))
        check_callable(game)
        run = Run(game, min(budget, 2**self.n), self.random_state)
        if run.budget == 2**self.n:
            return run, Estimate(_exact(run, self.n), path="exact")
        return run, self._estimate(run)

    def _result(self, run: Run, estimate: Estimate) -> InteractionValues:
        """Wrap the estimate in shapiq's container."""
        return self._interaction_values(
            estimate.phi,
            empty_value=float(run.boundary[0]),
            evaluations=run.evaluations,
            exact=run.evaluations == 2**self.n,
        )

    def options(self) -> dict[str, Any]:
        """Return the constructor's arguments by name, as given."""
        names: dict[str, None] = {}
        for cls in type(self).__mro__:  # a subclass may hand on what it does not name itself
            parameters = inspect.signature(cls.__init__).parameters  # type: ignore[misc]
            names |= dict.fromkeys(name for name, p in parameters.items() if p.kind in _NAMED)
            if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
                break
        return {name: getattr(self, name) for name in names if name != "self"}

    def __eq__(self, other: object) -> bool:
        """Compare class and options; approximators with different options are different."""
        return type(self) is type(other) and self.options() == other.options()  # type: ignore[attr-defined]

    def __ne__(self, other: object) -> bool:
        """Negate ``==``."""
        return not self == other

    def __hash__(self) -> int:
        """Hash what is always hashable: class, players and seed."""
        return hash((type(self), self.n, self.random_state))

    def __repr__(self) -> str:
        """Return the call that constructs the approximator."""
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.options().items())
        return f"{type(self).__name__}({arguments})"

    __str__ = __repr__


def _exact(run: Run, n: int) -> np.ndarray:
    """Evaluate all coalitions and sum marginal contributions over complementary pairs.

    φ_i = Σ_S f(S) (1[i∈S] p_{s-1} - 1[i∉S] p_s) with p_s = 1 / (n C(n-1, s)) (paper, Equation 1);
    S and its complement share their weights, so that the odd component is all that enters.
    """
    half = np.arange(2 ** (n - 1))[:, None] >> np.arange(n) & 1  # those without the last player
    half = half.astype(bool)
    others = half[1:]
    boundary = np.array([[False] * n, [True] * n])
    values = run.evaluate(np.concatenate([boundary, others, ~others]))
    with run.clock("shapley"):
        centred = values - values[0]
        difference = np.concatenate(
            [centred[:1] - centred[1:2], np.subtract(*np.split(centred[2:], 2))]
        )
        sizes = half.sum(axis=1)
        log_weights = [
            gammaln(k + 1) + gammaln(n - k) - gammaln(n + 1)
            for k in (np.maximum(sizes - 1, 0), sizes)
        ]
        present, absent = np.exp(log_weights)
        # f(S) - f(Sᶜ) gives +p_{s-1} to the players in S and -p_s to the others
        gains = np.where(half, present[:, None], -absent[:, None])
        return difference @ gains
