"""Several outputs at once: what they have in common is searched and factorised once."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.gp.evidence import search_alone
from shapiq_oddshap.gp.fit import (
    FREE_RATES,
    conclude,
    found_kernel,
    simple_fit,
    starting_kernels,
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

_CLEAR_NOISE = 5e-3
"""With more of it after the first search by itself, one of few outputs is not searched on: rows of
noise-free trees have less there, and half of those of conditional imputers more."""


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
    data say nothing else keeps it, and shares the factor. Two kinds of outputs are searched by
    themselves: of few outputs those without noise, which need nobody to teach them; and those to which
    the start says more than the joint maximum, which have nothing in common with the others.

    Args:
        outputs: The pairs of each; the coalitions are the same, in the same order.
        hints: What the proxies say: of each output, or of fewer principal components.
        n_terms: Terms that hints of several outputs are pooled to, see :func:`pooled`.
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
    rows = order[: recipe.search.count(count)]
    searches = _Searches(outputs, evens, hints, n_terms, rows, recipe)
    with clock("search"):
        few = hard if 1 < len(hard) <= recipe.few_outputs else []
        found = {output: searches.kernel([output], give_up=_CLEAR_NOISE) for output in few}
        little = recipe.search.little_noise
        own = {output: kernel for output, kernel in found.items() if kernel.noise <= little}
        taught = [output for output in hard if output not in own]
        joint = searches.kernel(taught) if len(taught) > 1 else None
        alike = set() if joint is None else searches.alike(taught, joint)
    helps_all = any(evens[output] is not None for output in taught)
    condition = Posterior.of if joint is None else _Shared(joint)
    for output, (pairs, even, fit) in enumerate(zip(outputs, evens, simple, strict=True)):
        if fit is not None:
            yield fit
            continue
        helps = helps_all if output in alike else even is not None
        with clock("search"):
            if joint is not None and output in alike:
                kernel = searches.kernel_near(joint, output)
            else:
                kernel = own[output] if output in own else searches.kernel([output])
        free = 0.0 if helps else FREE_RATES
        yield conclude(kernel, pairs, sub, recipe, clock, condition, free=free)


class _Searches:
    """Searches for the kernel of some of the outputs, or of one."""

    def __init__(
        self,
        outputs: Sequence[Pairs],
        evens: Sequence[Pairs | None],
        hints: Sequence[Hints],
        n_terms: int,
        rows: np.ndarray,
        recipe: OddGPRecipe,
    ) -> None:
        """Take what all of them are made of, see :func:`fit_outputs`, and the pairs to look at."""
        self._outputs, self._evens, self._rows, self._recipe = outputs, evens, rows, recipe
        self._hints, self._pooled = hints, pooled(hints, n_terms)

    def kernel(self, some: list[int], *, give_up: float = inf) -> Kernel:
        """Search for the kernel of some outputs; see ``SearchOptions.give_up``."""
        search = replace(self._recipe.search, give_up=give_up)
        one = len(some) == 1 and len(self._hints) == len(self._outputs)
        told = self._hints[some[0]] if one else self._pooled
        twins = [even for even in map(self._evens.__getitem__, some) if even is not None]
        beside = _together(twins, self._rows) if twins else None
        data = _together([self._outputs[output] for output in some], self._rows)
        return found_kernel(data, beside, told, replace(self._recipe, search=search))

    def alike(self, taught: list[int], joint: Kernel) -> set[int]:
        """Return the outputs to which the kernel of all says more than the one that searches start from."""
        data = _together([self._outputs[output] for output in taught], self._rows)
        data = self._recipe.search.first(data)
        start = starting_kernels(self._pooled, self._recipe)[0]
        better = _lost_evidences(joint, data) <= _lost_evidences(start, data)
        return set(np.array(taught)[better].tolist())

    def kernel_near(self, joint: Kernel, output: int) -> Kernel:
        """Search for an output's own kernel near that of all."""
        data = _together([self._outputs[output]], self._rows)
        return search_alone(joint, data, self._recipe.search)


def _together(outputs: Sequence[Pairs], rows: np.ndarray) -> Observations:
    """Return what the process sees of several outputs, each in units of its own, at some pairs."""
    if len(outputs) == 1:
        return outputs[0].over(outputs[0].scale).observations(rows)
    # of all observations the targets alone are kept: the rows are the same
    each = (pairs.over(pairs.scale).observations(rows) for pairs in outputs)
    targets = np.column_stack([one.targets for one in each])
    return Observations(outputs[0].observations(rows).x, targets)


def _lost_evidences(kernel: Kernel, data: Observations) -> np.ndarray:
    """Return minus the log marginal likelihood of each output, shape ``(k,)``."""
    posterior = Posterior.of(kernel, data)
    log_root = np.log(np.diag(posterior.factor)).sum()
    targets, alpha = (each.reshape(len(data.x), -1) for each in (data.targets, posterior.alpha))
    lost: np.ndarray = 0.5 * np.einsum("mk,mk->k", targets, alpha) + log_root
    return lost


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
