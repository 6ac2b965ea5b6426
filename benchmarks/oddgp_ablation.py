"""``oddgp-ablation``: what every part of the odd Gaussian process adds, on the seen instances."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import gmean

from benchmarks.experiment import Experiment, Planned
from benchmarks.games import FLOOR, PAPER_BUDGETS, game_title, games_of, load_instance
from benchmarks.report import table
from benchmarks.runner import Row, Task, measure
from shapiq_oddshap import OddGP
from shapiq_oddshap.approximators import ffd
from shapiq_oddshap.approximators.base import Plan
from shapiq_oddshap.gp import OddGPRecipe
from shapiq_oddshap.gp.parts import (
    ChangingEffects,
    Jump,
    LearningCurve,
    MainEffects,
    Product,
    Terms,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pandas as pd

    from shapiq_oddshap.approximators.base import Design, Run

__all__ = ["EXPERIMENT", "VARIANTS", "FactorialOddGP", "Variant"]

_LOW = 10
"""The low budget, in evaluations per player."""


class FactorialOddGP(OddGP):
    """The odd process on FFD-RD's coalitions; they are no random sample, so there is no correction."""

    def required_budget(self) -> int:
        """Return FFD-RD's budget."""
        return ffd.required_budget(self.n)

    def _design(self, run: Run) -> Design:
        """Ask for the union of all players' designs."""
        yield ffd.design(self.n, run.rng)
        return Plan(notes=0)


@dataclass(frozen=True)
class Variant:
    """One choice changed.

    Attributes:
        part: What it is a choice of.
        recipe: The recipe.
        approximator: What runs it.
        own_budget: Whether FFD-RD's budget is the only one that is run.
    """

    part: str
    recipe: OddGPRecipe = field(default_factory=OddGPRecipe)
    approximator: type[OddGP] = OddGP
    own_budget: bool = False


_RECIPE = OddGPRecipe()


def _changed(part: str, stage: str | None = None, **options: object) -> Variant:
    """Return a variant by the options of the recipe, or of one of its stages."""
    if stage is None:
        return Variant(part, replace(_RECIPE, **options))  # type: ignore[arg-type]
    return Variant(part, replace(_RECIPE, **{stage: replace(getattr(_RECIPE, stage), **options)}))


def _rounds(**options: object) -> Variant:
    return _changed("single variances", "reweighting", **options)


def _search(part: str = "search", **options: object) -> Variant:
    return _changed(part, "search", **options)


_NO_ROUNDS = replace(_RECIPE.reweighting, part_rounds=0, rounds=0)
VARIANTS: dict[str, Variant] = {
    "as it is": Variant(""),
    "no product part": _changed("kernel", parts=(MainEffects, Terms)),
    "no main effects of their own": _changed("kernel", parts=(Product, Terms)),
    "no terms of the proxy": _changed("kernel", parts=(MainEffects, Product)),
    "no single variances": _changed("kernel", reweighting=_NO_ROUNDS),
    "no terms of either": _changed("kernel", reweighting=_NO_ROUNDS, parts=(MainEffects, Product)),
    "no size parts": _changed("sizes", size_parts=()),
    "smooth size parts alone": _changed("sizes", size_parts=(LearningCurve, Jump, ChangingEffects)),
    "jump alone": _changed("sizes", size_parts=(Jump,)),
    "no changing main effects": _changed(
        "sizes", size_parts=tuple(p for p in _RECIPE.size_parts if p is not ChangingEffects)
    ),
    "size parts always": _changed(
        "sizes", parts=(*_RECIPE.parts, *_RECIPE.size_parts), size_parts=()
    ),
    "single variances, 2 + 1 rounds": _rounds(rounds=1),
    "single variances, 2 + 3 rounds": _rounds(rounds=3),
    "single variances, 1 + 2 rounds": _rounds(part_rounds=1),
    "single variances, on noise too": _rounds(most_noise=np.inf),
    "terms, 0.2 per pair": _rounds(terms_per_pair=0.2),
    "terms, 0.5 per pair": _rounds(terms_per_pair=0.5),
    "no exactly sparse search": _changed("single variances", "recovery", powers=()),
    "sparse search without pursuit": _changed("single variances", "recovery", pursuits=0),
    "rates, no hyperprior": _search("hyperpriors", shrinkage=0.0),
    "rates, hyperprior 1": _search("hyperpriors", shrinkage=1.0),
    "noise, no hyperprior": _search("hyperpriors", noise_shrinkage=0.0),
    "noise, hyperprior 0.25": _search("hyperpriors", noise_shrinkage=0.25),
    "search, the first 400 pairs alone": _search(pairs=400, most_pairs=400, first_pairs=1600),
    "search, 500 pairs at once": _search(pairs=500, most_pairs=500, first_pairs=2000),
    "search, 1300 pairs": _search(pairs=1300),
    "search, 15 steps at last": _search(iterations=15),
    "search, 40 steps at last": _search(iterations=40),
    "search, 15 steps at first": _search(first_iterations=15),
    "no correction": _changed("correction", correction=False),
    "FFD-RD's budget": Variant("training design", own_budget=True),
    "FFD-RD's budget, no correction": replace(
        _changed("training design", correction=False), own_budget=True
    ),
    "FFD-RD's coalitions, no correction": replace(
        _changed("training design", correction=False), approximator=FactorialOddGP, own_budget=True
    ),
}
"""Every variant by name."""


def plan(game: Planned, methods: Sequence[str], budgets: Sequence[int] | None) -> Iterator[Task]:
    """Yield the variants on the first instances, which served to choose the recipe."""
    regular = budgets or (_LOW * game.n, PAPER_BUDGETS.get(game.source.name, 100 * game.n))
    for instance in game.instances:
        for method in methods:
            own = VARIANTS[method].own_budget
            for budget in (ffd.required_budget(game.n),) if own else regular:
                yield Task(game.source, instance, method, budget)


def ablate(task: Task) -> list[Row]:
    """Run one variant."""
    instance = load_instance(task.source, task.instance)
    variant = VARIANTS[task.method]
    build = partial(variant.approximator, recipe=variant.recipe)
    return [measure(task, instance, build)]


def summarise(rows: pd.DataFrame, _directory: Path) -> str:
    """Return errors and coverage by variant, at the low and the paper's budgets."""
    rows = rows.assign(value=np.maximum(rows["value"], FLOOR))
    kinds = {
        f"At {_LOW} evaluations per player": rows["budget"] == _LOW * rows["n"],
        "At the paper's budgets": rows["budget"] == rows["game"].map(PAPER_BUDGETS),
        "At FFD-RD's budget": rows["budget"] == rows["n"].map(ffd.required_budget),
    }
    intro = (
        f"Instances 0 to {rows['instance'].max()} of each game, which served to choose the recipe. "
        "Geometric mean squared errors, in brackets the share of the true values within the 90 % "
        "intervals (and a billionth of the largest value, for those recovered to rounding); the last columns are the geometric mean over the games of the ratio to the first "
        f"line, and the median seconds over the games. Errors below {FLOOR:.0e} count as that.\n"
    )
    parts = [intro]
    for title, chosen in kinds.items():
        if chosen.any():
            parts += [f"## {title}\n", _table(rows[chosen])]
    return "\n".join(parts)


def _table(rows: pd.DataFrame) -> str:
    """Return a line per variant."""
    games = games_of(rows)
    errors = rows.groupby(["method", "game"])["value"].agg(gmean).unstack()  # noqa: PD010
    covered = rows.groupby(["method", "game"])["covered"].mean().unstack()  # noqa: PD010
    seconds = rows.groupby(["method", "game"])["seconds"].median().unstack().median(axis=1)  # noqa: PD010
    names = [name for name in VARIANTS if name in errors.index]
    lines = [
        [
            name,
            VARIANTS[name].part,
            *(f"{errors.loc[name, g]:.2g} ({covered.loc[name, g]:.2f})" for g in games),
            f"{gmean(errors.loc[name] / errors.loc[names[0]], nan_policy='omit'):.2f}",
            f"{seconds[name]:.2g}",
        ]
        for name in names
    ]
    titles = [game_title(game) for game in games]
    return table(["variant", "part", *titles, "ratio", "seconds"], lines)


EXPERIMENT = Experiment(
    name="oddgp-ablation",
    question="What does every part of the odd Gaussian process add?",
    plan=plan,
    summarise=summarise,
    work=ablate,
    methods=tuple(VARIANTS),
    games=("distilbert", "vit16", "cancer", "il60", "cg60"),
    instances=2,
)
