"""Tests of FFD-RD and its correction by permutations."""

from __future__ import annotations

import numpy as np
import pytest

import shapiq
from shapiq.approximator import SV_APPROXIMATORS, FFDRD, FFDRDCorrected
from shapiq.game_theory.exact import ExactComputer


def unanimity(n: int, order: int, seed: int):
    """Return a game of unanimity terms of at most this order, and its Shapley values."""
    rng = np.random.default_rng(seed)
    terms = [rng.choice(n, size=rng.integers(1, order + 1), replace=False) for _ in range(30)]
    worth = rng.normal(size=len(terms))
    values = np.zeros(n)
    for term, value in zip(terms, worth, strict=True):
        values[term] += value / len(term)

    def game(coalitions):
        present = np.stack([coalitions[:, term].all(axis=1) for term in terms])
        return worth @ present

    return game, values


@pytest.mark.parametrize("n", [3, 5, 8, 10, 14, 21, 30])
def test_exact_up_to_order_four(n):
    game, expected = unanimity(n, min(n, 4), seed=n)
    for seed in range(3):
        approximator = FFDRD(n, random_state=seed)
        values = approximator.approximate(approximator.required_budget(), game)
        np.testing.assert_allclose(values.get_n_order_values(1), expected, atol=1e-9)


def test_not_exact_for_order_five():
    values = FFDRD(10, random_state=0).approximate(400, lambda rows: rows[:, :5].all(axis=1) * 1.0)
    assert np.abs(values.get_n_order_values(1)[:5] - 0.2).max() > 1e-3


@pytest.mark.parametrize(("n", "evaluations"), [(14, 480), (16, 544), (30, 1984)])
def test_every_coalition_is_evaluated_once(n, evaluations):
    seen = []

    def game(coalitions):
        seen.extend(row.tobytes() for row in coalitions)
        return coalitions.sum(axis=1)

    values = FFDRD(n, random_state=0).approximate(evaluations + 1000, game)
    assert len(seen) == len(set(seen)) == values.estimation_budget == evaluations


@pytest.mark.parametrize("approximator", [FFDRD, FFDRDCorrected])
def test_a_small_budget_is_refused_before_the_game_is_called(approximator):
    instance = approximator(14)
    required = instance.required_budget()
    with pytest.raises(ValueError, match=str(required)):
        instance.approximate(required - 1, pytest.fail)


def test_few_players_are_enumerated():
    table = np.random.default_rng(0).normal(size=2**5)

    def game(coalitions):
        return table[coalitions @ (1 << np.arange(5))]

    values = FFDRD(5).approximate(2**5, game)
    exact = ExactComputer(game, n_players=5)("SV")
    assert not values.estimated
    np.testing.assert_allclose(values.get_n_order_values(1), exact.get_n_order_values(1), atol=1e-9)


def test_efficiency_on_request():
    approximator = FFDRD(10, efficiency_shift=True, random_state=0)
    values = approximator.approximate(400, lambda rows: rows.sum(axis=1) ** 5.5)
    assert values.get_n_order_values(1).sum() == pytest.approx(10**5.5)


def test_the_correction_is_exact_for_additive_games():
    approximator = FFDRDCorrected(12, random_state=0)
    values = approximator.approximate(
        approximator.required_budget(), lambda rows: rows @ np.arange(12.0)
    )
    np.testing.assert_allclose(values.get_n_order_values(1), np.arange(12.0), atol=1e-8)


def test_the_same_instance_gives_the_same_answer_again():
    def game(coalitions):
        return coalitions.sum(axis=1) ** 5.5

    approximator = FFDRDCorrected(10, random_state=1)
    first, second = (approximator.approximate(1024, game) for _ in range(2))
    np.testing.assert_array_equal(first.values, second.values)


def test_it_is_exported():
    assert {FFDRD, FFDRDCorrected} <= set(SV_APPROXIMATORS)
    assert shapiq.FFDRD is FFDRD
    assert "FFDRD" in shapiq.__all__


def test_keyword_arguments_are_ignored_as_elsewhere():
    values = FFDRD(4).approximate(16, lambda rows: rows.sum(axis=1), verbose=True)
    np.testing.assert_allclose(values.get_n_order_values(1), np.ones(4))
