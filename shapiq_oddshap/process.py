"""From a sample to the odd process: what the proxy says of it goes along."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from shapiq_oddshap.gp import fit_odd_gp
from shapiq_oddshap.screening import ProxySPEX

if TYPE_CHECKING:
    import numpy as np

    from shapiq_oddshap.gp import OddGPFit
    from shapiq_oddshap.sample import Sample

__all__ = ["fit_process"]


def fit_process(sample: Sample, rng: np.random.Generator) -> OddGPFit:
    """Fit the odd process to a sample of pairs.

    Args:
        sample: Evaluated coalitions, not all of one value.
        rng: Draws the proxy's seed, and the pairs that the search for the kernel looks at.
    """
    rows = sample.component("odd")
    spectrum = ProxySPEX().spectrum(sample, int(rng.integers(2**31)), odd_only=True)
    count = max(ceil(len(sample.values) / 10) - sample.n, 1)
    terms, scores = spectrum.largest(count, min_order=3)
    return fit_odd_gp(
        rows.coalitions,
        rows.targets,
        sample.total,
        importance=spectrum.importance(),
        terms=terms,
        term_scores=scores,
        rng=rng,
    )
