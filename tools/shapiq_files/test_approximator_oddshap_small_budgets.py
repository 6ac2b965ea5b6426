"""Tests of OddSHAP where evaluations are few, asked twice, or of one player."""

from __future__ import annotations

import numpy as np
import pytest

from shapiq.approximator.regression import OddSHAP


def additive(coalitions: np.ndarray) -> np.ndarray:
    """Return the values of a game whose player ``i`` is worth ``i + 1``."""
    return coalitions @ np.arange(1.0, coalitions.shape[1] + 1.0)


def test_no_player_is_dropped_below_the_candidate_budget():
    """With 100 evaluations there are 10 candidate terms, and 20 players that all matter."""
    values = OddSHAP(n=20, random_state=42).approximate(100, additive)
    np.testing.assert_allclose(values.get_n_order_values(1), np.arange(1.0, 21.0), atol=1e-8)


@pytest.mark.parametrize("budget", [16, 17, 1000])
def test_estimation_budget_is_at_most_the_number_of_coalitions(budget):
    values = OddSHAP(n=4, random_state=42).approximate(budget, additive)
    assert values.estimation_budget == 16
    assert not values.estimated


def test_the_same_instance_gives_the_same_answer_again():
    rng = np.random.default_rng(0)
    table = rng.normal(size=2**9)

    def game(coalitions):
        return table[coalitions @ (1 << np.arange(9))]

    approximator = OddSHAP(n=9, random_state=42)
    first = approximator.approximate(100, game)
    second = approximator.approximate(100, game)
    np.testing.assert_array_equal(first.values, second.values)


def test_different_seeds_still_differ():
    rng = np.random.default_rng(0)
    table = rng.normal(size=2**9)

    def game(coalitions):
        return table[coalitions @ (1 << np.arange(9))]

    first, second = (OddSHAP(n=9, random_state=seed).approximate(100, game) for seed in (0, 1))
    assert not np.array_equal(first.values, second.values)


@pytest.mark.parametrize("budget", [2, 100])
def test_one_player_gets_everything(budget):
    values = OddSHAP(n=1, random_state=42).approximate(
        budget, lambda coalitions: coalitions @ [3.0] + 1
    )
    assert values[(0,)] == pytest.approx(3.0)
    assert values.baseline_value == pytest.approx(1.0)
