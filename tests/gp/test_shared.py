"""The evidence of both components: a sum, with the same rates, that finds them from fewer pairs."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from shapiq_oddshap.gp import Hints, OddGPRecipe
from shapiq_oddshap.gp.evidence import Evidence, SearchOptions
from shapiq_oddshap.gp.fit import Pairs, even_start, fit_odd_gp, starting_kernels
from shapiq_oddshap.gp.joint import fit_outputs
from shapiq_oddshap.gp.kernel import Kernel
from shapiq_oddshap.gp.parts import Product
from shapiq_oddshap.gp.shared import SharedEvidence, search_shared_rates
from shapiq_oddshap.process import fit_process
from shapiq_oddshap.sample import Sample
from shapiq_oddshap.sampling import drawn_pairs, size_weights

OPTIONS = SearchOptions()


def product_game(n, seed):
    """Return a game of all orders in which a third of the players interact, and its Shapley values."""
    rng = np.random.default_rng(seed)
    rates = np.where(np.arange(n) % 3 == 0, 0.5, 0.03)
    rows = (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1
    kernel = Kernel(n, (Product(1.0, rates, parity="both"),), 0.0)
    x = 1.0 - 2.0 * rows
    some = x[rng.choice(2**n, 200)]
    weights = rng.normal(size=200) / np.sqrt(200)
    values = kernel.gram(x, some) @ weights
    return rows, values, weights @ kernel.shapley_functionals(some)


def sample_of(rows, values, count, seed):
    n = rows.shape[1]
    half = drawn_pairs(n, count, seed)
    coalitions = np.concatenate([[[False] * n, [True] * n], half, ~half])
    found = values[coalitions @ (1 << np.arange(n))]
    return Sample(coalitions, found, np.concatenate([[0, 0], size_weights(coalitions[2:])]))


def components(sample):
    odd, even = (sample.component(parity) for parity in ("odd", "even"))
    return Pairs(odd.coalitions, odd.targets, sample.total), Pairs(
        even.coalitions, even.targets, 0.0
    )


def both_of(sample):
    odd, even = components(sample)
    everything = np.arange(len(odd.coalitions))
    return tuple(each.over(each.scale).observations(everything) for each in (odd, even))


@pytest.mark.parametrize("sized", [False, True])
def test_the_gradient_is_that_of_the_sum(sized):
    n = 6
    recipe, hints = OddGPRecipe(), Hints.none(n)
    data = both_of(sample_of(*product_game(n, 0)[:2], 14, 1))
    start = starting_kernels(hints, recipe)[sized]
    odd, even = Evidence(start, data[0]), Evidence(even_start(hints, recipe), data[1])
    shared = SharedEvidence(odd, even)
    theta = shared.start + 0.3 * np.random.default_rng(0).normal(size=len(shared.start))
    value, gradient = shared.penalised(theta, OPTIONS)

    of_odd, of_even = shared.split(theta)
    np.testing.assert_array_equal(of_odd[odd.shape_of(Product)], of_even[even.shape_of(Product)])
    alone = odd.penalised(of_odd, OPTIONS)[0]
    alone += even.penalised(of_even, replace(OPTIONS, shrinkage=0.0))[0]
    assert value == pytest.approx(alone)
    assert len(shared.bounds(1e-10)) == len(theta)
    for k in range(len(theta)):
        step = 1e-5 * (np.arange(len(theta)) == k)
        ends = [shared.penalised(theta + sign * step, OPTIONS)[0] for sign in (1.0, -1.0)]
        assert gradient[k] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-6)


def test_even_values_tell_who_interacts():
    n, recipe, hints = 12, OddGPRecipe(), Hints.none(12)
    gaps = []
    for seed in range(4):
        data = both_of(sample_of(*product_game(n, seed)[:2], 20, seed))
        starts = starting_kernels(hints, recipe)
        kernel = search_shared_rates(starts, even_start(hints, recipe), data, OPTIONS)
        rates = np.log(kernel.find(Product).rates)
        there = np.arange(n) % 3 == 0
        gaps.append(rates[there].mean() - rates[~there].mean())
    assert np.mean(gaps) > 1.0


def test_few_pairs_give_lower_errors_with_the_even_values():
    n, ratios = 12, []
    for seed in range(6):
        rows, values, exact = product_game(n, seed)
        sample = sample_of(rows, values, 24, seed)
        odd, even = components(sample)
        errors = [
            np.mean(
                (fit_odd_gp(odd, Hints.none(n), np.random.default_rng(0), even=more).values - exact)
                ** 2
            )
            for more in (None, even)
        ]
        ratios.append(np.log(errors[1] / errors[0]))
    assert np.mean(ratios) < -2 * np.std(ratios) / np.sqrt(len(ratios))


def test_outputs_share_what_their_even_values_tell():
    n, ratios = 12, []
    for seed in range(12):
        games = [product_game(n, seed), product_game(n, 100 + seed)]
        pairs = [components(sample_of(rows, values, 20, seed)) for rows, values, _ in games]
        errors = []
        for evens in ([None, None], [even for _, even in pairs]):
            fits = fit_outputs(
                [odd for odd, _ in pairs],
                [Hints.none(n)] * 2,
                1,
                np.random.default_rng(0),
                OddGPRecipe(few_outputs=1),
                lambda _stage: nullcontext(),
                evens,
            )
            off = [fit.values - exact for fit, (_, _, exact) in zip(fits, games, strict=True)]
            errors.append(np.mean(np.log(np.mean(np.square(off), axis=1))))
        ratios.append(errors[1] - errors[0])
    assert np.mean(ratios) < -2 * np.std(ratios) / np.sqrt(len(ratios))


def test_many_pairs_and_odd_games_are_searched_alone():
    n = 8
    rows, values, _ = product_game(n, 0)
    sample = sample_of(rows, values, 60, 0)
    odd, even = components(sample)
    fits = [
        fit_odd_gp(odd, Hints.none(n), np.random.default_rng(0), even=more) for more in (None, even)
    ]
    np.testing.assert_array_equal(fits[0].values, fits[1].values)

    # an odd game, whose even values are rounding
    odd_values = values - values[::-1]
    sample = sample_of(rows, odd_values + 1e-16 * np.random.default_rng(0).normal(size=2**n), 20, 0)
    other = sample_of(rows, odd_values, 20, 0)
    np.testing.assert_allclose(
        fit_process(sample, np.random.default_rng(0)).values,
        fit_process(other, np.random.default_rng(0)).values,
        rtol=1e-6,
    )
