import lightgbm
import numpy as np
import pytest

from shapiq_oddshap.trees import (
    fit_proxy,
    fourier_spectrum,
    leaves_of_booster,
    predict,
    proxy_regressor,
    shapley_values,
)
from tests.helpers import all_coalitions, random_game, shapley_by_definition


def leaf_by_leaf(leaves, coalitions):
    """Σ v 1[P ⊆ S, A ∩ S = ∅], one leaf and one coalition at a time."""
    out = np.zeros(len(coalitions))
    for players, present, length, value in zip(
        leaves.players, leaves.present, leaves.lengths, leaves.values, strict=True
    ):
        for row, coalition in enumerate(coalitions):
            out[row] += value * all(
                coalition[i] == p for i, p in zip(players[:length], present[:length], strict=True)
            )
    return out


@pytest.fixture(scope="module", params=[{}, {"max_depth": 3}, {"num_leaves": 60, "max_depth": -1}])
def proxy(request):
    n = 7
    game = random_game(n)
    params = {"min_child_samples": 1, "n_estimators": 12} | request.param
    return fit_proxy(all_coalitions(n), game.values, params, seed=0), n


def test_leaves_predict_as_the_booster_does():
    n, rng = 9, np.random.default_rng(0)
    coalitions = rng.random((400, n)) < 0.5
    labels = rng.normal(size=400)
    data = lightgbm.Dataset(coalitions.astype(float), labels)
    booster = lightgbm.train({"verbosity": -1, "boost_from_average": False}, data, 20)
    leaves = leaves_of_booster(booster, n)
    everything = all_coalitions(n)
    np.testing.assert_allclose(
        predict(leaves, everything), booster.predict(everything.astype(float)), atol=1e-6
    )


def test_prediction_against_its_twin(proxy):
    leaves, n = proxy
    everything = all_coalitions(n)
    np.testing.assert_allclose(
        predict(leaves, everything), leaf_by_leaf(leaves, everything), atol=1e-12
    )


def test_leaf_formula_of_shapley_values(proxy):
    leaves, n = proxy
    exact = shapley_by_definition(lambda c: predict(leaves, c), n)
    np.testing.assert_allclose(shapley_values(leaves), exact, atol=1e-10)


@pytest.mark.parametrize("odd_only", [True, False])
def test_spectrum_against_the_walsh_hadamard_transform(proxy, odd_only):
    leaves, n = proxy
    everything = all_coalitions(n)
    values = predict(leaves, everything)
    signs = np.array([np.prod(1.0 - 2.0 * everything[:, term], axis=1) for term in everything])
    transform = signs @ values / 2**n
    orders = everything.sum(axis=1)
    if odd_only:
        transform[orders % 2 == 0] = 0
    spectrum = fourier_spectrum(leaves, odd_only=odd_only)
    found = np.zeros(2**n)
    index = spectrum.terms(np.arange(len(spectrum.coefficients))) @ (1 << np.arange(n))
    assert len(set(index.tolist())) == len(index)
    found[index] = spectrum.coefficients
    np.testing.assert_allclose(found, transform, atol=1e-12)
    np.testing.assert_array_equal(spectrum.orders, orders[index])
    energy = (transform**2) @ everything
    np.testing.assert_allclose(spectrum.importance(), np.sqrt(energy), atol=1e-12)


@pytest.mark.parametrize("odd_only", [True, False])
def test_terms_that_are_counted_are_those_that_are_sorted(proxy, odd_only, monkeypatch):
    leaves, _ = proxy
    counted = fourier_spectrum(leaves, odd_only=odd_only)
    monkeypatch.setattr("shapiq_oddshap.trees.spectrum._COUNTED", 0)
    as_sorted = fourier_spectrum(leaves, odd_only=odd_only)
    np.testing.assert_array_equal(counted.coefficients, as_sorted.coefficients)
    np.testing.assert_array_equal(counted.players, as_sorted.players)


def test_spectrum_with_more_players_than_bits():
    """The same trees among 7 and among 200 players: the same coefficients on the moved terms."""
    n, wide = 7, 200
    game, everything = random_game(n), all_coalitions(n)
    place = np.array([3, 70, 71, 128, 129, 198, 199])
    padded = np.zeros((len(everything), wide), dtype=bool)
    padded[:, place] = everything
    params = {"min_child_samples": 1, "n_estimators": 12}
    narrow = fourier_spectrum(fit_proxy(everything, game.values, params, seed=0))
    moved = fourier_spectrum(fit_proxy(padded, game.values, params, seed=0))
    terms, coefficients = narrow.largest(40, min_order=3)
    far_terms, far_coefficients = moved.largest(40, min_order=3)
    np.testing.assert_allclose(far_coefficients, coefficients, atol=1e-12)
    np.testing.assert_array_equal(far_terms[:, place], terms)


def test_largest_terms_are_ranked_and_leave_zeros_out(proxy):
    spectrum = fourier_spectrum(proxy[0])
    terms, coefficients = spectrum.largest(10**6, min_order=3)
    assert (np.diff(np.abs(coefficients)) <= 0).all()
    assert (coefficients != 0).all()
    assert set(terms.sum(axis=1)) <= {3, 5, 7}
    assert len(spectrum.largest(3)[0]) == 3


@pytest.mark.parametrize(
    "values", [np.zeros(50), np.full(50, 1e12), np.arange(50.0)[:2].repeat(25)[:8]]
)
def test_root_only_proxies_have_no_leaves(values):
    coalitions = np.random.default_rng(0).random((len(values), 6)) < 0.5
    leaves = fit_proxy(coalitions, values, None, seed=0)
    assert len(leaves.values) == 0
    np.testing.assert_array_equal(shapley_values(leaves), 0)
    np.testing.assert_array_equal(predict(leaves, coalitions), 0)
    assert len(fourier_spectrum(leaves).largest(5)[0]) == 0


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_labels_are_scaled_for_single_precision(scale):
    n = 6
    game, everything = random_game(n), all_coalitions(n)
    plain = fit_proxy(everything, game.values, {"min_child_samples": 1}, seed=0)
    scaled = fit_proxy(
        everything, scale * game.values + 3 * scale, {"min_child_samples": 1}, seed=0
    )
    np.testing.assert_allclose(
        predict(scaled, everything) / scale, predict(plain, everything), atol=1e-5
    )


def test_a_round_without_a_split_is_not_the_last():
    """Rounded gradients are random: LightGBM goes on, and so do we."""
    coalitions = np.random.default_rng(4).random((60, 10)) < 0.5
    values = coalitions[:, :2].all(axis=1) * 1.0 + coalitions[:, 2:5].all(axis=1)
    params = {"min_gain_to_split": 0.5}
    label = values - values.mean()
    label = np.round(label / np.abs(label).max(), 4)
    options = proxy_regressor(params).get_params()
    options = {name: value for name, value in options.items() if value is not None} | {"seed": 4}
    data = lightgbm.Dataset(coalitions.astype(np.float32), label=label)
    theirs = lightgbm.train(options, data, num_boost_round=options.pop("n_estimators"))
    assert len(fit_proxy(coalitions, values, params, 4).values) == len(
        leaves_of_booster(theirs, 10).values
    )


@pytest.mark.parametrize(
    ("params", "quantised"),
    [
        (None, True),
        ({"max_depth": 5, "n_estimators": 20, "eta": 0.3}, True),
        ({"bagging_fraction": 0.5, "bagging_freq": 1}, False),
        ({"colsample_bytree": 0.5}, False),
        ({"min_child_samples": 1}, True),
    ],
)
def test_gradients_are_quantised_where_lightgbm_gets_it_right(params, quantised):
    regressor = proxy_regressor(params)
    assert regressor.get_params().get("use_quantized_grad", False) is quantised
    rng = np.random.default_rng(0)
    coalitions = rng.random((200, 6)) < 0.5
    leaves = fit_proxy(coalitions, coalitions[:, 0] * coalitions[:, 1] * 1.0, params, seed=0)
    assert np.isfinite(leaves.values).all()
