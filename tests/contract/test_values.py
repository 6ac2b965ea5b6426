"""Contract, values: the axioms, exactness, and scales that floats hardly bear."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapiq_oddshap import SCREENERS, OddSHAP
from shapiq_oddshap.approximators import APPROXIMATORS
from shapiq_oddshap.approximators.oddshap import FourierRegression
from tests.helpers import fourier_game, phi_of, random_game, shapley_by_definition, smooth_game

REGRESSIONS = [cls for cls in APPROXIMATORS.values() if issubclass(cls, FourierRegression)]


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_exact_with_all_coalitions(approximator, n):
    game = random_game(n, seed=n)
    phi = phi_of(approximator(n, random_state=0).approximate(2**n, game))
    np.testing.assert_allclose(phi, shapley_by_definition(game, n), atol=1e-10)


@pytest.mark.parametrize("cls", REGRESSIONS)
@pytest.mark.parametrize("n", [3, 4, 5, 6, 7, 9, 16, 30, 61])
def test_additive_games_are_exact_from_2n_plus_2(cls, n):
    for seed in range(10 if n < 20 else 2):
        main = np.random.default_rng(seed).normal(size=n)
        instance = cls(n, random_state=seed)
        phi = phi_of(instance.approximate(2 * n + 2, lambda c, main=main: c @ main + 3.0))
        np.testing.assert_allclose(phi, main, atol=1e-9)


@pytest.mark.parametrize("screener", sorted(SCREENERS))
def test_parity_of_three_players_is_found(screener):
    if screener in ("none", "random", "order", "given", "union"):
        pytest.skip(f"{screener} does not look at the data, or needs options")
    game = fourier_game([(1, 4, 8)], [1.0])
    values = OddSHAP(10, screener=screener, random_state=0).approximate(300, game)
    np.testing.assert_allclose(phi_of(values)[[1, 4, 8]], -2 / 3, atol=1e-6)
    np.testing.assert_allclose(np.delete(phi_of(values), [1, 4, 8]), 0, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_efficiency_at_every_scale(approximator, budget_for, scale):
    n = 9
    for least in (2, 15, 60, 400):
        game = random_game(n, seed=least)
        game.values *= scale
        values = approximator(n, random_state=0).approximate(
            budget_for(approximator, n, least), game
        )
        if values.estimated and not approximator(n).efficient:
            continue
        total = game.values[-1] - game.values[0]
        assert phi_of(values).sum() == pytest.approx(total, rel=1e-9, abs=1e-9 * scale)


@pytest.mark.parametrize(
    ("factor", "shift"),
    [(1e12, 0.0), (1e-12, 0.0), (-3.0, 7.0), (1.0, 1e8), (1e200, 0.0), (1e-200, 0.0)],
)
def test_affine_equivariance(approximator, budget_for, factor, shift):
    n, game = 10, smooth_game(10)
    for least in (24, 300):
        budget = budget_for(approximator, n, least)
        phi = phi_of(approximator(n, random_state=0).approximate(budget, game))
        moved = phi_of(
            approximator(n, random_state=0).approximate(budget, lambda c: factor * game(c) + shift)
        )
        # the shift costs the digits that it takes in double precision, ~1e-8 of 16
        np.testing.assert_allclose(moved / factor, phi, atol=1e-6 if shift == 1e8 else 1e-8)


@pytest.mark.parametrize("factor", [-3.0, 0.7])
def test_units_do_not_matter_where_evaluations_are_few(approximator, budget_for, factor):
    """The last bits of a game in other units choose nothing that one or two pairs leave open."""
    for n, seed in product((3, 12, 24), (1, 2)):
        weights = np.random.default_rng(seed).normal(size=n)

        def game(coalitions, weights=weights):
            linear = coalitions @ weights
            return linear + np.sin(3.0 * linear) + 2.0 * coalitions[:, 0] * coalitions[:, -1]

        for least in (4, 6):
            budget = budget_for(approximator, n, least)
            phi = phi_of(approximator(n, random_state=2).approximate(budget, game))
            scaled = approximator(n, random_state=2).approximate(budget, lambda c: factor * game(c))
            np.testing.assert_allclose(phi_of(scaled) / factor, phi, atol=1e-9)


@pytest.mark.parametrize("value", [0.0, 5.0, -1e12, 1e-300])
def test_constant_games_give_zeros(approximator, budget_for, value):
    for n, least in ((1, 2), (3, 4), (8, 2), (8, 100), (12, 500)):
        budget = budget_for(approximator, n, least)
        values = approximator(n, random_state=0).approximate(
            budget, lambda c: np.full(len(c), value)
        )
        np.testing.assert_array_equal(phi_of(values), 0.0)
        assert values.baseline_value == value


def test_dummy_symmetric_and_relabelled_players(approximator, budget_for):
    n = 10
    budget = budget_for(approximator, n, 500)

    def game(coalitions):
        first, second = coalitions[:, 0], coalitions[:, 1]
        return 2.0 * (first & second) + first + second + 3.0 * coalitions[:, 2]

    values = [approximator(n, random_state=seed).approximate(budget, game) for seed in range(5)]
    phi = np.array([phi_of(v) for v in values])
    exact = np.array([2.0, 2.0, 3.0] + [0.0] * (n - 3))
    noise = 4 * phi.std(axis=0, ddof=1) / np.sqrt(len(phi)) + 1e-9
    assert (np.abs(phi.mean(axis=0) - exact) <= np.maximum(noise, 0.05)).all()

    relabel = np.random.default_rng(0).permutation(n)
    moved = [
        phi_of(
            approximator(n, random_state=seed).approximate(budget, lambda c: game(c[:, relabel]))
        )
        for seed in range(5)
    ]
    assert np.abs(np.mean(moved, axis=0)[relabel] - exact).max() <= 0.05


def test_duplicated_players_and_degenerate_samples_stay_finite(approximator, budget_for):
    n = 12
    for least in (2, 3, 4, 5, 9, 26, 41, 130):
        budget = budget_for(approximator, n, least)
        values = approximator(n, random_state=least).approximate(
            budget, lambda c: (c[:, 0] | c[:, 1]).astype(int)
        )
        assert np.isfinite(phi_of(values)).all()


def test_no_player_is_dropped_at_low_budgets(approximator, budget_for):
    n = 20
    main = np.linspace(1, 2, n)
    budget = budget_for(approximator, n, 2 * n + 2)
    phi = phi_of(approximator(n, random_state=0).approximate(budget, lambda c: c @ main))
    assert (phi != 0).all()


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 7),
    budget=st.integers(2, 140),
    seed=st.integers(0, 2**32 - 1),
    offset=st.floats(-1e6, 1e6),
)
@pytest.mark.parametrize("cls", APPROXIMATORS.values(), ids=APPROXIMATORS.keys())
def test_axioms_on_random_games(cls, n, budget, seed, offset):
    instance = cls(n, random_state=seed)
    budget = max(budget, min(instance.required_budget(), 2**n))
    game = random_game(n, seed=seed)
    game.values += offset
    values = instance.approximate(budget, game)
    assert len(game.asked) == len(set(game.asked)) <= budget
    if values.estimated and not instance.efficient:
        return
    assert phi_of(values).sum() == pytest.approx(game.values[-1] - game.values[0], abs=1e-6)
