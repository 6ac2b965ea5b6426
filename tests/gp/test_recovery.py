"""The pursuit of terms that the penalties have lost, against the definition."""

import numpy as np

from shapiq_oddshap import OddGP
from shapiq_oddshap.fourier import singletons
from shapiq_oddshap.gp import OddGPRecipe
from shapiq_oddshap.gp.observations import Observations
from shapiq_oddshap.gp.recovery import RecoveryOptions, pursue
from shapiq_oddshap.gp.reweighting import all_combinations
from shapiq_oddshap.gp.signs import characters

_N = 9


def _data(terms, coefficients, noise=0.0):
    rng = np.random.default_rng(0)
    coalitions = rng.random((110, _N)) < 0.5
    values = characters(1.0 - 2.0 * coalitions, terms) @ coefficients
    return Observations.of(
        coalitions, values + noise * rng.normal(size=len(values)), -coefficients.sum()
    )


def _rows(triples):
    rows = np.zeros((len(triples), _N), dtype=bool)
    np.put_along_axis(rows, triples, values=True, axis=1)
    return rows


def test_pursuit_takes_the_terms_that_orthogonal_matching_pursuit_takes():
    triples = all_combinations(np.arange(_N), 3)
    data = _data(_rows(triples[[3, 30, 50, 70]]), np.array([1.0, 0.1, 0.03, 0.01]), noise=0.02)
    first, base = _rows(triples[[3]]), singletons(_N)
    options = RecoveryOptions(pursuits=6)
    taken = np.concatenate([base, first])
    for _ in range(options.pursuits):
        columns = characters(data.x, taken)
        residuals = data.targets - columns @ np.linalg.lstsq(columns, data.targets)[0]
        gains = np.abs(residuals @ characters(data.x, _rows(triples)))
        taken = np.concatenate([taken, _rows(triples[[np.argmax(gains)]])])
    np.testing.assert_array_equal(pursue(first, data, triples, options, base), taken)


def test_pursuit_finds_unions_of_terms_and_ends_where_nothing_is_left():
    triples = all_combinations(np.arange(_N), 3)
    strong, union = _rows(np.array([[0, 1, 2], [2, 3, 4]])), np.arange(_N) < 5
    game = np.concatenate([strong, union[None]])
    data = _data(game, np.array([1.0, -0.7, 0.01]))
    # a term twice makes the columns dependent, which must not stop the pursuit
    found = pursue(strong[[0, 1, 1]], data, triples, RecoveryOptions(), singletons(_N))
    np.testing.assert_array_equal(found[_N + 3 :], union[None])


def test_a_recovered_function_is_certain_if_fewer_pairs_tell_it_too():
    """Another function may go through the same pairs: then the variances are the process's."""
    weights = np.random.default_rng(1).normal(size=30)
    players = all_combinations(np.arange(_N), 3)[::2][:30]

    def game(coalitions):
        return coalitions[:, players].all(axis=2) @ weights

    def estimate(budget, certain_pairs):
        recipe = OddGPRecipe(recovery=RecoveryOptions(certain_pairs=certain_pairs))
        return OddGP(_N, recipe=recipe, random_state=0).estimate(budget, game)

    alone, confirmed = estimate(160, np.inf), estimate(220, np.inf)
    assert alone.diagnostics.path == confirmed.diagnostics.path == "sparse"
    np.testing.assert_allclose(
        alone.values.get_n_order_values(1), confirmed.values.get_n_order_values(1), atol=1e-10
    )
    assert confirmed.variances.max() < 1e-20 < 1e-12 < alone.variances.min()
    # with so many pairs per term it is not asked
    np.testing.assert_array_equal(
        estimate(160, 0.0).values.get_n_order_values(1), alone.values.get_n_order_values(1)
    )
    assert estimate(160, 0.0).variances.max() < 1e-20
    assert RecoveryOptions().certain(25, 100)
    assert not RecoveryOptions().certain(26, 100)


def _ands_beside_main_effects(seed):
    weights = np.random.default_rng(seed).normal(size=10)

    def game(coalitions):
        ands = 5.0 * coalitions[:, :5].all(axis=1) + coalitions[:, 4:].any(axis=1)
        return coalitions @ weights + ands

    return game, OddGP(10).approximate(2**10, game).get_n_order_values(1)


def test_intervals_of_a_doubted_function_that_is_not_the_game_hold():
    """The process may be far closer to the game, and so sure of itself: its variance is not enough."""
    game, exact = _ands_beside_main_effects(1)
    estimate = OddGP(10, random_state=3).estimate(200, game)
    errors = estimate.values.get_n_order_values(1) - exact
    assert estimate.diagnostics.path == "sparse"
    assert np.abs(errors).max() > 0.01
    assert np.mean(errors**2 / estimate.variances) < 4.0


def test_no_function_of_more_terms_than_half_the_equations_is_taken():
    """The pursuit would interpolate any game; as many others of as few terms go through the pairs."""
    game, exact = _ands_beside_main_effects(3)
    estimate = OddGP(10, random_state=3).estimate(162, game)
    errors = estimate.values.get_n_order_values(1) - exact
    assert estimate.diagnostics.path == "gp"
    assert np.abs(errors).max() < 0.01
