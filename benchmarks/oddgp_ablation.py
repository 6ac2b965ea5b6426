"""``oddgp-ablation``: what every part of the odd Gaussian process adds, on the seen instances."""

from __future__ import annotations

import time
import warnings
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import ceil, comb
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.experiment import Experiment, Planned, games_of
from benchmarks.figures import GAME_TITLES
from benchmarks.games import FLOOR, PAPER_BUDGETS, CountedGame, load_instance
from benchmarks.report import table
from benchmarks.runner import Row, Task, row_of
from shapiq_oddshap.approximators import ffd
from shapiq_oddshap.gp import OddGPFit, fit_odd_gp
from shapiq_oddshap.gp.evidence import SearchOptions
from shapiq_oddshap.gp.kernel import signs
from shapiq_oddshap.gp.sparsity import SparseOptions
from shapiq_oddshap.sample import Sample
from shapiq_oddshap.sampling import PairedCoalitionSampler, row_weights, size_weights
from shapiq_oddshap.screening import ProxySPEX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from shapiq_oddshap.gp.correction import Strata

__all__ = ["EXPERIMENT", "VARIANTS", "Variant"]

_LOW = 10
"""The low budget, in evaluations per player."""

_NONE = (1e-8, 1.01e-8)
_SCALES = "shapiq_oddshap.gp.evidence._SCALE_BOUNDS"
_CORRECTION = "shapiq_oddshap.gp.msr_correction"


@dataclass(frozen=True)
class Variant:
    """One choice changed.

    Attributes:
        part: What it is a choice of.
        search: Options of the search that differ.
        sparse: Options of the single variances that differ.
        exchanged: What stands in for the package's functions and constants, by their paths.
        terms: Whether the proxy's terms are in the kernel.
        design: Whether the pairs are FFD-RD's, at its budget.
        own_budget: Whether FFD-RD's budget is the only one that is run.
    """

    part: str
    search: Mapping[str, Any] = field(default_factory=dict)
    sparse: Mapping[str, Any] = field(default_factory=dict)
    exchanged: Mapping[str, Any] = field(default_factory=dict)
    terms: bool = True
    design: bool = False
    own_budget: bool = False


def _no_correction(coalitions: np.ndarray, *_: object) -> np.ndarray:
    """Stand in for the correction: none."""
    return np.zeros(coalitions.shape[1])


def _regression(coalitions: np.ndarray, residuals: np.ndarray, strata: Strata) -> np.ndarray:
    """Stand in for the correction: the Shapley kernel's regression on the residuals."""
    n = coalitions.shape[1]
    root = 1.0 / np.sqrt(strata.sizes * (n - strata.sizes) * strata.drawn)
    rows = signs(coalitions) * root[:, None]
    return -2.0 * np.linalg.lstsq(rows, residuals * root, rcond=None)[0]


def _outer_sizes(n: int, pairs: int) -> np.ndarray:
    """Stand in for the shares of the sizes: as (s(n - s))^-1/2 where they were equal."""
    sizes = np.arange(1, n // 2 + 1)
    population = np.array([comb(n, int(s)) // (2 if 2 * s == n else 1) for s in sizes], dtype=float)
    share = np.where(2 * sizes == n, 0.5, 1.0) / np.sqrt(sizes * (n - sizes))
    drawn = np.zeros(len(sizes))
    for _ in range(min(pairs, int(population.sum()))):
        drawn[np.argmax(np.where(drawn < population, share / (2 * drawn + 1), -1.0))] += 1
    return np.concatenate([[0], drawn.astype(int)])


_NO_ROUNDS = {"part_rounds": 0, "rounds": 0}
BASE = Variant("")
VARIANTS: dict[str, Variant] = {
    "as it is": BASE,
    "no product part": Variant("kernel", exchanged={_SCALES: ((1e-8, 1e4), _NONE, (1e-8, 1e3))}),
    "no main effects of their own": Variant(
        "kernel", exchanged={_SCALES: (_NONE, (1e-8, 1e4), (1e-8, 1e3))}
    ),
    "no terms of the proxy": Variant("kernel", terms=False),
    "no single variances": Variant("kernel", sparse=_NO_ROUNDS),
    "no terms of either": Variant("kernel", sparse=_NO_ROUNDS, terms=False),
    "single variances, 2 + 1 rounds": Variant("single variances", sparse={"rounds": 1}),
    "single variances, 2 + 3 rounds": Variant("single variances", sparse={"rounds": 3}),
    "single variances, 1 + 2 rounds": Variant("single variances", sparse={"part_rounds": 1}),
    "single variances, on noise too": Variant("single variances", sparse={"most_noise": np.inf}),
    "terms, 0.2 per pair": Variant("single variances", sparse={"terms_per_pair": 0.2}),
    "terms, 0.5 per pair": Variant("single variances", sparse={"terms_per_pair": 0.5}),
    "no exactly sparse search": Variant("single variances", sparse={"powers": ()}),
    "sparse search without pursuit": Variant(
        "single variances", exchanged={"shapiq_oddshap.gp.sparsity._PURSUITS": 0}
    ),
    "rates, no hyperprior": Variant("hyperpriors", search={"shrinkage": 0.0}),
    "rates, hyperprior 1": Variant("hyperpriors", search={"shrinkage": 1.0}),
    "noise, no hyperprior": Variant("hyperpriors", search={"noise_shrinkage": 0.0}),
    "noise, hyperprior 0.25": Variant("hyperpriors", search={"noise_shrinkage": 0.25}),
    "search, the first 400 pairs alone": Variant(
        "search", search={"pairs": 400, "most_pairs": 400}
    ),
    "search, 500 pairs at once": Variant(
        "search", search={"pairs": 500, "most_pairs": 500, "first_pairs": 500}
    ),
    "search, 1300 pairs": Variant("search", search={"pairs": 1300}),
    "search, 15 steps at last": Variant("search", search={"iterations": 15}),
    "search, 40 steps at last": Variant("search", search={"iterations": 40}),
    "search, 15 steps at first": Variant("search", search={"first_iterations": 15}),
    "no correction": Variant("correction", exchanged={_CORRECTION: _no_correction}),
    "correction by regression": Variant("correction", exchanged={_CORRECTION: _regression}),
    "outer sizes more often": Variant(
        "sizes drawn", exchanged={"shapiq_oddshap.sampling.pairs_per_size": _outer_sizes}
    ),
    "FFD-RD's budget": Variant("training design", own_budget=True),
    "FFD-RD's budget, no correction": Variant(
        "training design", exchanged={_CORRECTION: _no_correction}, own_budget=True
    ),
    "FFD-RD's coalitions, no correction": Variant(
        "training design", exchanged={_CORRECTION: _no_correction}, design=True, own_budget=True
    ),
}
"""Every variant by name. Equation 15 needs a random sample: FFD-RD's coalitions have no correction."""


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
    game, variant = CountedGame(instance), VARIANTS[task.method]
    with threadpool_limits(1), warnings.catch_warnings(), ExitStack() as stack:
        warnings.simplefilter("ignore")
        for path, other in variant.exchanged.items():
            stack.enter_context(patch(path, other))
        start = time.perf_counter()
        fit = estimate(variant, game, task.budget, task.instance)
        elapsed = time.perf_counter() - start
    values = fit.values  # noqa: PD011 - not a data frame's
    return [
        row_of(
            task,
            value=instance.mean_squared_error(values),
            evaluations=game.evaluations,
            covered=instance.coverage(values, fit.variances),
            n=instance.n,
            seconds=round(elapsed - game.seconds, 6),
        )
    ]


def estimate(
    variant: Variant, game: Callable[[np.ndarray], np.ndarray], budget: int, seed: int
) -> OddGPFit:
    """Fit a variant, by the steps of ``OddGP``."""
    rng = np.random.default_rng(seed)
    n: int = game.n_players  # type: ignore[attr-defined]
    coalitions, weights = _sample(variant, n, budget, rng)
    sample = Sample(coalitions, game(coalitions), weights)
    rows = sample.component("odd")
    spectrum = ProxySPEX().spectrum(sample, int(rng.integers(2**31)), odd_only=True)
    terms, scores = spectrum.largest(max(ceil(len(coalitions) / 10) - n, 1), min_order=3)
    count = len(terms) if variant.terms else 0
    return fit_odd_gp(
        rows.coalitions,
        rows.targets,
        sample.total,
        importance=spectrum.importance(),
        terms=terms[:count],
        term_scores=scores[:count],
        rng=rng,
        search=SearchOptions(**variant.search),
        sparse=SparseOptions(**variant.sparse),
    )


def _sample(
    variant: Variant, n: int, budget: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return coalitions, the empty and the grand one first, and their weights for the proxy."""
    if not variant.design:
        sampler = PairedCoalitionSampler(n, random_state=int(rng.integers(2**63)))
        sampler.sample(budget)
        return sampler.coalitions_matrix, row_weights(sampler)
    found = np.unique(ffd.design(n, rng).reshape(-1, n), axis=0)
    sizes = found.sum(axis=1)
    inner = found[(sizes > 0) & (sizes < n)]
    coalitions = np.concatenate([[[False] * n, [True] * n], inner])
    return coalitions, size_weights(coalitions)


def summarise(rows: pd.DataFrame, _directory: Path) -> str:
    """Return errors and coverage by variant, at the low and the paper's budgets."""
    rows = rows.assign(log=np.log(np.maximum(rows["value"], FLOOR)))
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
    logs = rows.groupby(["method", "game"])["log"].mean().unstack()  # noqa: PD010
    covered = rows.groupby(["method", "game"])["covered"].mean().unstack()  # noqa: PD010
    seconds = rows.groupby(["method", "game"])["seconds"].median().unstack().median(axis=1)  # noqa: PD010
    names = [name for name in VARIANTS if name in logs.index]
    lines = [
        [
            name,
            VARIANTS[name].part,
            *(f"{np.exp(logs.loc[name, g]):.2g} ({covered.loc[name, g]:.2f})" for g in games),
            f"{np.exp((logs.loc[name] - logs.loc[names[0]]).mean()):.2f}",
            f"{seconds[name]:.2g}",
        ]
        for name in names
    ]
    titles = [GAME_TITLES.get(game, game) for game in games]
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
