"""Contract, orders: who offers interactions of an order gives them with the same Shapley values."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from math import comb

import matplotlib as mpl
import numpy as np
import pytest
import shapiq

from shapiq_oddshap.approximators import APPROXIMATORS
from tests.helpers import (
    interactions_by_definition,
    interactions_of,
    phi_of,
    random_game,
    shapley_by_definition,
    smooth_game,
)

mpl.use("Agg")
OFFERED = {
    f"{name}-{order}": (name, cls, order)
    for name, cls in APPROXIMATORS.items()
    for order in cls.offered
    if order > 1
}
DATA = np.random.default_rng(0).normal(size=(30, 5))


def model(x):
    return x[:, 0] * x[:, 1] + x @ np.arange(5)


@pytest.fixture(params=OFFERED.values(), ids=OFFERED.keys())
def offered(request):
    return request.param


@pytest.fixture
def cls(offered):
    return offered[1]


@pytest.fixture
def order(offered):
    return offered[2]


def higher(values, order):
    return np.concatenate([interactions_of(values, k) for k in range(2, order + 1)])


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_exact_with_all_coalitions(cls, order, n):
    game = random_game(n, seed=n)
    sii = cls(n, max_order=order, index="SII").estimate(2**n, game)
    np.testing.assert_allclose(phi_of(sii.values), shapley_by_definition(game, n), atol=1e-10)
    exact = np.concatenate([interactions_by_definition(game, n, k) for k in range(2, order + 1)])
    np.testing.assert_allclose(higher(sii.values, order), exact, atol=1e-10)
    assert not sii.values.estimated
    np.testing.assert_array_equal(sii.variances, np.zeros(n + len(exact)))


@pytest.mark.parametrize("n", [2, 3, 6])
def test_k_sii_is_shapiqs(cls, order, n):
    game = random_game(n, seed=n)
    values = cls(n, max_order=order, index="k-SII").approximate(2**n, game)
    assert (values.index, values.max_order, values.min_order) == ("k-SII", order, 0)
    exact = shapiq.ExactComputer(game, n_players=n)("k-SII", order=min(order, n))
    for size in range(1, order + 1):
        for players in combinations(range(n), size):
            assert values[players] == pytest.approx(exact[players], abs=1e-10)
    total = game.values[-1] - game.values[0]
    assert sum(values[p] for p in values.interaction_lookup if p) == pytest.approx(total)
    assert values[()] == pytest.approx(game.values[0])


@pytest.mark.parametrize("budget", [2, 20, 60, 300])
def test_values_are_those_of_lower_orders_to_the_bit(cls, order, budget):
    n, game = 10, smooth_game(10)
    for lower in (1, 2)[: order - 1]:
        index = "SV" if lower == 1 else "SII"
        one = cls(n, max_order=lower, index=index, random_state=3).estimate(budget, game)
        two = cls(n, max_order=order, index="SII", random_state=3).estimate(budget, game)
        np.testing.assert_array_equal(
            interactions_of(two.values, lower), interactions_of(one.values, lower)
        )
        if one.variances is not None:
            np.testing.assert_array_equal(two.variances[: len(one.variances)], one.variances)
            assert len(two.variances) == sum(comb(n, k) for k in range(1, order + 1))


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_every_budget_works(cls, order, n):
    for budget in range(2, 2**n + 2):
        game = random_game(n, seed=budget)
        for index in ("SII", "k-SII"):
            game.asked.clear()
            instance = cls(n, max_order=order, index=index, random_state=budget)
            found = instance.estimate(budget, game)
            values = found.values
            assert len(game.asked) == len(set(game.asked)) == values.estimation_budget <= budget
            assert np.isfinite(values.values).all()
            assert found.variances is None or not np.isnan(found.variances).any()


@pytest.mark.parametrize(("factor", "shift"), [(1e12, 0.0), (-3.0, 7.0)])
def test_affine_equivariance(cls, order, factor, shift):
    n, game = 10, smooth_game(10)
    for budget in (24, 300):
        instance = cls(n, max_order=order, index="SII", random_state=0)
        plain = higher(instance.approximate(budget, game), order)
        moved = higher(instance.approximate(budget, lambda c: factor * game(c) + shift), order)
        np.testing.assert_allclose(moved / factor, plain, atol=1e-7)


def test_constant_and_additive_games_have_no_interactions(cls, order):
    n, main = 12, np.random.default_rng(0).normal(size=12)
    for game in (lambda c: np.full(len(c), 3.0), lambda c: c @ main):
        values = cls(n, max_order=order, index="SII", random_state=0).approximate(100, game)
        np.testing.assert_allclose(higher(values, order), 0, atol=1e-9)


def answer(instance):
    return instance.approximate(200, smooth_game(9)).values.tobytes()


def test_same_seed_same_bits_in_copies_and_threads(cls, order):
    instance = cls(9, max_order=order, index="k-SII", random_state=7)
    expected = answer(instance)
    assert answer(copy.deepcopy(instance)) == expected
    assert answer(pickle.loads(pickle.dumps(instance))) == expected
    assert f"max_order={order}, index='k-SII'" in repr(instance)
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: answer(instance), range(4))) == {expected}


@pytest.mark.parametrize("index", ["SII", "k-SII"])
def test_explainers_by_name(offered, index):
    name, _, order = offered
    arguments = {"index": index, "max_order": order, "random_state": 1}
    explainer = shapiq.TabularExplainer(model, DATA, approximator=name, **arguments)
    values = explainer.explain(DATA[0], budget=32)
    reference = shapiq.TabularExplainer(model, DATA, approximator="regression", **arguments)
    exact = reference.explain(DATA[0], budget=32)
    assert (values.index, values.max_order) == (index, order)
    np.testing.assert_allclose(phi_of(values), phi_of(exact), atol=1e-6)
    np.testing.assert_allclose(higher(values, order), higher(exact, order), atol=1e-6)


def test_outputs_are_those_of_each_alone(cls, order):
    """Where the game is recovered, whichever pairs were chosen for both together."""
    n = 9
    games = [smooth_game(n, seed=seed) for seed in range(2)]
    instance = cls(n, max_order=order, index="k-SII", random_state=2)
    found = instance.estimate_outputs(400, lambda c: np.stack([game(c) for game in games], axis=1))
    for one, game in zip(found, games, strict=True):
        alone = instance.approximate(400, game)
        np.testing.assert_allclose(higher(one.values, order), higher(alone, order), atol=1e-7)


def test_results_survive_shapiqs_tools(cls, order, tmp_path):
    values = cls(7, max_order=order, index="k-SII", random_state=0).approximate(60, smooth_game(7))
    values.to_json_file(tmp_path / "values.json")
    loaded = shapiq.InteractionValues.from_json_file(tmp_path / "values.json")
    np.testing.assert_allclose(higher(loaded, order), higher(values, order))
    values.plot_network(show=False)
    values.plot_force(show=False)
    values.plot_upset(show=False)
    values.plot_stacked_bar(show=False)
    mpl.pyplot.close("all")


@pytest.mark.parametrize("wrong", [{"max_order": 4, "index": "SII"}, {"max_order": 2}])
def test_other_orders_are_refused(cls, wrong):
    with pytest.raises(ValueError, match="'SII' or index='k-SII' with max_order=2"):
        cls(5, **wrong)
