"""Several outputs at once: what they have in common is searched and factorised once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.gp.evidence import search_alone
from shapiq_oddshap.gp.fit import (
    FREE_RATES,
    conclude,
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
    hints: Sequence[Hints],
    n_terms: int,
    rng: np.random.Generator,
    recipe: OddGPRecipe,
    clock: Clock,
    evens: Sequence[Pairs | None],
) -> Iterator[OddGPFit]:
    """Estimate the Shapley values of several outputs on the same coalitions.

    The evidence is the sum of all outputs' evidences, each in units of its own root mean square. Its
    maximum is where an output's own search starts and what it is pulled to, so that an output whose
    data say nothing else keeps it, and shares the factor. Of few outputs each is searched by itself
    first, and one that is found to have no noise needs nobody to teach it.

    Args:
        outputs: The pairs of each; the coalitions are the same, in the same order.
        hints: What the proxies say, of each output or of their principal components.
        n_terms: Terms that hints of all are pooled to, see :func:`pooled`.
        rng: Draws the subsamples, as in :func:`fit_odd_gp`.
        recipe: The recipe.
        clock: Times a stage by name.
        evens: The even component of each, where it is to help; see :func:`shares_rates`.

    Yields:
        The fit of each output.
    """
    simple = [simple_fit(pairs, clock) for pairs in outputs]
    hard = [output for output, fit in enumerate(simple) if fit is None]
    count = len(outputs[0].coalitions)
    order = rng.permutation(count)
    sub = np.sort(order[: recipe.max_pairs])
    searched = order[: recipe.search.count(count)]
    together = pooled(hints, n_terms)
    own_hints = hints if len(hints) == len(outputs) else [together] * len(outputs)

    def found(some: list[int], told: Hints) -> Kernel:
        twins = [even for even in map(evens.__getitem__, some) if even is not None]
        beside = _together(twins, searched) if twins else None
        data = _together([outputs[output] for output in some], searched)
        return found_kernel(data, beside, told, recipe)

    with clock("search"):
        few = hard if len(hard) <= max(recipe.few_outputs, 1) else []
        own = {output: found([output], own_hints[output]) for output in few}
        little = recipe.search.little_noise
        taught = [output for output in hard if output not in own or own[output].noise > little]
        joint = found(taught, together) if len(taught) > 1 else None
    condition = Posterior.of if joint is None else _Shared(joint)
    for output, (pairs, fit) in enumerate(zip(outputs, simple, strict=True)):
        if fit is not None:
            yield fit
            continue
        helpers = [output]
        if joint is not None and output in taught:
            helpers = taught
            with clock("search"):
                own[output] = search_alone(joint, _together([pairs], searched), recipe.search)
        free = FREE_RATES if all(evens[helper] is None for helper in helpers) else 0.0
        yield conclude(own.pop(output), pairs, sub, recipe, clock, condition, free=free)


def _together(outputs: Sequence[Pairs], rows: np.ndarray) -> Observations:
    """Return what the process sees of several outputs, each in units of its own, at some pairs."""
    if len(outputs) == 1:
        return outputs[0].over(outputs[0].scale).observations(rows)
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
