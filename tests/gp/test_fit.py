"""The whole fit: exactness, axioms, recovery, intervals."""

from itertools import product

import numpy as np
import pytest

from shapiq_oddshap import OddGP
from shapiq_oddshap.gp import Hints, OddGPRecipe, Pairs, ReweightingOptions, fit_odd_gp
from shapiq_oddshap.gp.exact_fit import few_levels, fit_exactly, may_be_accident
from shapiq_oddshap.gp.parts import Product
from shapiq_oddshap.gp.readout import SHAPLEY_VALUES
from shapiq_oddshap.gp.reweighting import all_combinations
from shapiq_oddshap.gp.signs import characters, signs
from tests.gp.enumeration import COALITIONS, SHAPLEY, draw_pairs, fit, half_of_pairs, random_game


def test_fit_at_all_coalitions_is_exact_whatever_the_model():
    values = np.random.default_rng(5).normal(size=len(COALITIONS))
    where = {row.tobytes(): value for row, value in zip(COALITIONS, values, strict=True)}
    rows = half_of_pairs()
    odd = np.array([where[row.tobytes()] - where[(~row).tobytes()] for row in rows]) / 2
    found = fit(rows, odd, values[-1] - values[0])
    np.testing.assert_allclose(found.values, values @ SHAPLEY, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-150, 1e-12, 1.0, 1e12, 1e150])
def test_efficiency_and_equivariance(scale):
    rng = np.random.default_rng(6)
    game, _ = random_game(8, rng, orders=(1, 3, 5, 7))
    rows = draw_pairs(8, 40, rng)
    total = game(np.ones((1, 8), bool))[0] - game(np.zeros((1, 8), bool))[0]
    plain = fit(rows, game(rows), total)
    scaled = fit(rows, game(rows) * scale, total * scale)
    assert scaled.values.sum() == pytest.approx(total * scale, rel=1e-9)
    np.testing.assert_allclose(scaled.values / scale, plain.values, rtol=1e-5)


@pytest.mark.parametrize("n", [3, 10, 30])
def test_additive_games_are_exact(n):
    rng = np.random.default_rng(n)
    effects = rng.normal(size=n)
    rows = np.concatenate([np.eye(n, dtype=bool), draw_pairs(n, 2, rng)[:1]])
    rows = np.unique(rows, axis=0)
    odd = -0.5 * signs(rows) @ effects
    found = fit(rows, odd, effects.sum())
    assert found.path == "additive"
    np.testing.assert_allclose(found.values, effects, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("pairs", [250, 1700])
def test_sparse_games_are_recovered_exactly(pairs):
    """Of more than 1000 pairs, a part is searched and all have to agree."""
    rng = np.random.default_rng(7)
    n = 14
    terms = np.zeros((12, n), bool)
    for row in terms:
        row[rng.choice(n, 3, replace=False)] = True
    terms = np.concatenate([np.eye(n, dtype=bool), terms])
    beta = np.concatenate([rng.normal(size=n), 0.3 * rng.normal(size=12)])
    rows = draw_pairs(n, pairs, rng)
    found = fit(rows, characters(signs(rows), terms) @ beta, -2 * beta.sum())
    expected = -2.0 * (beta / terms.sum(axis=1)) @ terms
    assert found.path == "sparse"
    np.testing.assert_allclose(found.values, expected, atol=1e-9)


@pytest.mark.parametrize("pairs", [15, 17, 20, 60, 400])
def test_variances_of_recovered_games_are_those_of_least_squares(pairs):
    """A game in single precision is recovered up to its rounding, and the intervals know it.

    With many pairs it is the rounding of the total, which nothing averages, that is left.
    """
    rng = np.random.default_rng(pairs)
    n, covered = 12, []
    triples = np.array([[0, 1, 2], [3, 4, 5], [2, 6, 9]])
    terms = np.zeros((3, n), dtype=bool)
    np.put_along_axis(terms, triples, values=True, axis=1)
    everything = np.concatenate([np.eye(n, dtype=bool), terms])
    for _ in range(200):
        rows, beta = draw_pairs(n, pairs, rng), rng.normal(size=n + 3)
        odd = characters(signs(rows), everything) @ beta + 1e-7 * rng.normal(size=len(rows))
        total = -2 * (beta.sum() + 1e-7 * rng.normal())
        found = fit_exactly(rows, odd, total, everything)
        if found is None:  # the draw does not determine the terms
            continue
        values, variances = found.read(SHAPLEY_VALUES)
        values += (total - values.sum()) / n  # efficiency, as the fit imposes it
        exact = -2.0 * (beta / everything.sum(axis=1)) @ everything
        covered.append(np.mean(np.abs(values - exact) <= 1.645 * np.sqrt(variances)))
    assert len(covered) > 30
    standard_error = np.std(covered) / np.sqrt(len(covered))
    assert abs(np.mean(covered) - 0.9) < 4 * standard_error + 0.01


def test_exact_fit_refuses_other_functions():
    rng = np.random.default_rng(8)
    game, _ = random_game(8, rng)
    rows = draw_pairs(8, 60, rng)
    total = -2 * game(np.zeros((1, 8), bool))[0]
    assert fit_exactly(rows, game(rows), total, np.eye(8, dtype=bool)) is None


def test_constants_are_zero():
    rows = half_of_pairs()
    found = fit(rows, np.zeros(len(rows)), 0.0)
    assert not found.values.any()
    assert np.isinf(found.variances).all()  # nothing tells the scale on which others may differ


def test_no_pairs_and_tiny_samples_are_finite():
    none = fit(np.zeros((0, 3), bool), np.zeros(0), 3.0)
    np.testing.assert_allclose(none.values, 1.0)
    one = fit(half_of_pairs()[:1], np.array([0.4]), 3.0)
    assert np.isfinite(one.values).all()
    assert one.values.sum() == pytest.approx(3.0)


def test_pairs_beyond_the_limit_still_count():
    rng = np.random.default_rng(9)
    game, exact = random_game(9, rng, orders=(1, 3, 5))
    rows = draw_pairs(9, 200, rng)
    values = game(rows)
    total = -2 * game(np.zeros((1, 9), bool))[0]
    recipe = OddGPRecipe(max_pairs=60, reweighting=ReweightingOptions(part_rounds=0, rounds=0))
    limited = fit(rows, values, total, recipe=recipe)
    assert limited.pairs == 60
    assert np.abs(limited.values - exact).max() < 0.1


def test_same_generator_same_bits():
    rng = np.random.default_rng(10)
    game, _ = random_game(9, rng)
    rows = draw_pairs(9, 60, rng)
    total = -2 * game(np.zeros((1, 9), bool))[0]
    first, second = (fit(rows, game(rows), total, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.values, second.values)
    np.testing.assert_array_equal(first.variances, second.variances)


def test_intervals_cover_where_the_model_is_right():
    inside = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rates = rng.uniform(0.05, 0.5, 8)
        odd = np.array([t for t in product([False, True], repeat=8) if sum(t) % 2])
        variances = Product(0.5, rates).term_variances(odd)
        variances[odd.sum(axis=1) == 1] += 1.0 / 8
        beta = rng.normal(size=len(odd)) * np.sqrt(variances)
        rows = draw_pairs(8, 40, rng)
        values = characters(signs(rows), odd) @ beta
        found = fit(rows, values, -2 * beta.sum())
        exact = -2.0 * (beta / odd.sum(axis=1)) @ odd
        inside.append(np.abs(found.values - exact) < 1.645 * np.sqrt(found.variances))
    assert 0.75 < np.mean(inside) <= 1.0


def test_variances_of_huge_games_are_infinite_and_no_error():
    _, variances = OddGP(7, random_state=0).approximate_with_variance(
        40, lambda c: (c @ np.arange(7.0)) * 1e160
    )
    assert not np.isnan(variances).any()
    _, variances = OddGP(7, random_state=0).approximate_with_variance(
        40, lambda c: (c @ np.arange(7.0) + c[:, 0] * c[:, 1] * c[:, 2]) * 1e160
    )
    assert np.isinf(variances).all()


def test_terms_that_follow_the_noise_are_not_believed():
    """The proxy picks terms by the same pairs; errors at pairs left out must not look smaller by it."""
    n, ratios = 11, []
    triples = all_combinations(np.arange(n), 3)
    terms = np.zeros((len(triples), n), dtype=bool)
    np.put_along_axis(terms, triples, values=True, axis=1)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        rows = draw_pairs(n, 200, rng)
        noise = rng.normal(size=len(rows))
        odd = signs(rows) @ rng.normal(size=n) + noise
        seen = noise @ characters(signs(rows), terms) / len(rows)
        picked = np.argsort(-np.abs(seen))[:30]
        hints = Hints(np.ones(n), terms[picked], seen[picked])
        found = fit_odd_gp(Pairs(rows, odd, 0.0), hints, rng)
        assert found.n_terms == 0
        ratios.append(found.error)
    assert np.mean(ratios) > 0.9


def test_terms_stay_where_they_explain_what_there_is():
    rng = np.random.default_rng(1)
    n = 11
    terms = np.array([[i in t for i in range(n)] for t in [(0, 1, 2), (3, 4, 5), (2, 6, 9)]])
    rows = draw_pairs(n, 70, rng)
    odd = signs(rows) @ rng.normal(size=n) + characters(signs(rows), terms) @ [2.0, 1.0, 1.0]
    hints = Hints(np.ones(n), terms, np.ones(3))
    recipe = OddGPRecipe(reweighting=ReweightingOptions(part_rounds=0, rounds=0))
    assert fit_odd_gp(Pairs(rows, odd, 0.0), hints, rng, recipe).n_terms == 3


def _voting_game(n, seed, quota):
    weights = np.abs(np.random.default_rng(seed).normal(size=n))
    return lambda coalitions: 1.0 * (coalitions @ weights > quota * weights.sum())


@pytest.mark.parametrize("more", [2, 6])
def test_intervals_of_voting_games_do_not_take_a_few_bits_for_certainty(more):
    """Equal values are interpolated without noise, and one of few levels is hit by accident."""
    squares, paths = [], set()
    for seed in range(6):
        for n, quota in [(5, 0.5), (6, 0.7)]:
            game = _voting_game(n, seed, quota)
            estimate = OddGP(n, random_state=seed).estimate(2 * n + more, game)
            exact = OddGP(n).approximate(2**n, game).get_n_order_values(1)
            errors = estimate.values.get_n_order_values(1) - exact
            squares.append(np.mean(errors**2 / estimate.variances))
            paths.add(estimate.diagnostics.path)
    assert paths == {"additive", "gp"}
    assert max(squares) < 9.0


def test_additive_games_of_few_levels_are_certain_once_accidents_are_excluded():
    estimates = [
        OddGP(12, random_state=1).estimate(budget, lambda coalitions: 1.0 * coalitions[:, 0])
        for budget in (26, 48)
    ]
    for estimate in estimates:
        assert estimate.diagnostics.path == "additive"
        np.testing.assert_allclose(
            estimate.values.get_n_order_values(1), np.arange(12) == 0, atol=1e-9
        )
    doubted, certain = (estimate.variances.max() for estimate in estimates)
    assert certain < 1e-20 < 1e-4 < doubted


def test_few_levels_are_those_that_are_taken_twice_in_the_mean():
    np.testing.assert_allclose(few_levels(np.array([0.5, -0.5, 0.0, 0.5]), 1.0), [0.0, 0.5])
    assert len(few_levels(np.array([0.5, -0.2, 0.0, 0.4]), 1.0)) == 0
    targets = np.repeat([0.5, 0.0], 5)
    # seven equations left over of values of two levels: one accident in 3^7
    assert not may_be_accident(targets, 1.0, 4)
    assert may_be_accident(targets, 1.0, 5)
    assert not may_be_accident(np.arange(10.0), 1.0, 10)
