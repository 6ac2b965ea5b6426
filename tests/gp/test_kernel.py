"""The sum of the parts: Gram matrix, evidence, posterior."""

from dataclasses import replace

import numpy as np
import pytest

from shapiq_oddshap.gp.evidence import Evidence, SearchOptions, without_idle_parts
from shapiq_oddshap.gp.kernel import Kernel
from shapiq_oddshap.gp.observations import EFFICIENCY_NOISE, Observations
from shapiq_oddshap.gp.parts import (
    ChangingInteractions,
    Hints,
    MainEffects,
    Product,
    SizeSteps,
    Terms,
    Unanimity,
)
from shapiq_oddshap.gp.posterior import Posterior
from shapiq_oddshap.gp.signs import characters, signs
from tests.gp.enumeration import (
    CHARACTERS,
    ODD,
    SHAPLEY,
    N,
    X,
    coefficient_variances,
    half_of_pairs,
    make_kernel,
)


@pytest.fixture
def kernel():
    return make_kernel()


@pytest.fixture
def data():
    rows = half_of_pairs()[:11]
    return Observations.of(rows, np.random.default_rng(1).normal(size=11), 0.3)


def test_kernel_is_the_sum_over_all_odd_terms(kernel):
    expected = (CHARACTERS * coefficient_variances(kernel)) @ CHARACTERS.T
    np.testing.assert_allclose(kernel.gram(X, X), expected, rtol=1e-12, atol=1e-14)


def test_lower_and_single_precision_kernels_agree(kernel, monkeypatch):
    monkeypatch.setattr("shapiq_oddshap.gp.kernel.BLOCK", 10)
    full = kernel.gram(X, X)
    np.testing.assert_array_equal(np.tril(kernel.gram(X, X, lower=True)), np.tril(full))
    single = kernel.gram(X, X, np.float32)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, full, atol=2e-6)


def test_read_outs_add_the_parts_up(kernel):
    functionals = kernel.shapley_functionals(X[:9])
    np.testing.assert_allclose(functionals, kernel.gram(X, X[:9]).T @ SHAPLEY, atol=1e-13)
    expected = (4 * coefficient_variances(kernel) / ODD.sum(axis=1) ** 2) @ ODD
    np.testing.assert_allclose(kernel.shapley_prior_variances(), expected, rtol=1e-10)


def test_parts_are_found_and_replaced_by_their_kind(kernel):
    changed = kernel.with_part(MainEffects(9.0))
    assert changed.find(MainEffects).variance == 9.0
    assert len(changed.parts) == len(kernel.parts)
    alone = Kernel(N, (MainEffects(1.0),), 0.1)
    assert alone.find(Terms) is None
    assert len(alone.with_part(kernel.find(Terms)).parts) == 2
    assert kernel.without(Terms).find(Terms) is None
    assert len(kernel.without(Terms).parts) == len(kernel.parts) - 1
    taken = kernel.with_parts_of(alone)
    assert taken.noise == alone.noise
    assert taken.find(MainEffects) is alone.find(MainEffects)
    assert len(taken.parts) == len(kernel.parts)
    with pytest.raises(AttributeError):
        kernel.noise = 0.5


@pytest.mark.parametrize("kinds", [(), (Product,), (MainEffects, Terms)], ids=str)
def test_evidence_is_the_gaussian_density_and_its_gradient_is_exact(kernel, kinds):
    """Of all parts, and of those alone that only a variance changes, or also a shape."""
    parts = tuple(part for part in kernel.parts if not kinds or isinstance(part, kinds))
    kernel = replace(kernel, parts=parts)
    x, targets = X[:25], np.random.default_rng(1).normal(size=25)
    evidence = Evidence(kernel, Observations(x, targets))
    theta = evidence.start
    value, gradient = evidence(theta)
    matrix = kernel.gram(x, x) + np.diag([EFFICIENCY_NOISE, *[kernel.noise] * 24])
    expected = 0.5 * targets @ np.linalg.solve(matrix, targets) + 0.5 * np.linalg.slogdet(matrix)[1]
    assert value == pytest.approx(expected, rel=1e-10)
    step = 1e-6
    for function in (evidence, lambda t: evidence.penalised(t, SearchOptions(shrinkage=2.0))):
        _, gradient = function(theta)
        numeric = [
            (function(theta + step * e)[0] - function(theta - step * e)[0]) / (2 * step)
            for e in np.eye(len(theta))
        ]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-6)


def test_evidence_returns_the_kernel_that_it_was_given(kernel):
    evidence = Evidence(kernel, Observations(X[:9], np.ones(9)))
    again = evidence.kernel(evidence.start)
    np.testing.assert_allclose(again.gram(X, X), kernel.gram(X, X), rtol=1e-12, atol=1e-14)
    assert again.noise == pytest.approx(kernel.noise)
    bounds = evidence.bounds(1e-10)
    assert len(bounds) == len(evidence.start)


def test_search_takes_a_third_of_many_pairs():
    options = SearchOptions(pairs=900, most_pairs=1300)
    counts = [options.count(m) for m in (0, 5, 900, 2000, 3000, 10**6)]
    assert counts == [0, 5, 900, 900, 1000, 1300]


def test_search_starts_on_half_of_the_pairs_between_a_hundred_and_four_hundred():
    counts = []
    for m in (0, 5, 150, 300, 900):
        data = Observations.of(np.zeros((m, 3), dtype=bool), np.ones(m), 0.3)
        counts.append(SearchOptions(first_pairs=400).first(data).pairs)
    assert counts == [0, 5, 100, 150, 400]


def test_posterior_is_that_over_all_set_functions(kernel, data):
    """Brute force: the posterior of all odd coefficients, then the linear functionals."""
    posterior = Posterior.of(kernel, data)
    prior = np.diag(coefficient_variances(kernel))
    design = characters(data.x, ODD)
    noise = np.diag([EFFICIENCY_NOISE, *[posterior.kernel.noise] * data.pairs])
    gain = prior @ design.T @ np.linalg.inv(design @ prior @ design.T + noise)
    functional = -2.0 * (ODD / ODD.sum(axis=1)[:, None]).T
    mean = gain @ data.targets
    np.testing.assert_allclose(posterior.shapley_values(), functional @ mean, rtol=1e-6)
    variances = np.diag(functional @ (prior - gain @ design @ prior) @ functional.T)
    np.testing.assert_allclose(posterior.shapley_variances(), variances, rtol=1e-7, atol=1e-12)
    others = half_of_pairs()[11:20]
    predicted = characters(signs(others), ODD) @ mean
    np.testing.assert_allclose(posterior.mean(others), predicted, rtol=1e-6, atol=1e-9)
    fitted = characters(data.x, ODD) @ mean
    np.testing.assert_allclose(posterior.residuals(), (data.targets - fitted)[1:], atol=1e-9)


def test_leave_one_out_residuals_are_those_of_refits(kernel, data):
    posterior = Posterior.of(kernel, data)
    residuals = posterior.alpha[1:] / posterior.precisions
    for left in range(data.pairs):
        keep = np.delete(np.arange(len(data.x)), left + 1)
        rest = Posterior.of(kernel, Observations(data.x[keep], data.targets[keep]))
        predicted = rest.mean(data.x[[left + 1]] < 0)[0]
        assert residuals[left] == pytest.approx(data.targets[left + 1] - predicted, rel=1e-6)


def test_mean_precision_of_many_pairs(kernel, data, monkeypatch):
    posterior = Posterior.of(kernel, data)
    exact = np.diag(np.linalg.inv(posterior.factor @ posterior.factor.T))
    np.testing.assert_allclose(posterior.precisions, exact[1:], rtol=1e-6)
    monkeypatch.setattr("shapiq_oddshap.gp.posterior._EXACT_DIAGONAL", 5)
    assert posterior.precisions.shape == (11,)
    assert posterior.inverse_trace() == pytest.approx(exact.sum(), rel=0.5)


def test_noise_is_raised_until_the_matrix_is_definite():
    kernel = Kernel(N, (MainEffects(1.0),), 0.0)
    data = Observations.of(half_of_pairs(), np.zeros(len(half_of_pairs())), 0.0)
    assert Posterior.of(kernel, data).kernel.noise > 0


def test_part_of_the_observations_keeps_the_noise_free_row(data):
    part = data.part(4)
    assert part.pairs == 4
    np.testing.assert_array_equal(part.x[0], 1.0)
    assert data.part(11) is data


def test_start_follows_the_proxy():
    hints = Hints(np.arange(float(N)), ODD[[20]], np.array([2.0]))
    kernel = Kernel.start(hints)
    assert replace(kernel.find(Terms)).relative.sum() == 1.0
    assert np.argmax(kernel.parts[1].shape) == N - 1


def test_parts_without_which_the_evidence_is_the_same_are_left_out(data):
    """Those with rates of their own, whose variance is nearly nothing; never the product part."""
    hints = Hints.none(N)
    kernel = Kernel.start(hints, (MainEffects, Product, SizeSteps, ChangingInteractions, Unanimity))
    idle, busy = ChangingInteractions.start(hints), Unanimity.start(hints)
    kernel = kernel.with_part(replace(idle, variance=1e-9)).with_part(replace(busy, variance=30.0))
    kernel = kernel.with_part(replace(kernel.find(Product), variance=1e-9))

    def evidence(kernel):
        evidence = Evidence(kernel, data)
        return -evidence(evidence.start)[0]

    worth = {
        kind: evidence(kernel) - evidence(kernel.without(kind))
        for kind in (ChangingInteractions, Unanimity)
    }
    assert abs(worth[ChangingInteractions]) < 1e-3 < 0.1 < worth[Unanimity]
    expected = {MainEffects, Product, SizeSteps}
    left = without_idle_parts(kernel, data, 0.1)
    assert {type(part) for part in left.parts} == expected | {Unanimity}
    everything = without_idle_parts(kernel, data, np.inf)
    assert {type(part) for part in everything.parts} == expected
    assert without_idle_parts(everything, data, np.inf) is everything
