"""The frozen result of one run, what it says about itself, and the stopwatch of its seconds."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from shapiq import InteractionValues

__all__ = ["Diagnostics", "Estimate", "FitFacts", "Stopwatch"]


@dataclass(frozen=True, kw_only=True)
class FitFacts:
    """What a fit tells of itself: the part of :class:`Diagnostics` that is the approximator's own."""

    path: str
    screener: str | None = None
    n_terms: int = 0
    solver: str | None = None
    condition: float | None = None
    details: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Diagnostics(FitFacts):
    """What a run did, the ``diagnostics`` of an :class:`Estimate`.

    Attributes:
        approximator: Class name of the approximator.
        n: Number of players.
        budget: The budget that was asked for.
        evaluations: The evaluations that were made.
        path: How the values came about, e.g. ``"regression"``, ``"proxy"``, ``"exact"``.
        screener: Name of the screening strategy; ``None`` where none ran.
        n_terms: Number of basis functions in the regression, singletons included.
        solver: ``"cholesky"`` or ``"lstsq"``; ``None`` where nothing was solved.
        condition: Condition estimate (1-norm) of the normal matrix; ``None`` where none was formed.
        details: Further figures of the approximator by name.
        seconds: Wall-clock seconds by stage.
    """

    approximator: str
    n: int
    budget: int
    evaluations: int
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def overhead(self) -> float:
        """Seconds spent outside the game."""
        return sum(s for stage, s in self.seconds.items() if stage != "evaluation")

    def __str__(self) -> str:
        """Return a table for people."""
        solver = self.solver or "none"
        if self.condition is not None:
            solver += f" (condition {self.condition:.1e})"
        stages = "  ".join(f"{stage} {s:.3f}" for stage, s in self.seconds.items())
        lines = [
            f"{self.approximator}: n={self.n}, {self.evaluations} of {self.budget} evaluations",
            f"  path      {self.path}",
            f"  screener  {self.screener or 'none'}, {self.n_terms} terms",
            f"  solver    {solver}",
            f"  seconds   {stages}",
        ]
        lines += [f"  {name}  {value:.6g}" for name, value in self.details.items()]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Estimate:
    """The result of one run, as ``approximator.estimate(budget, game)`` returns it.

    Attributes:
        values: The Shapley values, with f(∅) as the value of the empty interaction, and the
            interactions if they were asked for.
        variances: The variances of their errors in squared units of the game: zero where all
            coalitions were evaluated, infinite where the sample tells nothing, and ``None`` where the
            approximator does not estimate them. Shape ``(n,)``; with interactions the pairs come after
            the players, and after these the triples, in the order of
            ``itertools.combinations(range(n), order)``. ``values.values`` has another order.
        diagnostics: What the run did.
    """

    values: InteractionValues
    variances: np.ndarray | None
    diagnostics: Diagnostics


class Stopwatch:
    """Adds up wall-clock seconds by stage; an inner stage is not counted in the outer one."""

    def __init__(self) -> None:
        """Start with no stage."""
        self.seconds: dict[str, float] = {}
        self._inner = 0.0

    def fork(self) -> Stopwatch:
        """Return a stopwatch that goes on from here."""
        own = Stopwatch()
        own.seconds |= self.seconds
        return own

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Time the block under the name ``stage``."""
        outer, self._inner = self._inner, 0.0
        start = time.perf_counter()
        try:
            yield
        finally:
            elapsed = time.perf_counter() - start
            self.seconds[stage] = self.seconds.get(stage, 0.0) + elapsed - self._inner
            self._inner = outer + elapsed
