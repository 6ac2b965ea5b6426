"""The frozen record of what one run did, and the stopwatch that fills its seconds."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Diagnostics", "Stopwatch"]


@dataclass(frozen=True)
class Diagnostics:
    """What a run did, returned by ``approximate_with_diagnostics`` beside the values.

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
    path: str
    screener: str | None = None
    n_terms: int = 0
    solver: str | None = None
    condition: float | None = None
    details: Mapping[str, float] = field(default_factory=dict)
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


class Stopwatch:
    """Adds up wall-clock seconds by stage; an inner stage is not counted in the outer one."""

    def __init__(self) -> None:
        """Start with no stage."""
        self.seconds: dict[str, float] = {}
        self._inner = 0.0

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
