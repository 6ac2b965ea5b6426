"""Several outputs at once: what they have in common is searched and factorised once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.gp.evidence import search_alone
from shapiq_oddshap.gp.fit import (
    FREE_RATES,
    conclude,
    fit_odd_gp,
    found_kernel,
    simple_fit,
)
from shapiq_oddshap.gp.observations import Observations
from shapiq_oddshap.gp.parts import Hints
from shapiq_oddshap.gp.posterior import Posterior
from shapiq_oddshap.sampling import row_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shapiq_oddshap.gp.fit import Clock, OddGPFit, Pairs
    from shapiq_oddshap.gp.kernel import Kernel
    from shapiq_oddshap.gp.recipe import OddGPRecipe

__all__ = ["fit_outputs", "pooled"]


def pooled(hints: Sequence[Hints], count: int) -> Hints:
    """Return what the proxies of several outputs say together.

    Args:
        hints: What each says, of an output in units of its own.
        count: Terms to keep: those of the largest sums of squares.
    """
    n = hints[0].n
    importance = np.mean([one.importance for one in hints], axis=0)
    terms = np.concatenate([one.terms for one in hints])
    squares = np.concatenate([one.scores**2 for one in hints])
    if len(terms) == 0:
        return Hints(importance, np.zeros((0, n), dtype=bool), np.zeros(0))
    _, first, place = np.unique(row_keys(terms), return_index=True, return_inverse=True)
    energy = np.bincount(place, squares)
    keep = np.argsort(-energy, kind="stable")[:count]
    return Hints(importance, terms[first[keep]], np.sqrt(energy[keep]))


def fit_outputs(
    outputs: Sequence[Pairs],
    hints: Hints,
    rng: np.random.Generator,
    recipe: OddGPRecipe,
    clock: Clock,
    evens: Sequence[Pairs | None],
) -> Iterator[OddGPFit]:
    """Estimate the Shapley values of several outputs on the same coalitions.

    The evidence is the sum of all outputs' evidences, each in units of its own root mean square. Its
    maximum is where an output's own search starts and what it is pulled to, so that an output whose
    data say nothing else keeps it, and shares the factor.

    Args:
        outputs: The pairs of each; the coalitions are the same, in the same order.
        hints: What the proxies say of all of them, see :func:`pooled`.
        rng: Draws the subsamples, as in :func:`fit_odd_gp`.
        recipe: The recipe.
        clock: Times a stage by name.
        evens: The even component of each, where it is to help; see :func:`shares_rates`.

    Yields:
        The fit of each output.
    """
    simple = [simple_fit(pairs, clock) for pairs in outputs]
    hard = [output for output, fit in enumerate(simple) if fit is None]
    if len(hard) < 2:
        for pairs, even, fit in zip(outputs, evens, simple, strict=True):
            yield fit or fit_odd_gp(pairs, hints, rng, recipe, clock, even=even)
        return
    count = len(outputs[0].coalitions)
    order = rng.permutation(count)
    sub = np.sort(order[: recipe.max_pairs])
    searched = order[: recipe.search.count(count)]
    twins = [even for even in map(evens.__getitem__, hard) if even is not None]
    with clock("search"):
        data = _together([outputs[output] for output in hard], searched)
        beside = _together(twins, searched) if twins else None
        joint = found_kernel(data, beside, hints, recipe)
    shared = _Shared(joint)
    for pairs, fit in zip(outputs, simple, strict=True):
        if fit is not None:
            yield fit
            continue
        with clock("search"):
            own = search_alone(joint, pairs.over(pairs.scale).observations(searched), recipe.search)
        free = 0.0 if twins else FREE_RATES
        yield conclude(own, pairs, sub, recipe, clock, shared, free=free)


def _together(outputs: Sequence[Pairs], rows: np.ndarray) -> Observations:
    """Return what the process sees of several outputs, each in units of its own, at some pairs."""
    # of all observations the targets alone are kept: the rows are the same
    each = (pairs.over(pairs.scale).observations(rows) for pairs in outputs)
    targets = np.column_stack([one.targets for one in each])
    return Observations(outputs[0].observations(rows).x, targets)


class _Shared:
    """Conditions one kernel on many outputs, of which the first one factorises."""

    def __init__(self, kernel: Kernel) -> None:
        """Take the kernel that is shared."""
        self._kernel = kernel
        self._first: Posterior | None = None

    def __call__(self, kernel: Kernel, data: Observations) -> Posterior:
        """Condition a kernel, the shared one by its factor; the rows are always the same."""
        if kernel is not self._kernel:
            return Posterior.of(kernel, data)
        if self._first is None:
            self._first = Posterior.of(kernel, data)
            return self._first
        return self._first.with_data(data)
