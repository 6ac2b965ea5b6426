"""The paper's theorems, on games small enough to enumerate."""

from itertools import combinations
from math import comb

import numpy as np
import pytest

from shapiq_oddshap.fourier import (
    interactions,
    parities,
    shapley_values,
    singletons,
    sparse_singletons,
)
from shapiq_oddshap.interactions import regressed_interactions
from shapiq_oddshap.regression import constrained_least_squares, fit_terms
from shapiq_oddshap.sample import Sample
from shapiq_oddshap.sampling import PairedCoalitionSampler, size_weights
from tests.helpers import (
    all_coalitions,
    interactions_by_definition,
    random_game,
    shapley_by_definition,
)

N = 6


def terms_up_to(order, n=N, parity=None):
    rows = [
        [i in members for i in range(n)]
        for size in range(order + 1)
        for members in combinations(range(n), size)
        if parity is None or size % 2 == parity
    ]
    return np.array(rows, dtype=bool)


def unanimity(terms, coalitions):
    """u_T(S) = 1[T ⊆ S]."""
    return np.array([(coalitions | ~term).all(axis=1) for term in terms], dtype=float)


def fit_by_projection(columns, boundary_columns, targets, weights, boundary_targets):
    """The constrained regression as a KKT system in plain dense algebra."""
    gram = (columns * weights) @ columns.T
    kkt = np.block([[gram, boundary_columns], [boundary_columns.T, np.zeros((2, 2))]])
    right = np.concatenate([(columns * weights) @ targets, boundary_targets])
    return np.linalg.lstsq(kkt, right, rcond=None)[0][: len(columns)]


def paired_sample(budget, seed=0):
    sampler = PairedCoalitionSampler(N, random_state=seed)
    sampler.sample(budget)
    coalitions = sampler.coalitions_matrix
    game = random_game(N, seed)
    return Sample(coalitions, game(coalitions), size_weights(coalitions)), game


@pytest.mark.parametrize("parity", ["odd", "both"])
@pytest.mark.parametrize("budget", [10, 40])
def test_sparse_singletons_are_the_dense_ones(parity, budget):
    sample, _ = paired_sample(budget)
    sparse, dense = sparse_singletons(N), singletons(N)
    np.testing.assert_array_equal(
        parities(sparse, sample.coalitions), parities(dense, sample.coalitions)
    )
    fits = [fit_terms(sample, terms, parity) for terms in (sparse, dense)]
    np.testing.assert_array_equal(fits[0].terms.toarray(), fits[1].terms)
    np.testing.assert_array_equal(fits[0].coefficients, fits[1].coefficients)
    values = [shapley_values(fit.coefficients, fit.terms) for fit in fits]
    np.testing.assert_array_equal(*values)


def test_shapley_values_of_odd_and_even_parts():
    """Observation 3.1: φ(f) = φ(f_odd), and φ(f_even) = 0."""
    game = random_game(N)

    def part(sign):
        return lambda c: (game(c) + sign * game(~c)) / 2

    exact = shapley_by_definition(game, N)
    np.testing.assert_allclose(shapley_by_definition(part(-1), N), exact, atol=1e-12)
    np.testing.assert_allclose(shapley_by_definition(part(+1), N), 0, atol=1e-12)


def test_closed_form_of_the_shapley_transform():
    """φ_i = -2 Σ_{T∋i, |T| odd} β_T / |T| for the Walsh–Hadamard coefficients."""
    game = random_game(N)
    everything = all_coalitions(N)
    spectrum = parities(everything, everything) @ game.values / 2**N
    np.testing.assert_allclose(
        shapley_values(spectrum, everything), shapley_by_definition(game, N), atol=1e-12
    )


def interaction_by_definition(game, members, n):
    """The Shapley interaction index of any players: the mean over sizes of mean differences."""
    rest = [i for i in range(n) if i not in members]
    order, value = len(members), 0.0
    for size in range(n - order + 1):
        for others in combinations(rest, size):
            rows = np.zeros((2**order, n), dtype=bool)
            rows[:, list(others)] = True
            rows[:, list(members)] = all_coalitions(order)
            signs = (-1.0) ** (order - all_coalitions(order).sum(axis=1))
            value += signs @ game(rows) / ((n - order + 1) * comb(n - order, size))
    return value


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_an_index_of_order_k_depends_on_the_component_of_the_parity_of_k(order):
    game, members = random_game(N), list(range(order))
    exact = interaction_by_definition(game, members, N)

    def part(sign):
        return lambda c: (game(c) + sign * game(~c)) / 2

    own, other = (-1) ** order, -((-1) ** order)
    assert interaction_by_definition(part(own), members, N) == pytest.approx(exact)
    assert interaction_by_definition(part(other), members, N) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("order", [2, 3])
def test_closed_form_of_interactions(order):
    """SII_A = (-2)^k Σ_{T⊇A, |T| ≡ k} β_T / (|T| - k + 1)."""
    game = random_game(N)
    everything = all_coalitions(N)
    spectrum = parities(everything, everything) @ game.values / 2**N
    found = interactions(spectrum, everything, order)
    np.testing.assert_allclose(found, interactions_by_definition(game, N, order), atol=1e-12)


def test_regression_on_even_terms_is_untouched_by_odd_ones():
    """The twin of theorem 3.2, with a value per size: an odd game on top changes nothing."""
    sample, _ = paired_sample(44)
    odd = random_game(N, seed=5)
    values = sample.values + odd(sample.coalitions) - odd(~sample.coalitions)
    moved = Sample(sample.coalitions, values, sample.weights)
    terms = terms_up_to(2, parity=0)[1:]
    np.testing.assert_allclose(
        regressed_interactions(moved, terms), regressed_interactions(sample, terms), atol=1e-10
    )


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("budget", [50, 58])
def test_even_odd_separation(order, budget):
    """Theorem 3.2: the joint fit is the sum of the odd and the even fit."""
    sample, _ = paired_sample(budget)
    terms = terms_up_to(order)
    inner = sample.coalitions[2:]
    joint = fit_by_projection(
        parities(terms, inner).astype(float),
        parities(terms, sample.coalitions[:2]).astype(float),
        sample.values[2:],
        sample.weights[2:],
        sample.values[:2],
    )
    rows, odd = sample.component("odd"), terms_up_to(order, parity=1)
    fit = constrained_least_squares(
        odd,
        rows.coalitions,
        rows.targets,
        rows.weights,
        np.ones((1, len(odd))),
        np.array([-sample.total / 2]),
    )
    np.testing.assert_allclose(
        shapley_values(joint, terms), shapley_values(fit.coefficients, odd), atol=1e-9
    )


@pytest.mark.parametrize("order", [1, 3])
def test_frontier_invariance(order):
    """Corollary 3.3: under paired sampling, k and k + 1 (k odd) give equal Shapley values."""
    sample, _ = paired_sample(60)
    inner, phi = sample.coalitions[2:], []
    for frontier in (order, order + 1):
        terms = terms_up_to(frontier)
        alpha = fit_by_projection(
            unanimity(terms, inner),
            unanimity(terms, sample.coalitions[:2]),
            sample.values[2:],
            sample.weights[2:],
            sample.values[:2],
        )
        sizes = np.maximum(terms.sum(axis=1), 1)
        phi.append((alpha / sizes) @ terms)
    np.testing.assert_allclose(phi[0], phi[1], atol=1e-8)


def test_unanimity_and_fourier_spans_are_equal():
    """Lemma 3.4."""
    everything = all_coalitions(N)
    terms = terms_up_to(3)
    both = np.concatenate([unanimity(terms, everything), parities(terms, everything)])
    assert np.linalg.matrix_rank(both) == len(terms)


@pytest.mark.parametrize("seed", range(3))
def test_fourier_regression(seed):
    """Theorem 3.5: with all coalitions, any support that holds the singletons is exact."""
    game, everything = random_game(N, seed), all_coalitions(N)
    inner = everything[1:-1]
    sizes = inner.sum(axis=1)
    weights = np.array([1 / (s * (N - s) * comb(N, s)) for s in sizes.tolist()])
    rng = np.random.default_rng(seed)
    extra = terms_up_to(5, parity=1)[N:]
    support = np.concatenate([singletons(N), extra[rng.permutation(len(extra))[:5]]])
    total = game.values[-1] - game.values[0]
    fit = constrained_least_squares(
        support,
        inner,
        game(inner) - game.values[0] - total / 2,
        weights,
        np.ones((1, len(support))),
        np.array([-total / 2]),
    )
    np.testing.assert_allclose(
        shapley_values(fit.coefficients, support), shapley_by_definition(game, N), atol=1e-9
    )


@pytest.mark.parametrize("parity", ["odd", "both"])
@pytest.mark.parametrize("size_effects", ["auto", "always"])
@pytest.mark.parametrize("seed", range(3))
def test_fourier_regression_with_size_effects(seed, size_effects, parity):
    """Theorem 3.5 where functions of the size join the terms and nothing is demanded at the ends."""
    game, everything = random_game(N, seed), all_coalitions(N)
    coalitions = np.concatenate([everything[[0, -1]], everything[1:-1]])
    sample = Sample(coalitions, game(coalitions), size_weights(coalitions))
    rng = np.random.default_rng(seed)
    extra = terms_up_to(5, parity=1)[N:]
    support = np.concatenate([singletons(N), extra[rng.permutation(len(extra))[:5]]])
    fit = fit_terms(sample, support, parity, size_effects)
    np.testing.assert_allclose(
        shapley_values(fit.coefficients, fit.terms), shapley_by_definition(game, N), atol=1e-9
    )
