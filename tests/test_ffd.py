"""FFD-RD: the design, exactness up to order four, the two paths of the correction."""

from itertools import combinations

import numpy as np
import pytest

from shapiq_oddshap import FFDRD, FFDRDCorrected
from shapiq_oddshap.approximators.ffd import (
    agree,
    context_weights,
    contexts,
    design,
    key_players,
    latin_permutations,
    prefixes,
    required_budget,
    smoothed,
)
from tests.helpers import TableGame, fourier_game, phi_of, shapley_by_definition


def order_four_game(n, seed):
    """Random terms of order one to four with their Shapley values."""
    rng = np.random.default_rng(seed)
    terms = [rng.choice(n, size=rng.integers(1, min(n, 4) + 1), replace=False) for _ in range(40)]
    coefficients = rng.normal(size=len(terms))
    phi = np.zeros(n)
    for term, beta in zip(terms, coefficients, strict=True):
        phi[term] -= 2 * beta / len(term) * (len(term) % 2)
    return fourier_game([*terms, ()], [*coefficients, 5.0]), phi


def design_values(game, n, seed=0):
    """The estimator by its formula, one coalition at a time."""
    phi = np.zeros(n)
    for player, (present, absent) in enumerate(design(n, np.random.default_rng(seed))):
        for weight, row, other in zip(context_weights(n), present, absent, strict=True):
            assert row[player]
            assert not other[player]
            phi[player] += weight * (game(row[None])[0] - game(other[None])[0])
    return phi


@pytest.mark.parametrize("n", range(3, 34))
def test_exact_up_to_order_four(n):
    game, phi = order_four_game(n, seed=n)
    if n < 12:
        np.testing.assert_allclose(design_values(game, n), phi, atol=1e-10)
    for seed in range(3):
        values = FFDRD(n, random_state=seed).approximate(required_budget(n), game)
        np.testing.assert_allclose(phi_of(values), phi, atol=1e-10)


def test_every_single_term_of_order_four_is_exact():
    n = 8
    for order in range(1, 5):
        for term in combinations(range(n), order):
            phi = np.zeros(n)
            phi[list(term)] = -2 / order * (order % 2)
            np.testing.assert_allclose(
                design_values(fourier_game([term], [1.0]), n), phi, atol=1e-12
            )


def test_order_five_is_not():
    n = 10
    values = FFDRD(n, random_state=0).approximate(400, fourier_game([(0, 1, 2, 3, 4)], [1.0]))
    assert np.abs(phi_of(values)[:5] + 2 / 5).max() > 0.01


@pytest.mark.parametrize(
    ("n", "evaluations"), [(14, 480), (16, 544), (30, 1984), (60, 7808), (101, 26112)]
)
def test_evaluation_counts(n, evaluations):
    assert required_budget(n) == evaluations < 4 * n**2 - 4
    for seed in range(3 if n < 60 else 1):
        rows = []

        def game(coalitions, rows=rows):
            rows.extend(row.tobytes() for row in coalitions)
            return coalitions[:, 0]

        values = FFDRD(n, random_state=seed).approximate(evaluations + 1000, game)
        assert len(rows) == len(set(rows)) == values.estimation_budget == evaluations
        assert rows[:2] == [bytes(n), b"\x01" * n]


@pytest.mark.parametrize("n", [4, 9, 14, 30, 150])
def test_the_union_of_designs_is_known_beforehand(n):
    rows = design(n, np.random.default_rng(0)).reshape(-1, n)
    distinct = len({row.tobytes() for row in rows})
    assert distinct == required_budget(n) if n >= 13 else distinct <= required_budget(n)
    assert rows.all(axis=1).any()
    assert (~rows).all(axis=1).any()
    assert context_weights(n).sum() == pytest.approx(1)
    assert len(contexts(n, np.random.default_rng(0))) == len(context_weights(n))


@pytest.mark.parametrize("cls", [FFDRD, FFDRDCorrected])
def test_a_smaller_budget_is_an_error_that_names_the_number(cls):
    instance = cls(14)
    required = instance.required_budget()
    assert required == {FFDRD: 480, FFDRDCorrected: 480 + 6 * 14 * 13}[cls]
    with pytest.raises(ValueError, match=f"budget={required - 1}.*{required}"):
        instance.approximate(required - 1, lambda coalitions: coalitions.sum(axis=1))


def test_few_players_are_enumerated():
    game = TableGame(np.random.default_rng(0).normal(size=2**5))
    values = FFDRD(5).approximate(2**5, game)
    assert not values.estimated
    np.testing.assert_allclose(phi_of(values), shapley_by_definition(game, 5), atol=1e-12)


def test_latin_squares_and_prefixes():
    n = 9
    permutations = latin_permutations(n, np.random.default_rng(0))
    assert permutations.shape == (6 * n, n)
    for square in permutations.reshape(6, n, n):
        for line in (*square, *square.T):
            assert sorted(line) == list(range(n))
    for player in range(n):
        for order, row, other in zip(permutations, *prefixes(permutations, player), strict=True):
            before = set(order.tolist()[: order.tolist().index(player)])
            assert set(np.flatnonzero(other).tolist()) == before
            assert set(np.flatnonzero(row).tolist()) == before | {player}


def test_the_six_key_players_are_among_the_twenty_one():
    for n in (8, 14, 16, 21, 22, 30, 47, 101):
        phi = np.random.default_rng(n).normal(size=n)
        few, many = key_players(phi, 6), key_players(phi, 21)
        assert set(few) <= set(many)
        assert len(few) == 6
        assert len(many) == min(n, 21)
        assert {phi.argmin(), phi.argmax()} <= set(few)


def fifth_power(n):
    """A game of order five, whose highest terms the design aliases with the main effects."""
    main = np.random.default_rng(0).normal(size=n)
    return lambda coalitions: (coalitions @ main - main.sum() / 2) ** 5


@pytest.mark.parametrize("n", [14, 33])
def test_correction_scales_where_both_estimates_agree(n):
    game, _ = order_four_game(n, seed=1)
    main = np.linspace(1, 10, n)
    fives = fourier_game([(0, 1, 2, 3, 4)], [1.0])
    mixed = lambda c: game(c) / 10 + c @ main + fives(c)  # noqa: E731
    instance = FFDRDCorrected(n, random_state=0)
    values, diagnostics = instance.approximate_with_diagnostics(instance.required_budget(), mixed)
    assert diagnostics.path == "design, scaled"
    ends = mixed(np.array([[False] * n, [True] * n]))
    assert phi_of(values).sum() == pytest.approx(ends[1] - ends[0])
    plain = phi_of(FFDRD(n, random_state=0).approximate(required_budget(n), mixed))
    assert plain.sum() != pytest.approx(ends[1] - ends[0])
    np.testing.assert_allclose(phi_of(values) / plain, phi_of(values)[0] / plain[0])


@pytest.mark.parametrize("n", [14, 33])
def test_correction_smooths_where_they_do_not(n):
    instance = FFDRDCorrected(n, random_state=0)
    values, diagnostics = instance.approximate_with_diagnostics(
        instance.required_budget(), fifth_power(n)
    )
    assert diagnostics.path == "design, smoothed"
    assert diagnostics.evaluations <= instance.required_budget()
    assert np.isfinite(phi_of(values)).all()


def test_correction_leaves_an_additive_game_alone():
    main = np.arange(12.0) - 3
    for offset in (0.0, 7.0):  # the empty prefix is worth f(∅), not 0
        instance = FFDRDCorrected(12, random_state=0)
        values = instance.approximate(instance.required_budget(), lambda c, o=offset: c @ main + o)
        np.testing.assert_allclose(phi_of(values), main, atol=1e-10)


def test_correction_never_scales_by_a_factor_that_the_estimates_contradict():
    """Values that cancel to a sum of zero, which the design misses: the factor would be zero."""
    n = 14
    main = np.linspace(-1, 1, n) + 0.1 / n
    fives = fourier_game([(0, 1, 2, 3, 4)], [0.05])
    instance = FFDRDCorrected(n, random_state=0)
    values, diagnostics = instance.approximate_with_diagnostics(
        instance.required_budget(), lambda c: c @ main + fives(c)
    )
    assert diagnostics.path == "design, smoothed"
    np.testing.assert_allclose(phi_of(values), main - 0.02 * (np.arange(n) < 5), atol=0.05)


def test_agreement_is_a_line_through_the_origin():
    x = np.array([-2.0, -1.0, 0.5, 1.0, 2.0, 3.0])
    noise = 0.01 * np.array([1, -1, 1, -1, 1, -1])
    assert agree(2 * x, x)
    assert agree(2 * x + noise, x)
    assert not agree(2 * x + 1 + noise, x)
    assert not agree(np.array([1.0, -1, 1, -1, 1, -1]), x)
    assert not agree(x, np.ones(6))
    assert not agree(np.zeros(6), np.zeros(6))
    assert agree(2e-12 * x, 1e-12 * x)


def test_smoothing_recovers_a_monotone_map_and_is_clamped():
    phi = np.linspace(-1, 1, 40)
    keys = key_players(phi, 21)
    np.testing.assert_allclose(smoothed(phi, keys, np.sinh(phi[keys])), np.sinh(phi), atol=1e-3)
    assert smoothed(np.r_[phi, 50.0], keys, phi[keys])[-1] == pytest.approx(1, abs=1e-6)
    few = smoothed(np.array([0.0, 0, 0, 1, 1]), np.arange(5), np.array([1.0, 2, 3, 5, 7]))
    np.testing.assert_allclose(few, [2, 2, 2, 6, 6])
    np.testing.assert_allclose(smoothed(np.ones(5), np.arange(5), np.arange(5.0)), 2)


@pytest.mark.parametrize("cls", [FFDRD, FFDRDCorrected])
def test_efficiency_shift(cls):
    game = fifth_power(14)
    ends = game(np.array([[False] * 14, [True] * 14]))
    budget = cls(14).required_budget()
    plain = phi_of(cls(14, random_state=0).approximate(budget, game))
    moved = phi_of(cls(14, random_state=0, efficiency_shift=True).approximate(budget, game))
    assert plain.sum() != pytest.approx(ends[1] - ends[0])
    assert moved.sum() == pytest.approx(ends[1] - ends[0])
    assert np.ptp(moved - plain) < 1e-12
    assert cls(14) != cls(14, efficiency_shift=True)
