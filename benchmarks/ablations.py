"""``eta``, ``pairing`` and ``trees``: ratios of errors when one choice of OddSHAP changes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import gmean

from benchmarks.experiment import Experiment, Planned
from benchmarks.figures import ratio_figure
from benchmarks.games import game_title, games_of
from benchmarks.methods import METHODS
from benchmarks.report import table
from benchmarks.runner import Task

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = ["ABLATIONS", "DEPTH", "ETA", "PAIRING", "TREES", "Ablation", "Variant", "ratios"]

_BUDGETS = (5_000, 10_000, 20_000)
_MOST_TERMS = 5_000


@dataclass(frozen=True)
class Variant:
    """A choice: a method and its options, and what the figure calls it."""

    label: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """Method and options as in the CSV."""
        return self.method, json.dumps(self.options, sort_keys=True)

    def terms(self, budget: int) -> float:
        """Return how many terms the regression holds."""
        return budget / float(self.options.get("interaction_factor", 10))


@dataclass(frozen=True)
class Ablation:
    """Variants on one axis, what their errors are divided by, and a remark on the results."""

    axis: str
    baseline: Variant
    variants: tuple[Variant, ...]
    note: str = ""


_DEFAULT = Variant("default", "oddshap")
ETA = Ablation(
    "η, evaluations per term",
    Variant("LeverageSHAP (no interactions)", "oddshap", {"max_interactions": 0}),
    tuple(Variant(str(eta), "oddshap", {"interaction_factor": eta}) for eta in (2, 5, 10, 50)),
    f"Regressions on more than {_MOST_TERMS:,} terms are left out: each takes a quarter of an hour.",
)
PAIRING = Ablation(
    "coalitions and terms",
    _DEFAULT,
    tuple(
        Variant(label, method)
        for label, method in {
            "paired, odd": "oddshap",
            "paired, all": "oddshap-paired-all",
            "unpaired, all": "oddshap-unpaired-all",
            "unpaired, odd": "oddshap-unpaired-odd",
        }.items()
    ),
)
DEPTH = Ablation(
    "maximum depth of a tree",
    _DEFAULT,
    tuple(
        Variant(str(depth), "oddshap", {"proxy_params": {"max_depth": depth}})
        for depth in (1, 2, 5, 10, 20)
    ),
)
TREES = Ablation(
    "number of trees",
    _DEFAULT,
    tuple(
        Variant(str(trees), "oddshap", {"proxy_params": {"n_estimators": trees}})
        for trees in (10, 50, 100, 200)
    ),
)


def plan(
    ablations: Sequence[Ablation],
    game: Planned,
    methods: Sequence[str],
    budgets: Sequence[int] | None,
) -> Iterator[Task]:
    """Yield the variants of the given methods at 5000, 10000 and 20000 evaluations.

    What they are compared with comes along. Budgets that reach all coalitions are left out: every
    estimator is exact there.
    """
    wanted = [a.baseline for a in ablations]
    wanted += [v for a in ablations for v in a.variants if v.method in methods]
    for instance in game.instances:
        for budget in budgets or _BUDGETS:
            if budget < 2**game.n:
                affordable = (v for v in wanted if v.terms(budget) <= _MOST_TERMS)
                for method, options in dict.fromkeys(variant.key for variant in affordable):
                    yield Task(game.source, instance, method, budget, options)


def ratios(rows: pd.DataFrame, ablation: Ablation) -> pd.DataFrame:
    """Return ``game, budget, instance, repetition, variant, ratio`` for every variant that has been run."""
    keys = ["game", "budget", "instance", "repetition"]
    errors = {
        key: part.set_index(keys)["value"] for key, part in rows.groupby(["method", "options"])
    }
    base = errors[ablation.baseline.key]
    found = [
        (errors[variant.key] / base).rename("ratio").reset_index().assign(variant=variant.label)
        for variant in ablation.variants
        if variant.key in errors
    ]
    return pd.concat(found).dropna()


def summarise(ablations: Mapping[str, Ablation], rows: pd.DataFrame, directory: Path) -> str:
    """Draw and tabulate the ratios of every ablation."""
    parts = []
    for name, ablation in ablations.items():
        data = ratios(rows, ablation)
        labels = [v.label for v in ablation.variants if v.label in set(data["variant"])]
        ratio_figure(data, labels, ablation.axis, directory / f"{name}.png")
        parts.append(
            f"## Error over that of {ablation.baseline.label}, by {ablation.axis}\n\n"
            f"Median of the instances' ratios with interquartile band. {ablation.note}\n\n"
            f"![]({name}.png)\n\n" + _table(data, labels, ablation.axis)
        )
    return "\n".join(parts)


def _table(data: pd.DataFrame, labels: Sequence[str], axis: str) -> str:
    """Return the median ratios, and their geometric mean over the games."""
    medians = data.groupby(["budget", "variant", "game"])["ratio"].median().unstack()  # noqa: PD010
    games = games_of(data)
    lines = [
        [
            str(budget),
            label,
            *("-" if np.isnan(r) else f"{r:.3g}" for r in medians.loc[(budget, label), games]),
            f"{gmean(medians.loc[(budget, label)], nan_policy='omit'):.3g}",
        ]
        for budget in sorted(data["budget"].unique())
        for label in labels
        if (budget, label) in medians.index
    ]
    return table(["evaluations", axis, *(game_title(g) for g in games), "geometric mean"], lines)


def _experiment(
    name: str, question: str, ablations: Mapping[str, Ablation], instances: int
) -> Experiment:
    """Return the experiment of some ablations."""
    used = {v.method for a in ablations.values() for v in (a.baseline, *a.variants)}
    return Experiment(
        name=name,
        question=question,
        plan=partial(plan, tuple(ablations.values())),
        summarise=partial(summarise, ablations),
        methods=tuple(method for method in METHODS if method in used),
        instances=instances,
    )


ABLATIONS = (
    _experiment("eta", "How many interactions should the regression hold?", {"eta": ETA}, 5),
    _experiment("pairing", "What do paired sampling and odd terms add?", {"pairing": PAIRING}, 10),
    _experiment("trees", "How large should the proxy be?", {"depth": DEPTH, "trees": TREES}, 10),
)
