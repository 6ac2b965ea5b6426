"""``active-ablation``: what every choice in choosing the coalitions gives, on the seen instances."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import active, suite
from benchmarks.experiment import Experiment, Planned
from benchmarks.games import load_instance
from benchmarks.report import table
from benchmarks.runner import Row, Task, measure
from shapiq_oddshap import OddGP, UnpairedCoalitionSampler
from shapiq_oddshap.approximators.base import Fitted, Plan
from shapiq_oddshap.choosing import ChoiceOptions
from shapiq_oddshap.diagnostics import FitFacts
from shapiq_oddshap.gp.choice import choose
from shapiq_oddshap.gp.evidence import SearchOptions, maximise_evidence, search_hyperparameters
from shapiq_oddshap.gp.kernel import Kernel
from shapiq_oddshap.gp.observations import Observations
from shapiq_oddshap.gp.parts import (
    SIZE_PARTS,
    ChangingEffects,
    Constant,
    Hints,
    MainEffects,
    Product,
)
from shapiq_oddshap.gp.posterior import Posterior
from shapiq_oddshap.gp.readout import SHAPLEY_VALUES
from shapiq_oddshap.gp.signs import signs
from shapiq_oddshap.sampling import drawn_pairs, row_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pandas as pd

    from shapiq_oddshap.approximators.base import Design, Run
    from shapiq_oddshap.gp.parts import Part
    from shapiq_oddshap.sample import Sample

__all__ = ["EXPERIMENT", "VARIANTS", "OddGPOnF", "SinglesOddGP", "Variant"]

_FACTORS = (3, 4, 6, 10)
_PARTS_OF_F: tuple[type[Part], ...] = (Constant, MainEffects, Product)
_POOL = 1000
"""Single coalitions among which a batch is chosen."""


class ChoosingOddGP(OddGP):
    """The estimator with other options of the choice."""

    def __init__(self, n: int, *, choice: ChoiceOptions, **options: Any) -> None:  # noqa: ANN401
        """Initialize; ``choice`` has the options."""
        super().__init__(n, **options)
        self.choice = choice

    def _choice(self) -> ChoiceOptions:
        return self.choice


class OddGPOnF(OddGP):
    """A process on the game itself, with both halves, whose coalitions need no complements.

    Its Shapley values are those of its odd half. There is no correction: the coalitions are no
    random sample.
    """

    def _fit(self, sample: Sample, notes: int, run: Run) -> Fitted:
        """Search from both starts, condition, and read off."""
        del run
        if np.ptp(sample.values) == 0:
            none = np.zeros(self.n)
            return Fitted(none, FitFacts(path="constant"), np.full(self.n, np.inf))
        data, scale = _data_on_f(sample.coalitions, sample.values)
        starts = [_start_on_f(self.n, (*_PARTS_OF_F, *more)) for more in ((), SIZE_PARTS)]
        posterior = Posterior.of(search_hyperparameters(starts, data, SearchOptions()), data)
        values = SHAPLEY_VALUES.complete(posterior.shapley_values() * scale, sample.total)
        facts = FitFacts(path="gp", details={"chosen": float(notes)})
        return Fitted(values, facts, posterior.shapley_variances() * scale**2)


class SinglesOddGP(OddGPOnF):
    """The same on chosen single coalitions of any size, after pairs that are drawn."""

    def _design(self, run: Run) -> Design:
        """Ask for the coalitions that tell the most, one by one."""
        n, options, rng = self.n, ChoiceOptions(), run.rng
        wanted = min(run.budget, 2**n) - 2
        start = drawn_pairs(n, min(int(options.start * n), wanted // 2), int(rng.integers(2**63)))
        rows = np.concatenate([[[False] * n, [True] * n], start, ~start])
        values = yield rows
        kernel, iterations = _start_on_f(n, _PARTS_OF_F), options.iterations
        while len(rows) - 2 < wanted:
            batch = min(2 * options.batch(len(rows) // 2), wanted + 2 - len(rows))
            data, _ = _data_on_f(rows, values)
            kernel = maximise_evidence(kernel, data, SearchOptions(), iterations)[0]
            iterations = 2
            sampler = UnpairedCoalitionSampler(n, random_state=int(rng.integers(2**31)))
            sampler.sample(min(_POOL, 2**n))
            pool = sampler.coalitions_matrix[2:]
            pool = pool[~np.isin(row_keys(pool), row_keys(rows))]
            new = pool[choose([Posterior.of(kernel, data)], pool, np.full(n + 1, batch), batch)]
            if len(new) == 0:
                break
            values = np.concatenate([values, (yield new)])
            rows = np.concatenate([rows, new])
        return Plan(notes=0)


def _start_on_f(n: int, parts: tuple[type[Part], ...]) -> Kernel:
    """Return the kernel of a game from which the search starts."""
    return Kernel.start(Hints.none(n), parts, "both")


def _data_on_f(rows: np.ndarray, values: np.ndarray) -> tuple[Observations, float]:
    """Return what a process on the game sees, and its unit; the first two rows are without noise."""
    scale = float(values.std()) or 1.0
    return Observations(signs(rows), (values - values.mean()) / scale, exact=2), scale


@dataclass(frozen=True)
class Variant:
    """One choice changed.

    Attributes:
        part: What it is a choice of.
        choice: The options of the choice; ``None`` where the approximator has none.
        approximator: What runs it.
        options: Its other options.
    """

    part: str
    choice: ChoiceOptions | None = None
    approximator: type[OddGP] = ChoosingOddGP
    options: tuple[tuple[str, str], ...] = ()

    @property
    def build(self) -> partial[OddGP]:
        """What makes the approximator."""
        options: dict[str, Any] = dict(self.options)
        if self.choice is not None:
            options["choice"] = self.choice
        return partial(self.approximator, **options)


def _changed(part: str, **options: object) -> Variant:
    """Return a variant by the options of the choice."""
    return Variant(part, replace(ChoiceOptions(), **options))  # type: ignore[arg-type]


VARIANTS: dict[str, Variant] = {
    "as it is": _changed(""),
    "all pairs drawn": Variant("", None, OddGP, (("design", "paired"),)),
    "start: 0.25 pairs per player": _changed("start", start=0.25),
    "start: 1 pair per player": _changed("start", start=1.0),
    "start: 2 pairs per player": _changed("start", start=2.0),
    "batches: one pair": _changed("batch", share=0.0, least_batch=1),
    "batches: a third": _changed("batch", share=0.33),
    "candidates: 20 of a size": _changed("pool", candidates=20, per_seat=2),
    "candidates: 500 of a size": _changed("pool", candidates=500),
    "evidence: 8 steps at every batch": _changed("search", growth=1.0, more_iterations=8),
    "kernel: main effects alone": _changed("parts", parts=(MainEffects,)),
    "kernel: product alone": _changed("parts", parts=(Product,)),
    "kernel: changing main effects too": _changed(
        "parts", parts=(MainEffects, Product, ChangingEffects)
    ),
    "kernel: all parts of the size too": _changed(
        "parts", parts=(MainEffects, Product, *SIZE_PARTS)
    ),
    "pairs: a process on f": Variant("singles against pairs", None, OddGPOnF),
    "singles: a process on f": Variant("singles against pairs", None, SinglesOddGP),
}
"""Every variant by name."""


def plan(game: Planned, methods: Sequence[str], budgets: Sequence[int] | None) -> Iterator[Task]:
    """Yield the variants at 3 to 10 evaluations per player."""
    yield from suite.plan(game, methods, budgets or [factor * game.n for factor in _FACTORS])


def ablate(task: Task) -> list[Row]:
    """Run one variant."""
    return [measure(task, load_instance(task.source, task.instance), VARIANTS[task.method].build)]


def summarise(rows: pd.DataFrame, _directory: Path) -> str:
    """Return every variant's errors over those of the first, its coverage and seconds."""
    rows = suite.relative_errors(rows)
    runs = ["domain", "game", "factor", "instance", "repetition"]
    logs = np.log(rows.set_index([*runs, "method"])["error"]).unstack()  # noqa: PD010
    first = next(name for name in VARIANTS if name in logs)
    ratios = logs.sub(logs[first], axis=0).groupby(["domain", "game", "factor"]).mean()
    factors = sorted(rows["factor"].unique())
    means = np.exp(ratios.groupby("factor").mean())
    domains = np.exp(ratios.groupby(["domain", "factor"]).mean())
    covered = rows.groupby("method")["covered"].mean()
    seconds = rows[rows["factor"] == factors[-1]].groupby("method")["seconds"].median()
    names = [name for name in VARIANTS if name in logs]
    lines = [
        [
            name,
            VARIANTS[name].part,
            *(f"{means.loc[factor, name]:.2f}" for factor in factors),
            f"{domains[name].min():.2f} ({' '.join(_place(domains[name].idxmin()))})",
            f"{domains[name].max():.2f} ({' '.join(_place(domains[name].idxmax()))})",
            f"{covered[name]:.2f}",
            f"{seconds[name]:.2g}",
        ]
        for name in names
    ]
    titles = ["variant", "part", *(f"{factor:g} n" for factor in factors)]
    titles += ["best domain", "worst domain", "covered", f"seconds at {factors[-1]:g} n"]
    intro = (
        f"Instances that served to choose the recipe: {rows['instance'].nunique()} of every family at most. Squared errors over those of the "
        "first line, geometric means over the families; the best and the worst domain and budget; the share of the "
        f"true values within the 90 % intervals; median seconds outside the game.{_spread(logs[first])}\n"
    )
    return "\n".join([intro, table(titles, lines)])


def _place(index: tuple[str, float]) -> tuple[str, str]:
    """Return a domain and a budget in words."""
    return index[0], f"{index[1]:g} n"


def _spread(logs: pd.Series) -> str:
    """Return by how much runs of the first variant differ, where there are several."""
    spread = logs.groupby(["game", "factor", "instance"]).std().median()
    if not np.isfinite(spread):
        return ""
    return (
        f" One run differs from another of the same variant by {np.expm1(spread):.0%} of the error."
    )


EXPERIMENT = Experiment(
    name="active-ablation",
    question="What does every choice in choosing the coalitions give?",
    plan=plan,
    summarise=summarise,
    work=ablate,
    methods=tuple(VARIANTS),
    games=active.STORED,
    instances=2,
    add_options=suite.add_options,
    sources=suite.sources,
    choose=suite.choose,
)
