"""Tests of the odd Gaussian process."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import shapiq
from shapiq.approximator import SV_APPROXIMATORS, KernelSHAP, OddGP
from shapiq.explainer.configuration import setup_approximator
from shapiq.game_theory.exact import ExactComputer
from tests.shapiq.markers import skip_if_no_lightgbm


def smooth_game(coalitions: np.ndarray) -> np.ndarray:
    """Return the values of a game with interactions of all orders."""
    n = coalitions.shape[1]
    return np.tanh(coalitions @ np.linspace(-1.0, 2.0, n)) + coalitions[:, 0] * coalitions[:, 1]


@skip_if_no_lightgbm
def test_the_error_is_below_kernelshap_and_the_intervals_cover():
    n = 10
    exact = ExactComputer(smooth_game, n_players=n)("SV").get_n_order_values(1)
    errors, theirs, inside = [], [], []
    for seed in range(8):
        values, variances = OddGP(n, random_state=seed).approximate_with_variance(120, smooth_game)
        error = values.get_n_order_values(1) - exact
        assert variances.shape == (n,)
        inside += (np.abs(error) <= 1.645 * np.sqrt(variances)).tolist()
        errors.append(np.mean(error**2))
        other = KernelSHAP(n, random_state=seed).approximate(120, smooth_game)
        theirs.append(np.mean((other.get_n_order_values(1) - exact) ** 2))
    assert np.mean(errors) < 0.5 * np.mean(theirs)
    assert np.mean(inside) > 0.7


@skip_if_no_lightgbm
@pytest.mark.parametrize("budget", [22, 60, 200])
def test_the_values_are_efficient(budget):
    values = OddGP(10, random_state=0).approximate(budget, smooth_game)
    ends = smooth_game(np.array([np.zeros(10), np.ones(10)]))
    assert values.get_n_order_values(1).sum() == pytest.approx(ends[1] - ends[0])
    assert values.baseline_value == pytest.approx(ends[0])
    assert values.estimation_budget <= budget


def test_all_coalitions_make_it_exact():
    values, variances = OddGP(6, random_state=0).approximate_with_variance(64, smooth_game)
    exact = ExactComputer(smooth_game, n_players=6)("SV")
    np.testing.assert_allclose(values.get_n_order_values(1), exact.get_n_order_values(1), atol=1e-9)
    np.testing.assert_array_equal(variances, 0.0)
    assert not values.estimated


@skip_if_no_lightgbm
@pytest.mark.parametrize("index", ["SII", "k-SII"])
def test_pairwise_interactions(index):
    approximator = OddGP(6, max_order=2, index=index, random_state=0)
    values = approximator.approximate(64, smooth_game)
    exact = ExactComputer(smooth_game, n_players=6)(index, order=2)
    np.testing.assert_allclose(values.get_n_order_values(2), exact.get_n_order_values(2), atol=1e-9)


@skip_if_no_lightgbm
def test_the_same_instance_gives_the_same_answer_again():
    approximator = OddGP(10, random_state=1)
    first, second = (approximator.approximate(80, smooth_game) for _ in range(2))
    np.testing.assert_array_equal(first.values, second.values)


def test_a_tree_takes_the_place_of_lightgbm(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.warns(UserWarning, match="LightGBM is not installed"):
        values = OddGP(10, random_state=0).approximate(200, smooth_game)
    exact = ExactComputer(smooth_game, n_players=10)("SV").get_n_order_values(1)
    np.testing.assert_allclose(values.get_n_order_values(1), exact, atol=0.1)


def test_wrong_orders_are_refused():
    with pytest.raises(ValueError, match="index"):
        OddGP(6, max_order=2, index="SV")
    with pytest.raises(ValueError, match="at most"):
        OddGP(1000, max_order=2, index="SII")


def test_it_is_exported_and_named():
    assert OddGP in SV_APPROXIMATORS
    assert shapiq.OddGP is OddGP
    assert "OddGP" in shapiq.__all__
    assert isinstance(setup_approximator("oddgp", "SV", 1, 10), OddGP)
