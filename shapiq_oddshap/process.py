"""From a sample to the odd process, with what the proxy says of it."""

from __future__ import annotations

from contextlib import nullcontext
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.gp import Hints, OddGPRecipe, Pairs, fit_odd_gp, fit_outputs, pooled
from shapiq_oddshap.proxy import TreeProxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shapiq_oddshap.gp import OddGPFit
    from shapiq_oddshap.gp.fit import Clock
    from shapiq_oddshap.sample import Outputs, Sample

__all__ = ["fit_process", "fit_processes"]

_PROXIES = 16
"""Of more outputs, so many principal components stand for all in the proxies' eyes."""


def fit_process(
    sample: Sample,
    rng: np.random.Generator,
    recipe: OddGPRecipe | None = None,
    clock: Clock = lambda _stage: nullcontext(),
) -> OddGPFit:
    """Fit the odd process to a sample of pairs.

    Args:
        sample: Evaluated coalitions, not all of one value.
        rng: Draws the proxy's seed, and the pairs that the search for the kernel looks at.
        recipe: The recipe.
        clock: Times a stage by name.
    """
    recipe = recipe or OddGPRecipe()
    with clock("screening"):
        hints = _hints(sample, int(rng.integers(2**31)), recipe)
    return fit_odd_gp(_pairs(sample), hints, rng, recipe, clock)


def fit_processes(
    outputs: Outputs,
    rng: np.random.Generator,
    recipe: OddGPRecipe | None = None,
    clock: Clock = lambda _stage: nullcontext(),
) -> Iterator[OddGPFit]:
    """Fit the odd process to several outputs together; see :func:`fit_process`.

    Args:
        outputs: Evaluated coalitions; no output is of one value.
        rng: Draws the seed of all proxies, and the pairs that the searches look at.
        recipe: The recipe.
        clock: Times a stage by name.
    """
    recipe = recipe or OddGPRecipe()
    with clock("screening"):
        seed = int(rng.integers(2**31))
        screened = map(outputs.sample.with_values, _few_columns(outputs.columns))
        hints = [_hints(sample, seed, recipe) for sample in screened]
        together = pooled(hints, _n_terms(outputs.sample, recipe))
        pairs = [_pairs(sample) for sample in outputs]
    return fit_outputs(pairs, together, rng, recipe, clock)


def _n_terms(sample: Sample, recipe: OddGPRecipe) -> int:
    """Return how many terms the proxy proposes."""
    return max(ceil(len(sample.values) / recipe.evaluations_per_term) - sample.n, 1)


def _hints(sample: Sample, seed: int, recipe: OddGPRecipe) -> Hints:
    """Return what the proxy says."""
    spectrum = TreeProxy().interactions(sample, seed, parity="odd")
    largest = spectrum.largest(_n_terms(sample, recipe), min_order=3)
    return Hints(spectrum.importance(), *largest)


def _pairs(sample: Sample) -> Pairs:
    """Return the odd component."""
    rows = sample.component("odd")
    return Pairs(rows.coalitions, rows.targets, sample.total)


def _few_columns(columns: np.ndarray) -> np.ndarray:
    """Return columns in units of their own, or principal components of many, ``(<= 16, m)``."""
    centred = columns - columns.mean(axis=1, keepdims=True)
    centred /= np.abs(centred).max(axis=1, keepdims=True)
    centred /= np.sqrt(np.mean(centred**2, axis=1, keepdims=True))
    if len(columns) <= _PROXIES:
        return centred
    _, vectors = np.linalg.eigh(centred.T @ centred)
    # the projections on the leading directions, each as long as its share of all outputs
    directions = vectors[:, ::-1][:, :_PROXIES]
    return (directions * np.linalg.norm(centred @ directions, axis=0)).T
