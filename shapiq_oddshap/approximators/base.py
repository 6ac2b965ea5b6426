"""What all approximators share: checks, counted evaluation, exactness at 2ⁿ, the result."""

from __future__ import annotations

import copy
import inspect
from abc import abstractmethod
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from math import comb
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from joblib import Parallel, cpu_count, delayed
from scipy.special import gammaln

from shapiq_oddshap.approximators.table import GameTable
from shapiq_oddshap.checks import as_integer, as_seed, refuse_options
from shapiq_oddshap.diagnostics import Diagnostics, Estimate, FitFacts, Stopwatch
from shapiq_oddshap.evaluation import GameValueError, check_callable, evaluate, evaluate_outputs
from shapiq_oddshap.interactions import exact_interactions
from shapiq_oddshap.sample import Outputs, Sample
from shapiq_oddshap.sampling import size_weights
from shapiq_oddshap.shapiq_adapter import ShapleyAdapter
from shapiq_oddshap.threads import one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from shapiq import Game, InteractionValues

    Value = Callable[[np.ndarray], np.ndarray]
    Design = Generator[np.ndarray, np.ndarray, "Plan"]

__all__ = ["Fitted", "Plan", "Run", "ShapleyApproximator", "offer"]

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True)
class Plan:
    """What a design leaves to the fit, beside the sample.

    Attributes:
        weights: Regression weights of the coalitions but ∅ and [n], in the order in which they were
            asked for, shape ``(m - 2,)``; ``None`` for those of :func:`size_weights`.
        notes: What else the fit has to know: the rows of a structured design, a prepared screener.
    """

    weights: np.ndarray | None = None
    notes: Any = None


@dataclass(frozen=True)
class Fitted:
    """What a fit makes of a sample.

    Attributes:
        values: Shapley values, shape ``(n,)``, and after them the Shapley interactions of every order
            up to ``max_order``, each in the order of ``itertools.combinations``.
        facts: How they came about.
        variances: Variances of their errors, of the same shape; ``None`` where they are not estimated.
    """

    values: np.ndarray
    facts: FitFacts
    variances: np.ndarray | None = None


class Run:
    """The context of one run: what design and fit share and must not live on the instance.

    Attributes:
        budget: Evaluations that may be made, below ``2**n``.
        rng: The random generator.
        stopwatch: Seconds by stage.
    """

    def __init__(self, budget: int, random_state: int | None) -> None:
        """Start a run."""
        self.budget = budget
        self.rng = np.random.default_rng(random_state)
        self.stopwatch = Stopwatch()

    @contextmanager
    def clock(self, stage: str) -> Iterator[None]:
        """Time a stage of the estimator's own, on one BLAS thread (the game has all it wants)."""
        with self.stopwatch(stage), one_blas_thread():
            yield

    def fork(self) -> Run:
        """Return the run of one of several outputs: what is drawn or timed there stays there."""
        own = copy.copy(self)
        own.rng, own.stopwatch = copy.deepcopy(self.rng), self.stopwatch.fork()
        return own

    def collect(self, design: Design, game: Game | Value, n: int) -> tuple[Sample, Any]:
        """Evaluate what a design asks for, until it asks no more.

        The empty and the grand coalition go along with the first request, and what is asked for
        again is not evaluated again.

        Args:
            design: A generator: it yields coalitions as boolean rows, shape ``(..., n)``, is sent
                their values, shape ``(...)``, and returns a :class:`Plan`.
            game: The game.
            n: Number of players.

        Returns:
            The sample, whose arrays are read-only, and the plan's notes.

        Raises:
            RuntimeError: If the budget would be exceeded, which is an error of the approximator.
        """
        (sample,), notes = self._collect(design, partial(evaluate, game), n)
        return sample, notes

    def collect_outputs(self, design: Design, game: Game | Value, n: int) -> tuple[Outputs, Any]:
        """Evaluate likewise a game of several outputs; the design is sent ``(..., k)`` values."""
        return self._collect(design, partial(evaluate_outputs, game), n)

    def _collect(self, design: Design, evaluated: Value, n: int) -> tuple[Outputs, Any]:
        """Do what :meth:`collect` says, by a function that returns ``(m,)`` or ``(m, k)`` values."""

        def paid(rows: np.ndarray) -> np.ndarray:
            if len(table.values) + len(rows) > self.budget:
                msg = f"{len(table.values) + len(rows)} evaluations exceed {self.budget}."
                raise RuntimeError(msg)
            with self.stopwatch("evaluation"):
                paid_for = evaluated(rows)
            if len(table.values) and table.values.shape[1:] != paid_for.shape[1:]:
                msg = (
                    f"The game returned {paid_for.shape[1]} outputs after {table.values.shape[1]} at "
                    "first. The same number is required at every coalition."
                )
                raise GameValueError(msg)
            return paid_for

        table, plan = GameTable(paid, n), None
        values: Any = None  # what a generator is started with
        while plan is None:
            with self.clock("sampling"):
                try:
                    rows = design.send(values)
                except StopIteration as end:
                    plan = end.value
                    break
            values = table(rows)
        coalitions, weights = table.coalitions, plan.weights
        inner = size_weights(coalitions[2:]) if weights is None else weights
        weights = np.concatenate([[0.0, 0.0], inner])
        return Outputs.of(
            coalitions, table.values.reshape(len(coalitions), -1), weights
        ), plan.notes


class ShapleyApproximator(ShapleyAdapter):
    """Base class: an approximator is a constructor, ``_design`` and ``_fit``.

    Nothing about a run is kept on the instance, so that one instance may serve many threads. With
    a ``random_state`` every call gives the same answer, whichever thread or process makes it. The
    constructor's arguments are read-only afterwards.

    Attributes:
        efficient: Whether the values sum to f([n]) - f(∅) at every budget.
        offered: The indices by ``max_order``.
        adaptive: Whether the coalitions depend on values of the game, so that several outputs cannot
            share them.
    """

    efficient = True
    offered: ClassVar[Mapping[int, tuple[str, ...]]] = {1: ("SV",)}
    adaptive = False

    def __init__(
        self, n: int, *, max_order: int = 1, index: str = "SV", random_state: int | None = None
    ) -> None:
        """Initialize the approximator.

        Args:
            n: The number of players.
            max_order: The largest order of interactions, a key of ``offered``.
            index: The index, of those that are offered for the order.
            random_state: The seed; ``None`` takes fresh entropy for every run.

        Raises:
            TypeError: If ``n`` or ``random_state`` is no integer.
            ValueError: If an argument is out of its range.
        """
        n = as_integer(n, "n", "a number of players such as n=10", least=1)
        if index not in self.offered.get(max_order, ()):
            msg = (
                f"Received index={index!r} and max_order={max_order!r}, but "
                f"{type(self).__name__} {offer(self.offered)}"
            )
            raise ValueError(msg)
        super().__init__(n, max_order=max_order, index=index, random_state=as_seed(random_state))

    def set_random_state(self, random_state: int | None = None) -> None:
        """Set the seed; afterwards the approximator equals one constructed with it.

        Args:
            random_state: The seed; ``None`` takes fresh entropy for every run.
        """
        super().set_random_state(as_seed(random_state))

    def approximate(
        self,
        budget: int,
        game: Game | Value,
        **options: Any,  # noqa: ANN401 - refused
    ) -> InteractionValues:
        """Approximate the Shapley values of a game.

        Args:
            budget: Number of evaluations that may be made, at least ``required_budget()``. From
                ``2**n`` on all coalitions are evaluated and the values are exact.
            game: A shapiq ``Game``, an imputer, or any callable that takes coalitions as boolean
                rows of shape ``(m, n)`` and returns ``m`` numbers.
            **options: None; shapiq's approximators take any here and ignore them.

        Returns:
            The Shapley values, with f(∅) as the value of the empty interaction.

        Raises:
            TypeError: If the budget is no integer, the game returns no real numbers, or there are
                options.
            ValueError: If the budget is too small, or the game returns NaN, an infinite value or
                the wrong number of values.
        """
        refuse_options(options, {}, "approximate")
        return self.estimate(budget, game).values

    def approximate_with_diagnostics(
        self, budget: int, game: Game | Value
    ) -> tuple[InteractionValues, Diagnostics]:
        """Approximate the Shapley values and tell how; see :meth:`estimate`.

        Args:
            budget: Number of evaluations that may be made.
            game: The game.

        Returns:
            The Shapley values and the record of the run.
        """
        estimate = self.estimate(budget, game)
        return estimate.values, estimate.diagnostics

    def estimate(self, budget: int, game: Game | Value) -> Estimate:
        """Estimate the Shapley values, with all that is known of them.

        Args:
            budget: Number of evaluations that may be made.
            game: The game; see :meth:`approximate`, also for what is raised.

        Returns:
            The Shapley values, their variances where they are estimated, and the record of the run.

        Examples:
            >>> import numpy as np
            >>> from shapiq_oddshap import OddSHAP
            >>> game = lambda coalitions: coalitions @ np.arange(8.0)
            >>> estimate = OddSHAP(n=8, random_state=42).estimate(100, game)
            >>> estimate.diagnostics.evaluations, estimate.diagnostics.screener
            (100, 'proxyspex')
        """
        asked, run, design = self._started(budget, game)
        sample, notes = run.collect(design, game, self.n)
        exact = partial(exact_values, max_order=self.max_order)
        fitted = exact(sample, run) if self._is_exact(run) else self._fit(sample, notes, run)
        return self._estimated(asked, sample, fitted, run)

    def estimate_outputs(self, budget: int, game: Game | Value) -> list[Estimate]:
        """Estimate the Shapley values of a game's outputs, all from the same evaluations.

        A classifier returns the scores of all classes, a model that is fitted again for every
        coalition predicts all rows and has several metrics: one evaluation serves them all, as the
        coalitions do not depend on the values. Output j of a regression has the bits of
        ``estimate`` on that output alone, with the same seed.

        Args:
            budget: Number of coalitions that may be evaluated, for all outputs together.
            game: Any callable that takes coalitions as boolean rows of shape ``(m, n)`` and returns
                values of shape ``(m, k)``.

        Returns:
            An estimate per output. Its seconds of sampling and evaluation are those of all outputs,
            the others its own. Held at a time are the values, at 8 m k bytes a few times over, and
            what one output takes alone in as many threads as there are processors.

        Raises:
            TypeError: If the coalitions of this approximator depend on the values, and as
                ``approximate``.
            ValueError: As ``approximate`` does; a NaN is named by coalition and output.

        Examples:
            >>> import numpy as np
            >>> from shapiq_oddshap import OddSHAP
            >>> game = lambda coalitions: coalitions @ np.eye(8)[:, :3]
            >>> first, second, third = OddSHAP(n=8, random_state=42).estimate_outputs(100, game)
            >>> np.allclose(second.values.get_n_order_values(1), np.eye(8)[1])
            True
        """
        if self.adaptive:
            msg = (
                f"{type(self).__name__} chooses its coalitions by the values that it has seen, so "
                "that outputs cannot share them. Please estimate each output by itself, or all of "
                "them by another approximator, such as OddSHAP or OddGP."
            )
            raise TypeError(msg)
        asked, run, design = self._started(budget, game)
        outputs, notes = run.collect_outputs(design, game, self.n)
        if self._is_exact(run):
            fits = _side_by_side(outputs, run, partial(exact_values, max_order=self.max_order))
        else:
            fits = self._fit_outputs(outputs, notes, run)
        return [
            self._estimated(asked, sample, fitted, own)
            for sample, (fitted, own) in zip(outputs, fits, strict=True)
        ]

    def _started(self, budget: int, game: Game | Value) -> tuple[int, Run, Design]:
        """Check the arguments, and return the budget, the run and its design."""
        asked = as_integer(budget, "budget", "a number of evaluations such as budget=1000")
        required = min(self.required_budget(), 2**self.n)
        if asked < required:
            raise ValueError(self._refusal(asked, required))
        check_callable(game)
        run = Run(min(asked, 2**self.n), self.random_state)
        return asked, run, _all_coalitions(self.n) if self._is_exact(run) else self._design(run)

    def _is_exact(self, run: Run) -> bool:
        """Tell whether a run evaluates all coalitions."""
        return bool(run.budget == 2**self.n)

    def _estimated(self, asked: int, sample: Sample, fitted: Fitted, run: Run) -> Estimate:
        """Return what a run found, in shapiq's terms and with its record."""
        values = self._interaction_values(
            fitted.values,
            empty_value=sample.empty_value,
            evaluations=len(sample.values),
            exact=len(sample.values) == 2**self.n,
        )
        diagnostics = Diagnostics(
            **vars(fitted.facts),
            approximator=type(self).__name__,
            n=self.n,
            budget=asked,
            evaluations=len(sample.values),
            seconds=run.stopwatch.seconds,
        )
        return Estimate(values, fitted.variances, diagnostics)

    def required_budget(self) -> int:
        """Return the smallest budget that ``approximate`` takes."""
        return 2

    @abstractmethod
    def _design(self, run: Run) -> Design:
        """Ask for coalitions, at most ``run.budget`` with ∅ and [n]; see :meth:`Run.collect`."""

    @abstractmethod
    def _fit(self, sample: Sample, notes: Any, run: Run) -> Fitted:  # noqa: ANN401
        """Estimate from a sample and the notes of its design.

        What is drawn from ``run.rng`` depends on the design alone: it stands where that left it.
        """

    @property
    def count(self) -> int:
        """How many values there are, of all orders from one to ``max_order``."""
        return sum(comb(self.n, order) for order in range(1, self.max_order + 1))

    def _fit_outputs(
        self,
        outputs: Outputs,
        notes: Any,  # noqa: ANN401
        run: Run,
    ) -> Iterator[tuple[Fitted, Run]]:
        """Estimate all outputs of a design, each with the run that it took; by default for itself."""
        return _side_by_side(outputs, run, lambda sample, own: self._fit(sample, notes, own))

    def _refusal(self, budget: int, required: int) -> str:
        """Return the message for a budget that is too small."""
        return (
            f"Received budget={budget}, but {type(self).__name__} needs at least {required} "
            f"evaluations for {self.n} players. Please increase the budget."
        )

    def options(self) -> dict[str, Any]:
        """Return the constructor's arguments by name, as given."""
        return {name: getattr(self, name) for name in _option_names(type(self))}

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute; an option only once, by the constructor."""
        there = name in vars(self) or isinstance(getattr(type(self), name, None), property)
        if there and name in _option_names(type(self)):
            remedy = (
                "call set_random_state"
                if name == "random_state"
                else f"construct another {type(self).__name__}"
            )
            msg = f"Received {name}={value!r}, but options are read-only. Please {remedy}."
            raise AttributeError(msg)
        super().__setattr__(name, value)

    def __eq__(self, other: object) -> bool:
        """Compare class and options; approximators with different options are different."""
        return type(self) is type(other) and self.options() == other.options()  # type: ignore[attr-defined]

    def __ne__(self, other: object) -> bool:
        """Negate ``==``."""
        return not self == other

    def __hash__(self) -> int:
        """Hash the class and those options that can be hashed."""
        return hash((type(self), *map(_hash, self.options().values())))

    def __repr__(self) -> str:
        """Return the call that constructs the approximator."""
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.options().items())
        return f"{type(self).__name__}({arguments})"

    __str__ = __repr__


def _option_names(cls: type[ShapleyApproximator]) -> tuple[str, ...]:
    """Return the names of a class's options, which a subclass may hand on without naming them."""
    names: dict[str, None] = {}
    for each in cls.__mro__:
        parameters = inspect.signature(each.__init__).parameters  # type: ignore[misc]
        names |= dict.fromkeys(name for name, p in parameters.items() if p.kind in _NAMED)
        if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
            break
    return tuple(name for name in names if name != "self")


def _hash(option: object) -> int:
    """Return an option's hash; zero for mappings, models and what else has none."""
    try:
        return hash(option)
    except TypeError:
        return 0


def _all_coalitions(n: int) -> Design:
    """Ask for all coalitions: those without the last player, then their complements."""
    half = _half(n)[1:]
    yield np.concatenate([half, ~half])
    return Plan()


def _side_by_side(
    outputs: Outputs, run: Run, fit: Callable[[Sample, Run], Fitted]
) -> Iterator[tuple[Fitted, Run]]:
    """Fit each output as a run on it alone would: by a copy of the run as the design left it.

    In as many threads as there are processors: LightGBM and BLAS, which take most of the time, let
    others go on meanwhile.
    """

    def one(sample: Sample) -> tuple[Fitted, Run]:
        own = run.fork()
        return fit(sample, own), own

    threads = Parallel(min(cpu_count(), len(outputs)), backend="threading", return_as="generator")
    context = copy_context()  # the caller's, such as NumPy's error state
    yield from threads(delayed(context.copy().run)(one, sample) for sample in outputs)


def _half(n: int) -> np.ndarray:
    """Return the coalitions without the last player, the empty one first."""
    return (np.arange(2 ** (n - 1))[:, None] >> np.arange(n) & 1).astype(bool)


def offer(offered: Mapping[int, tuple[str, ...]]) -> str:
    """Return what is offered, as the end of a refusal."""
    if offered.keys() == {1}:
        return "estimates Shapley values. Please pass index='SV' and max_order=1."
    orders: dict[tuple[str, ...], list[str]] = {}
    for order, indices in offered.items():
        orders.setdefault(indices, []).append(f"max_order={order}")
    ways = [
        " or ".join(f"index={index!r}" for index in indices) + " with " + " or ".join(of_these)
        for indices, of_these in orders.items()
    ]
    return f"estimates Shapley values and interactions. Please pass {', or '.join(ways)}."


def exact_values(sample: Sample, run: Run, *, max_order: int) -> Fitted:
    """Sum marginal contributions over complementary pairs, and differences of higher order likewise.

    φ_i = Σ_S f(S) (1[i∈S] p_{s-1} - 1[i∉S] p_s) with p_s = 1 / (n C(n-1, s)) (paper, Equation 1);
    S and its complement share their weights, so that the odd component is all that enters.
    """
    n = sample.n
    with run.clock("shapley"):
        half = _half(n)
        difference = (sample.at(half) - sample.empty_value) - (
            sample.at(~half) - sample.empty_value
        )
        sizes = half.sum(axis=1)
        log_weights = [
            gammaln(k + 1) + gammaln(n - k) - gammaln(n + 1)
            for k in (np.maximum(sizes - 1, 0), sizes)
        ]
        present, absent = np.exp(log_weights)
        # f(S) - f(Sᶜ) gives +p_{s-1} to the players in S and -p_s to the others
        gains = np.where(half, present[:, None], -absent[:, None])
        values = difference @ gains
        higher = [exact_interactions(sample, order) for order in range(2, max_order + 1)]
        values = np.concatenate([values, *higher])
        return Fitted(values, FitFacts(path="exact"), np.zeros(len(values)))
