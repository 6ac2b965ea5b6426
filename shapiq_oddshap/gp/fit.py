"""The conductor: from pairs and one component there to the values read off it and their variances."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.gp.correction import Strata
from shapiq_oddshap.gp.evidence import maximise_evidence, search_hyperparameters
from shapiq_oddshap.gp.exact_fit import (
    TOLERANCE,
    ExactFit,
    few_levels,
    fit_exactly,
    may_be_accident,
)
from shapiq_oddshap.gp.intervals import calibrated_variances, level_variances
from shapiq_oddshap.gp.kernel import Kernel
from shapiq_oddshap.gp.observations import Observations
from shapiq_oddshap.gp.parts import Product, Terms
from shapiq_oddshap.gp.posterior import Posterior
from shapiq_oddshap.gp.readout import PAIRWISE, SHAPLEY_VALUES
from shapiq_oddshap.gp.recipe import OddGPRecipe
from shapiq_oddshap.gp.recovery import find_terms
from shapiq_oddshap.gp.reweighting import explicit_terms, reweight
from shapiq_oddshap.gp.shared import search_shared_rates

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from shapiq_oddshap.gp.parts import Hints
    from shapiq_oddshap.gp.readout import Readout

    Clock = Callable[[str], AbstractContextManager[None]]
    Read = Callable[[Readout], tuple[np.ndarray, np.ndarray]]

__all__ = [
    "FREE_RATES",
    "OddGPFit",
    "Pairs",
    "conclude",
    "fit_odd_gp",
    "found_kernel",
    "shares_rates",
    "simple_fit",
]

FREE_RATES = 0.8
"""Degrees of freedom of a rate and of a variance: the hyperprior takes about a fifth. Where the even
values help to find them it is none, by the coverage of intervals on the chosen instances."""

_CLEARLY = 10.0
"""So many times the noise that is too much for single terms a start on few pairs does not have of a
game that has less: sums of unanimity games have five times as much there as in the end."""

_LEFT_OUT = 5
"""Every so many pairs one is left out to see whether the others tell a function too: pairs are in
order of their sizes, so that each size loses its share."""


@dataclass(frozen=True)
class Pairs:
    """What is known of the odd or of the even component.

    Attributes:
        coalitions: One member of each complementary pair, none empty or full, ``(m, n)``.
        targets: ``(f(S) - f(S^c)) / 2``, or ``(f(S) + f(S^c)) / 2`` less its value at the empty
            coalition, shape ``(m,)``.
        total: ``f(N) - f(empty)``, zero for the even component.
    """

    coalitions: np.ndarray
    targets: np.ndarray
    total: float

    @property
    def n(self) -> int:
        """Number of players."""
        return int(self.coalitions.shape[1])

    @property
    def largest(self) -> float:
        """The largest of all odd values."""
        return float(max(np.abs(self.targets).max(initial=0.0), 0.5 * abs(self.total)))

    @property
    def scale(self) -> float:
        """The root mean square of all odd values."""
        # the maximum first: squares of huge or tiny values would leave the range of a double
        top = self.largest
        targets = np.concatenate([[-0.5 * self.total], self.targets])
        return top * float(np.sqrt(np.mean((targets / top) ** 2)))

    def over(self, unit: float) -> Pairs:
        """Return the same in another unit."""
        return Pairs(self.coalitions, self.targets / unit, self.total / unit)

    def observations(self, rows: np.ndarray) -> Observations:
        """Return what the process sees of some of the pairs."""
        return Observations.of(self.coalitions[rows], self.targets[rows], 0.5 * self.total)


@dataclass(frozen=True)
class OddGPFit:
    """The values that are read off a component, and their variances.

    Attributes:
        values: Shapley values, which sum to the total, shape ``(n,)``, or one interaction per set of
            players.
        variances: Their variances, infinite where the data give no scale, of the same shape.
        read: Returns values and variances of another read-out of the same component.
        path: ``"none"`` where the component is unknown or zero, ``"additive"`` or ``"pairwise"``,
            ``"sparse"`` or ``"gp"``.
        n_terms: Terms with a variance or a coefficient of their own: of an exact fit all that it
            has, else the explicit ones of the kernel.
        noise: Standard deviation of what the fit leaves to noise, in units of the game.
        pairs: Pairs that the values were fitted to.
        error: Mean squared error at pairs left out, in squared units of the game; infinite if
            there is none to tell.
    """

    values: np.ndarray
    variances: np.ndarray
    read: Read
    path: str
    n_terms: int = 0
    noise: float = 0.0
    pairs: int = 0
    error: float = 0.0


def fit_odd_gp(
    pairs: Pairs,
    hints: Hints,
    rng: np.random.Generator,
    recipe: OddGPRecipe | None = None,
    clock: Clock = lambda _stage: nullcontext(),
    readout: Readout = SHAPLEY_VALUES,
    even: Pairs | None = None,
) -> OddGPFit:
    """Estimate by the Gaussian process of a component and a correction on its residuals.

    Args:
        pairs: The coalitions and the component there.
        hints: What the proxy says.
        rng: Draws the subsample of the search, and that of the process past ``max_pairs``.
        recipe: The recipe.
        clock: Times a stage by name: search, reweighting, recovery, posterior.
        readout: What is read off, and with it of which component the pairs are.
        even: The even component of the same pairs, where it is known and the odd one is fitted: of
            few pairs its values help to find the rates.

    Returns:
        The fit.
    """
    recipe = recipe or OddGPRecipe()
    simple = simple_fit(pairs, clock, readout)
    if simple is not None:
        return simple
    count = len(pairs.coalitions)
    order = rng.permutation(count)
    sub = np.sort(order[: recipe.max_pairs])
    searched = order[: recipe.search.count(count)]
    twin = even if shares_rates(count, pairs.n, recipe) else None
    with clock("search"):
        data = pairs.over(pairs.scale).observations(searched)
        beside = None if twin is None else twin.over(twin.scale).observations(searched)
        kernel = found_kernel(data, beside, hints, recipe, readout)
    free = FREE_RATES if twin is None else 0.0
    return conclude(kernel, pairs, sub, recipe, clock, readout=readout, free=free)


def shares_rates(count: int, n: int, recipe: OddGPRecipe) -> bool:
    """Tell whether the even values of so few pairs are to help to find the rates."""
    has_rates = Product in recipe.parts and Product in recipe.even_parts
    return has_rates and count <= recipe.shared_pairs * n


def found_kernel(
    data: Observations,
    even: Observations | None,
    hints: Hints,
    recipe: OddGPRecipe,
    readout: Readout = SHAPLEY_VALUES,
) -> Kernel:
    """Search for the kernel of one component, or of one output or several.

    Args:
        data: What is searched.
        even: The even component of the same pairs, if that is to help.
        hints: What the proxy says.
        recipe: The recipe.
        readout: Of which component the data are.
    """
    starts = starting_kernels(hints, recipe, readout)
    if even is None:
        return search_kernel(starts, data, recipe)
    # rates that few pairs leave open would go where the last bits send them
    both = data.rounded(), even.rounded()
    return search_shared_rates(starts, even_start(hints, recipe), both, recipe.search)


def search_kernel(starts: tuple[Kernel, ...], data: Observations, recipe: OddGPRecipe) -> Kernel:
    """Search for the kernel, and on without the proxy's terms where noise is left (eq. 7).

    The proxy picked them by the same pairs, those that follow their noise the best, and the evidence,
    which takes them for given, believes in them. Where nearly all is explained they are no noise. Where
    the start has much more of it, the last search is without them at once.
    """
    options, most = recipe.search, recipe.reweighting.most_noise
    kernel = search_hyperparameters(starts, data, options, _CLEARLY * most)
    plain = kernel.without(Terms)
    if not most < kernel.noise <= options.give_up or len(plain.parts) in (0, len(kernel.parts)):
        return kernel
    return maximise_evidence(plain, data, options, options.iterations, options.tolerance)[0]


def simple_fit(pairs: Pairs, clock: Clock, readout: Readout = SHAPLEY_VALUES) -> OddGPFit | None:
    """Return the fit of pairs that need no process: zeros, or the simplest terms beyond doubt."""
    n = pairs.n
    if pairs.largest == 0.0 or len(pairs.coalitions) == 0:
        error = 0.0 if len(pairs.coalitions) else np.inf

        def nothing(asked: Readout) -> tuple[np.ndarray, np.ndarray]:
            values = asked.complete(np.zeros(asked.count(n)), pairs.total)
            return values, np.full(len(values), np.inf)

        return OddGPFit(*nothing(readout), nothing, "none", error=error)
    with clock("recovery"):
        return _simplest_fit(pairs, readout, doubted=False)


def _simplest_fit(pairs: Pairs, readout: Readout, *, doubted: bool) -> OddGPFit | None:
    """Return the fit of the simplest terms if they go through all pairs, by accident or beyond doubt."""
    terms, top = readout.simplest_terms(pairs.n), pairs.largest
    if may_be_accident(pairs.targets, pairs.total, len(terms)) != doubted:
        return None
    exact = _fit_exactly(pairs.over(top), terms)
    return None if exact is None else _exact_fit(exact, readout.simplest, pairs, top, readout)


def starting_kernels(
    hints: Hints, recipe: OddGPRecipe, readout: Readout = SHAPLEY_VALUES
) -> tuple[Kernel, ...]:
    """Return the kernels from which the search starts."""
    parts = readout.parts(recipe)
    plain = Kernel.start(hints, parts, readout.parity)
    sized = Kernel.start(hints, (*parts, *recipe.size_parts), readout.parity)
    return (plain, sized) if recipe.size_parts else (plain,)


def even_start(hints: Hints, recipe: OddGPRecipe) -> Kernel:
    """Return the even kernel that a search for shared rates starts from."""
    return Kernel.start(hints, PAIRWISE.parts(recipe), "even")


def conclude(
    kernel: Kernel,
    pairs: Pairs,
    sub: np.ndarray,
    recipe: OddGPRecipe,
    clock: Clock,
    condition: Callable[[Kernel, Observations], Posterior] = Posterior.of,
    readout: Readout = SHAPLEY_VALUES,
    free: float = FREE_RATES,
) -> OddGPFit:
    """Give terms their variances where that is allowed, condition on pairs, and read off.

    Args:
        kernel: What the search has found.
        pairs: All pairs.
        sub: Those that the process is conditioned on.
        recipe: The recipe.
        clock: Times the stages.
        condition: Conditions a kernel on observations.
        readout: What is read off.
        free: Degrees of freedom of every rate and variance.
    """
    n, total, scale = pairs.n, pairs.total, pairs.scale
    scaled = pairs.over(scale)
    data = scaled.observations(sub)
    freedom, found = free * (n + 4), _simplest_fit(pairs, readout, doubted=True)
    if recipe.reweighting.allow(kernel, data):
        reweighted, exact = _recover(kernel, pairs, sub, recipe, clock, readout)
        if exact is not None:
            found = _exact_fit(exact, "sparse", pairs, pairs.largest, readout)
            if _is_certain(exact, kernel, pairs, sub, recipe, clock, readout):
                return found
        with clock("reweighting"):
            kernel = reweight(reweighted, data, recipe.reweighting, recipe.reweighting.rounds)
        freedom = n + 4.0 + len(explicit_terms(kernel).terms)
    with clock("posterior"):
        posterior = condition(kernel, data)
        residuals = _residuals(posterior, scaled, sub)

        def read(asked: Readout) -> tuple[np.ndarray, np.ndarray]:
            values, variances = _read_out(posterior, scaled, residuals, sub, freedom, recipe, asked)
            if found is None:
                return asked.complete(values * scale, total), _in_units(variances, scale)
            recovered, of_recovered = found.read(asked)
            # one of the two is wrong by what lies between them
            apart = asked.complete(values, scaled.total) - recovered / scale
            doubted = _in_units(variances + apart**2, scale)
            return recovered, np.maximum(of_recovered, doubted)

        values, variances = read(readout)
    if found is not None:
        return replace(found, variances=variances, read=read)
    return OddGPFit(
        values,
        variances,
        read,
        "gp",
        n_terms=len(explicit_terms(kernel).terms),
        noise=float(np.sqrt(posterior.kernel.noise)) * scale,
        pairs=len(sub),
        error=float(_in_units(np.array(posterior.left_out_error()), scale)),
    )


def _recover(
    kernel: Kernel,
    pairs: Pairs,
    sub: np.ndarray,
    recipe: OddGPRecipe,
    clock: Clock,
    readout: Readout,
) -> tuple[Kernel, ExactFit | None]:
    """Return the kernel after the first rounds, and the game itself if a few terms are it."""
    rounds = recipe.reweighting
    data = pairs.over(pairs.scale).observations(sub)
    with clock("reweighting"):
        part = rounds.part(data)
        kernel = reweight(kernel, part, rounds, rounds.part_rounds, rounds.product_share)
    with clock("recovery"):
        base = readout.base_terms(pairs.n)
        terms = find_terms(kernel, data, recipe.recovery, rounds, base)
        # of more than half as many terms as equations, another function is as sparse
        if terms is None or 2 * len(terms) - len(base) > len(pairs.coalitions):
            return kernel, None
        return kernel, _fit_exactly(pairs.over(pairs.largest), terms)


def _is_certain(
    exact: ExactFit,
    kernel: Kernel,
    pairs: Pairs,
    sub: np.ndarray,
    recipe: OddGPRecipe,
    clock: Clock,
    readout: Readout,
) -> bool:
    """Tell whether a function found is the game: four fifths of the pairs tell it too.

    With ``certain_pairs`` pairs per term that is not asked.

    Args:
        exact: The function.
        kernel: The kernel before any term had a variance of its own.
        pairs: All pairs.
        sub: Those that the process is conditioned on.
        recipe: The recipe.
        clock: Times the stages.
        readout: What is read off.
    """
    count = len(pairs.coalitions)
    if recipe.recovery.certain(exact.n_terms, count):
        return True
    kept = np.arange(count) % _LEFT_OUT != 0
    rest = replace(pairs, coalitions=pairs.coalitions[kept], targets=pairs.targets[kept])
    if rest.largest == 0.0:
        return False
    sub_of_rest = np.flatnonzero(np.isin(np.arange(count), sub)[kept])
    _, again = _recover(kernel, rest, sub_of_rest, recipe, clock, readout)
    if again is None:
        return False
    change = again.read(readout)[0] * rest.largest - exact.read(readout)[0] * pairs.largest
    return bool(np.abs(change).max(initial=0.0) <= TOLERANCE * pairs.largest)


def _residuals(posterior: Posterior, pairs: Pairs, sub: np.ndarray) -> np.ndarray:
    """Return targets minus posterior means at all pairs, in the unit of the posterior."""
    rest = np.setdiff1d(np.arange(len(pairs.coalitions)), sub, assume_unique=True)
    residuals = np.empty(len(pairs.coalitions))
    residuals[sub] = posterior.residuals()
    residuals[rest] = pairs.targets[rest] - posterior.mean(pairs.coalitions[rest])
    return residuals


def _read_out(
    posterior: Posterior,
    pairs: Pairs,
    residuals: np.ndarray,
    sub: np.ndarray,
    freedom: float,
    recipe: OddGPRecipe,
    readout: Readout,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the corrected values and their variances, in the unit of the posterior."""
    values = readout.values(posterior)
    added, credibility = np.zeros(len(values)), 1.0
    if recipe.correction:
        strata = Strata.of(pairs.coalitions)
        added = readout.correction(pairs.coalitions, residuals, strata)
        noise = readout.sampling_variances(pairs.coalitions, residuals, strata)
        credibility = readout.credibility(added, noise)
    variances = calibrated_variances(
        posterior,
        residuals,
        coalitions=pairs.coalitions,
        sub=sub,
        hyperparameters=freedom,
        readout=readout,
        correction=added if readout.shrinks else None,
        credibility=credibility,
    )
    least = level_variances(pairs.coalitions, few_levels(pairs.targets, pairs.total), readout)
    return values + credibility * added, np.maximum(variances, least)


def _fit_exactly(normed: Pairs, terms: np.ndarray) -> ExactFit | None:
    """Fit terms to all pairs."""
    return fit_exactly(normed.coalitions, normed.targets, normed.total, terms)


def _exact_fit(exact: ExactFit, path: str, pairs: Pairs, unit: float, readout: Readout) -> OddGPFit:
    """Return an exact fit in units of the game."""

    def read(asked: Readout) -> tuple[np.ndarray, np.ndarray]:
        values, variances = exact.read(asked)
        return asked.complete(values * unit, pairs.total), _in_units(variances, unit)

    return OddGPFit(
        *read(readout),
        read,
        path,
        n_terms=exact.n_terms,
        noise=exact.noise * unit,
        pairs=len(pairs.coalitions),
        error=float(_in_units(np.array(exact.noise**2), unit)),
    )


def _in_units(variances: np.ndarray | float, unit: float) -> np.ndarray:
    """Return variances in squared units, infinite where those leave the range of a double."""
    with np.errstate(over="ignore"):
        return np.square(np.sqrt(variances) * unit)
