"""From a sample to the odd and the even process, with what the proxy says of them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.gp import Hints, OddGPFit, OddGPRecipe, Pairs, fit_odd_gp, fit_outputs
from shapiq_oddshap.gp.fit import shares_rates
from shapiq_oddshap.gp.readout import PAIRWISE, TRIPLEWISE
from shapiq_oddshap.interactions import aggregated_odd_values, complete, k_sii_variances
from shapiq_oddshap.proxy import TreeProxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shapiq_oddshap.gp.fit import Clock
    from shapiq_oddshap.sample import Outputs, Sample
    from shapiq_oddshap.trees import Spectrum

__all__ = ["fit_interactions", "fit_process", "fit_processes"]

_ROUNDING = 1e-13
"""Relative size of an even component that is none."""

_PROXIES = 8
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
        spectrum = TreeProxy().interactions(sample, int(rng.integers(2**31)), parity="odd")
    return _fit_odd(sample, spectrum, rng, recipe, clock)


def fit_interactions(
    sample: Sample,
    rng: np.random.Generator,
    recipe: OddGPRecipe | None = None,
    clock: Clock = lambda _stage: nullcontext(),
    *,
    order: int = 2,
    aggregated: bool = False,
) -> tuple[np.ndarray, np.ndarray, OddGPFit, OddGPFit]:
    """Fit the odd process, exactly as :func:`fit_process` does, and the even one after it.

    Args:
        sample: Evaluated coalitions, not all of one value.
        rng: What the even process draws comes after what the odd one draws.
        recipe: The recipe.
        clock: Times a stage by name.
        order: The largest order, 2 or 3; triples are read off the odd process.
        aggregated: Whether the variances are those of k-SII.

    Returns:
        The Shapley interactions from order one on, their variances, and the two fits.
    """
    recipe = recipe or OddGPRecipe()
    with clock("screening"):
        spectrum = TreeProxy().interactions(sample, int(rng.integers(2**31)), parity="both")
    odd = _fit_odd(sample, spectrum.of("odd"), rng, recipe, clock)
    even = _fit_even(sample, spectrum.of("even"), rng, recipe, clock)
    values, variances = [odd.values, even.values], [odd.variances, even.variances]
    with clock("posterior"):
        if aggregated and order == 3:
            of_players, of_pairs = (odd.read(each)[1] for each in aggregated_odd_values(sample))
            variances = [of_players, even.variances]
        if aggregated:
            players = k_sii_variances(np.concatenate(variances), sample)[: sample.n]
            variances = [players, even.variances + (of_pairs if order == 3 else 0.0)]
        if order == 3:
            triples, of_triples = odd.read(TRIPLEWISE)
            values.append(complete(triples, sample, 3))
            variances.append(of_triples)
    return np.concatenate(values), np.concatenate(variances), odd, even


def _fit_odd(
    sample: Sample,
    spectrum: Spectrum,
    rng: np.random.Generator,
    recipe: OddGPRecipe,
    clock: Clock,
) -> OddGPFit:
    """Fit the odd process with the proxy's odd terms."""
    with clock("screening"):
        hints = _hints(sample, spectrum, recipe)
    even = _telling_even_pairs(sample)
    return fit_odd_gp(_pairs(sample), hints, rng, recipe, clock, even=even)


def _fit_even(
    sample: Sample,
    spectrum: Spectrum,
    rng: np.random.Generator,
    recipe: OddGPRecipe,
    clock: Clock,
) -> OddGPFit:
    """Fit the even process with the importance that the proxy's even terms give to players."""
    rows, pairs = sample.component("even"), _even_pairs(sample)
    size = pairs.largest
    if len(rows.targets) >= sample.n and size <= _ROUNDING * np.ptp(sample.values):
        # an odd game: what is left of its even component is rounding
        none = np.zeros(PAIRWISE.count(sample.n))
        variances = none + size**2
        return OddGPFit(none, variances, lambda _: (none, variances), "none")
    with clock("screening"):
        # no terms: chosen by the same values, they look better to the evidence than they are
        hints = replace(Hints.none(sample.n), importance=spectrum.importance())
    fit = fit_odd_gp(pairs, hints, rng, recipe, clock, PAIRWISE)
    return replace(fit, values=complete(fit.values, sample, 2))


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
        hints = [
            _hints(sample, TreeProxy().interactions(sample, seed, parity="odd"), recipe)
            for sample in screened
        ]
        pairs = [_pairs(sample) for sample in outputs]
        few = shares_rates(len(pairs[0].coalitions), pairs[0].n, recipe)
        evens = [_telling_even_pairs(sample) if few else None for sample in outputs]
    return fit_outputs(pairs, hints, _n_terms(outputs.sample, recipe), rng, recipe, clock, evens)


def _n_terms(sample: Sample, recipe: OddGPRecipe) -> int:
    """Return how many terms the proxy proposes."""
    return max(ceil(len(sample.values) / recipe.evaluations_per_term) - sample.n, 1)


def _hints(sample: Sample, spectrum: Spectrum, recipe: OddGPRecipe) -> Hints:
    """Return what the proxy's odd terms say."""
    largest = spectrum.largest(_n_terms(sample, recipe), min_order=3)
    return Hints(spectrum.importance(), *largest)


def _pairs(sample: Sample) -> Pairs:
    """Return the odd component."""
    rows = sample.component("odd")
    return Pairs(rows.coalitions, rows.targets, sample.total)


def _even_pairs(sample: Sample) -> Pairs:
    """Return the even component."""
    rows = sample.component("even")
    return Pairs(rows.coalitions, rows.targets, 0.0)


def _telling_even_pairs(sample: Sample) -> Pairs | None:
    """Return the even component, if it is more than rounding."""
    even = _even_pairs(sample)
    return even if even.largest > _ROUNDING * np.ptp(sample.values) else None


def _few_columns(columns: np.ndarray) -> np.ndarray:
    """Return columns in units of their own, or principal components of many, ``(<= 8, m)``."""
    centred = columns - columns.mean(axis=1, keepdims=True)
    centred /= np.abs(centred).max(axis=1, keepdims=True)
    centred /= np.sqrt(np.mean(centred**2, axis=1, keepdims=True))
    if len(columns) <= _PROXIES:
        return centred
    _, vectors = np.linalg.eigh(centred.T @ centred)
    # the projections on the leading directions, each as long as its share of all outputs
    directions = vectors[:, ::-1][:, :_PROXIES]
    return (directions * np.linalg.norm(centred @ directions, axis=0)).T
