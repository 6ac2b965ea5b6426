"""Single interactions: their posterior and their variances."""

from itertools import combinations

import numpy as np
import pytest

from shapiq_oddshap.gp.kernel import Kernel
from shapiq_oddshap.gp.observations import Observations
from shapiq_oddshap.gp.parts import MainEffects
from shapiq_oddshap.gp.reweighting import (
    ReweightingOptions,
    all_combinations,
    expectation_maximisation,
    reweight,
    term_posterior,
    term_sums,
)
from shapiq_oddshap.gp.signs import characters
from tests.gp.enumeration import ODD, N, X, coefficient_variances, make_kernel


@pytest.fixture
def kernel():
    return make_kernel()


def _terms(posterior):
    return posterior.terms(np.arange(len(posterior.means)))


@pytest.mark.parametrize("order", [2, 3, 4])
def test_combinations_and_their_sums(order):
    players = np.array([0, 2, 3, 4, 5])
    terms = all_combinations(players, order)
    assert [tuple(t) for t in terms] == list(combinations(players, order))
    alpha = np.random.default_rng(0).normal(size=len(X))
    expected = [alpha @ X[:, t].prod(axis=1) for t in terms]
    np.testing.assert_allclose(term_sums(X, alpha, terms), expected, atol=1e-12)
    assert len(all_combinations(players[:1], order)) == 0


def test_term_posterior_matches_the_coefficient_posterior(kernel):
    data = Observations(X[1:20], np.random.default_rng(2).normal(size=19))
    matrix = kernel.gram(data.x, data.x) + kernel.noise * np.eye(19)
    alpha = np.linalg.solve(matrix, data.targets)
    found = term_posterior(kernel, data, all_combinations(np.arange(N), 3), alpha, 0.1)
    prior = coefficient_variances(kernel)
    means = prior * (characters(data.x, ODD).T @ alpha)
    for term, mean, variance in zip(_terms(found), found.means, found.variances, strict=True):
        at = int(np.flatnonzero((term == ODD).all(axis=1))[0])
        assert mean == pytest.approx(means[at], abs=1e-12)
        assert variance == pytest.approx(prior[at] * max(1 - 0.1 * prior[at], 0))


def test_expectation_maximisation_keeps_the_second_moments(kernel):
    data = Observations(X[1:20], np.random.default_rng(2).normal(size=19))
    alpha = np.linalg.solve(kernel.gram(data.x, data.x) + 0.1 * np.eye(19), data.targets)
    posterior = term_posterior(kernel, data, all_combinations(np.arange(N), 3), alpha, 0.1)
    new = expectation_maximisation(kernel, posterior, 100, 0.5)
    variances = dict(zip(map(tuple, ODD), coefficient_variances(new), strict=True))
    wanted = posterior.means**2 + posterior.variances
    floor = 0.5 * posterior.smooth_variances
    for term, moment, low in zip(_terms(posterior), wanted, floor, strict=True):
        assert variances[tuple(term)] == pytest.approx(max(moment, low))


def test_rounds_need_pairs_little_noise_and_a_product_part(kernel):
    options = ReweightingOptions(most_noise=0.1, pairs_per_player=3.0)
    data = Observations(X[:20], np.zeros(20))
    assert options.allow(kernel, data)
    assert not options.allow(kernel.with_noise(0.2), data)
    assert not options.allow(kernel, data.part(10))
    without = Kernel(N, (MainEffects(1.0),), 1e-2)
    assert not options.allow(without, data)
    with pytest.raises(ValueError, match="product part"):
        reweight(without, data, options, 1)
