"""From a sample to the odd process, with what the proxy says of it."""

from __future__ import annotations

from contextlib import nullcontext
from math import ceil
from typing import TYPE_CHECKING

from shapiq_oddshap.gp import Hints, OddGPRecipe, Pairs, fit_odd_gp
from shapiq_oddshap.proxy import TreeProxy

if TYPE_CHECKING:
    import numpy as np

    from shapiq_oddshap.gp import OddGPFit
    from shapiq_oddshap.gp.fit import Clock
    from shapiq_oddshap.sample import Sample

__all__ = ["fit_process"]


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
        rows = sample.component("odd")
        spectrum = TreeProxy().interactions(sample, int(rng.integers(2**31)), parity="odd")
        count = max(ceil(len(sample.values) / recipe.evaluations_per_term) - sample.n, 1)
        hints = Hints(spectrum.importance(), *spectrum.largest(count, min_order=3))
    pairs = Pairs(rows.coalitions, rows.targets, sample.total)
    return fit_odd_gp(pairs, hints, rng, recipe, clock)
