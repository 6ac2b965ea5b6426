"""The odd Gaussian process against enumeration: kernel, evidence, posterior, read-out, fits."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from math import comb, factorial

import numpy as np
import pytest

from shapiq_oddshap import OddGP
from shapiq_oddshap.gp import fit_odd_gp
from shapiq_oddshap.gp.correction import (
    Strata,
    calibrated_variances,
    msr_correction,
    msr_variances,
    sampling_variances,
)
from shapiq_oddshap.gp.evidence import SearchOptions, negative_log_evidence
from shapiq_oddshap.gp.kernel import OddKernel, characters, gram, product_variances, signs
from shapiq_oddshap.gp.posterior import (
    _EFFICIENCY_NOISE,
    factorise,
    inverse_diagonal,
    shapley_functionals,
    shapley_prior_variances,
)
from shapiq_oddshap.gp.sparsity import (
    SparseOptions,
    all_triples,
    expectation_maximisation,
    sparse_fit,
    term_posterior,
    triple_sums,
)

N = 6
COALITIONS = np.array(list(product([False, True], repeat=N)))
X = signs(COALITIONS)
ODD = COALITIONS[COALITIONS.sum(axis=1) % 2 == 1]
CHARACTERS = characters(X, ODD)


@pytest.fixture
def kernel():
    rng = np.random.default_rng(0)
    terms = ODD[ODD.sum(axis=1) >= 3][[1, 5, 18]]
    return OddKernel(rng.uniform(0.02, 0.9, N), 0.7, 0.5, terms, rng.random(3), 1e-2)


def coefficient_variances(kernel):
    """Prior variance of every odd term, by the definition and not by the package's formula."""
    a = kernel.rates
    constant = kernel.product / np.sinh(a.sum()) * np.prod(np.cosh(a))
    variances = constant * np.array([np.prod(np.tanh(a)[term]) for term in ODD])
    variances[ODD.sum(axis=1) == 1] += kernel.main / N
    for term, variance in zip(kernel.terms, kernel.term_variances, strict=True):
        variances[(term == ODD).all(axis=1)] += variance
    return variances


def shapley_by_definition(values):
    """Shapley values of game values in the order of COALITIONS."""
    index = {row.tobytes(): value for row, value in zip(COALITIONS, values, strict=True)}
    phi = np.zeros(N)
    for i in range(N):
        for row in COALITIONS[~COALITIONS[:, i]]:
            with_i = row.copy()
            with_i[i] = True
            size = row.sum()
            weight = factorial(size) * factorial(N - size - 1) / factorial(N)
            phi[i] += weight * (index[with_i.tobytes()] - index[row.tobytes()])
    return phi


def half_of_pairs():
    """One member of each pair, without (empty, grand)."""
    rows = COALITIONS[~COALITIONS[:, -1]]
    return rows[rows.any(axis=1)]


def random_game(n, rng, orders=(1, 3)):
    """A function of the coalitions with random odd terms, and its Shapley values."""
    terms = [t for r in orders for t in combinations(range(n), r)]
    beta = np.array([rng.normal() / len(t) ** 2 for t in terms])
    rows = np.array([[i in t for i in range(n)] for t in terms])
    phi = -2.0 * (beta / rows.sum(axis=1)) @ rows
    return (lambda coalitions: characters(signs(coalitions), rows) @ beta), phi


def draw_pairs(n, count, rng):
    seen = {}
    while len(seen) < count:
        row = np.zeros(n, bool)
        row[rng.choice(n, rng.integers(1, n), replace=False)] = True
        row = row if not row[-1] else ~row
        seen.setdefault(row.tobytes(), row)
    return np.array([row for row in seen.values() if row.any()])


def fit(coalitions, values, total, seed=0, **options):
    n = coalitions.shape[1]
    none = np.zeros((0, n), bool)
    rng = np.random.default_rng(seed)
    return fit_odd_gp(
        coalitions,
        values,
        total,
        importance=np.zeros(n),
        terms=none,
        term_scores=np.zeros(0),
        rng=rng,
        **options,
    )


def test_kernel_is_the_sum_over_all_odd_terms(kernel):
    expected = (CHARACTERS * coefficient_variances(kernel)) @ CHARACTERS.T
    np.testing.assert_allclose(gram(kernel, X, X), expected, rtol=1e-12, atol=1e-14)


def test_lower_and_single_precision_kernels_agree(kernel, monkeypatch):
    monkeypatch.setattr("shapiq_oddshap.gp.kernel.BLOCK", 10)
    full = gram(kernel, X, X)
    np.testing.assert_array_equal(np.tril(gram(kernel, X, X, lower=True)), np.tril(full))
    single = gram(kernel, X, X, np.float32)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, full, atol=2e-6)


def test_product_variances_do_not_overflow_with_many_players():
    n = 1500
    rates = np.full(n, 1.9)
    kernel = OddKernel(rates, 1.0, 1.0, np.zeros((0, n), bool), np.zeros(0), 1e-3)
    x = signs(np.random.default_rng(0).random((5, n)) < 0.5)
    matrix = gram(kernel, x, x)
    assert np.isfinite(matrix).all()
    np.testing.assert_allclose(np.diag(matrix), 2.0)
    assert np.isfinite(shapley_functionals(kernel, x)).all()
    assert np.isfinite(shapley_prior_variances(kernel)).all()


def test_shapley_functionals_are_the_shapley_values_of_kernel_functions(kernel):
    functionals = shapley_functionals(kernel, X[:9])
    columns = gram(kernel, X, X[:9])
    expected = np.array([shapley_by_definition(column) for column in columns.T])
    np.testing.assert_allclose(functionals, expected, atol=1e-13)


def test_prior_variances_are_the_sum_over_all_odd_terms(kernel):
    expected = (4 * coefficient_variances(kernel) / ODD.sum(axis=1) ** 2) @ ODD
    np.testing.assert_allclose(shapley_prior_variances(kernel), expected, rtol=1e-10)


def test_posterior_variances_match_the_posterior_over_all_set_functions(kernel):
    # brute force: the posterior covariance of all odd coefficients, then the linear functional
    rows = half_of_pairs()[:11]
    x = np.vstack([np.ones((1, N)), signs(rows)])
    factor, used = factorise(kernel, x)
    prior = np.diag(coefficient_variances(kernel))
    design = characters(x, ODD)
    noise = np.diag([_EFFICIENCY_NOISE, *[used.noise] * len(rows)])
    gain = prior @ design.T @ np.linalg.inv(design @ prior @ design.T + noise)
    posterior = prior - gain @ design @ prior
    functional = -2.0 * (ODD / ODD.sum(axis=1)[:, None]).T
    half = np.linalg.solve(factor, shapley_functionals(kernel, x))
    variances = shapley_prior_variances(kernel) - (half**2).sum(axis=0)
    np.testing.assert_allclose(
        variances, np.diag(functional @ posterior @ functional.T), rtol=1e-7, atol=1e-12
    )


def test_evidence_is_the_gaussian_density_and_its_gradient_is_exact(kernel):
    rng = np.random.default_rng(1)
    x, targets = X[1:25], rng.normal(size=24)
    relative = kernel.term_variances / kernel.term_variances.sum()
    features = characters(x, kernel.terms) * np.sqrt(relative)
    explicit = features @ features.T
    scales = [kernel.main, kernel.product, kernel.term_variances.sum(), kernel.noise]
    theta = np.log(np.concatenate([kernel.rates, scales]))
    value, gradient = negative_log_evidence(theta, x, targets, x @ x.T, explicit)
    matrix = gram(kernel, x, x) + kernel.noise * np.eye(24)
    expected = 0.5 * targets @ np.linalg.solve(matrix, targets) + 0.5 * np.linalg.slogdet(matrix)[1]
    assert value == pytest.approx(expected, rel=1e-10)
    step = 1e-6
    numeric = [
        (
            negative_log_evidence(theta + step * e, x, targets, x @ x.T, explicit)[0]
            - negative_log_evidence(theta - step * e, x, targets, x @ x.T, explicit)[0]
        )
        / (2 * step)
        for e in np.eye(len(theta))
    ]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-6)


def _terms(posterior):
    return posterior.terms(np.arange(len(posterior.means)))


def test_triples_and_their_sums():
    players = np.array([0, 2, 3, 5])
    triples = all_triples(players)
    assert [tuple(t) for t in triples] == list(combinations(players, 3))
    alpha = np.random.default_rng(0).normal(size=len(X))
    expected = [alpha @ X[:, t].prod(axis=1) for t in triples]
    np.testing.assert_allclose(triple_sums(X, alpha, triples), expected, atol=1e-12)
    assert len(all_triples(players[:2])) == 0


def test_term_posterior_matches_the_coefficient_posterior(kernel):
    x, targets = X[1:20], np.random.default_rng(2).normal(size=19)
    matrix = gram(kernel, x, x) + kernel.noise * np.eye(19)
    alpha = np.linalg.solve(matrix, targets)
    found = term_posterior(kernel, x, alpha, 0.1, all_triples(np.arange(N)))
    prior = coefficient_variances(kernel)
    means = prior * (characters(x, ODD).T @ alpha)
    for term, mean, variance in zip(_terms(found), found.means, found.variances, strict=True):
        at = int(np.flatnonzero((term == ODD).all(axis=1))[0])
        assert mean == pytest.approx(means[at], abs=1e-12)
        assert variance == pytest.approx(prior[at] * max(1 - 0.1 * prior[at], 0))


def test_expectation_maximisation_keeps_the_second_moments(kernel):
    x, targets = X[1:20], np.random.default_rng(2).normal(size=19)
    alpha = np.linalg.solve(gram(kernel, x, x) + 0.1 * np.eye(19), targets)
    posterior = term_posterior(kernel, x, alpha, 0.1, all_triples(np.arange(N)))
    new = expectation_maximisation(kernel, posterior, 100, 0.5)
    variances = dict(zip(map(tuple, ODD), coefficient_variances(new), strict=True))
    wanted = posterior.means**2 + posterior.variances
    floor = 0.5 * posterior.product_variances
    for term, moment, low in zip(_terms(posterior), wanted, floor, strict=True):
        assert variances[tuple(term)] == pytest.approx(max(moment, low))


def test_correction_at_all_coalitions_is_the_shapley_value():
    rows = half_of_pairs()
    values = np.random.default_rng(3).normal(size=len(COALITIONS))
    values[[0, -1]] = 0.0
    where = {row.tobytes(): value for row, value in zip(COALITIONS, values, strict=True)}
    odd = np.array([where[row.tobytes()] - where[(~row).tobytes()] for row in rows]) / 2
    strata = Strata.of(rows)
    np.testing.assert_allclose(
        msr_correction(rows, odd, strata), shapley_by_definition(values), atol=1e-12
    )
    assert not msr_variances(rows, odd, strata).any()


def test_correction_is_unbiased_and_its_variance_is_claimed_right():
    rng = np.random.default_rng(4)
    rows = half_of_pairs()
    values = rng.normal(size=len(rows))
    exact = msr_correction(rows, values, Strata.of(rows))
    small = np.minimum(rows.sum(axis=1), N - rows.sum(axis=1))
    estimates, claims = [], []
    for _ in range(4000):
        drawn = np.concatenate(
            [
                rng.choice(np.flatnonzero(small == s), k, replace=False)
                for s, k in [(1, 4), (2, 8), (3, 6)]
            ]
        )
        strata = Strata.of(rows[drawn])
        estimates.append(msr_correction(rows[drawn], values[drawn], strata))
        claims.append(msr_variances(rows[drawn], values[drawn], strata))
    error = np.std(estimates, axis=0) / 4000**0.5
    assert (np.abs(np.mean(estimates, axis=0) - exact) < 5 * error).all()
    ratio = np.mean(claims, axis=0) / np.var(estimates, axis=0)
    # second moments about zero are too large, divisors of finite populations too small
    assert (ratio > 0.85).all()
    assert (ratio < 1.6).all()


def test_sampling_variances_hold_for_a_player_whom_no_small_coalition_holds():
    rows = half_of_pairs()
    errors = np.random.default_rng(7).normal(size=len(rows))
    small = np.minimum(rows.sum(axis=1), N - rows.sum(axis=1))
    alone = (small == 1) & (rows[:, 0] == (rows.sum(axis=1) == 1))  # the pair ({0}, the others)
    drawn = ~alone & (np.arange(len(rows)) % 5 > 0)
    strata = Strata.of(rows[drawn])
    weights = np.where(2 * strata.sizes == N, 1.0, 2.0) / strata.drawn
    # the mean over the members of a size, of what one of them adds
    share = strata.sizes / N
    squares = share / strata.sizes**2 + (1 - share) / (N - strata.sizes) ** 2
    terms = errors[drawn] ** 2 * strata.unseen * weights**2 * squares
    claimed = sampling_variances(rows[drawn], errors[drawn], strata)
    given = msr_variances(rows[drawn], errors[drawn], strata)
    freedom = terms.sum() ** 2 / (terms**2).sum()
    scale = freedom / max(freedom - 2, freedom / 2)
    np.testing.assert_allclose(claimed, scale * (terms.sum() + given) / 2)
    assert claimed[0] > 2 * given[0]
    assert not sampling_variances(rows, errors, Strata.of(rows)).any()


def test_diagonal_of_the_inverse_and_its_mean(kernel, monkeypatch):
    factor, _ = factorise(kernel, X[:40])
    exact = np.diag(np.linalg.inv(factor @ factor.T))
    np.testing.assert_allclose(inverse_diagonal(factor), exact, rtol=1e-6)
    monkeypatch.setattr("shapiq_oddshap.gp.posterior.FLOAT32_PAIRS", 10)
    np.testing.assert_allclose(inverse_diagonal(factor), exact.mean(), rtol=0.5)


def test_fit_at_all_coalitions_is_exact_whatever_the_model():
    values = np.random.default_rng(5).normal(size=len(COALITIONS))
    where = {row.tobytes(): value for row, value in zip(COALITIONS, values, strict=True)}
    rows = half_of_pairs()
    odd = np.array([where[row.tobytes()] - where[(~row).tobytes()] for row in rows]) / 2
    found = fit(rows, odd, values[-1] - values[0])
    np.testing.assert_allclose(found.values, shapley_by_definition(values), atol=1e-9)


@pytest.mark.parametrize("scale", [1e-150, 1e-12, 1.0, 1e12, 1e150])
def test_efficiency_and_equivariance(scale):
    rng = np.random.default_rng(6)
    game, _ = random_game(8, rng, orders=(1, 3, 5, 7))
    rows = draw_pairs(8, 40, rng)
    total = game(np.ones((1, 8), bool))[0] - game(np.zeros((1, 8), bool))[0]
    plain = fit(rows, game(rows), total)
    scaled = fit(rows, game(rows) * scale, total * scale)
    assert scaled.values.sum() == pytest.approx(total * scale, rel=1e-9)
    np.testing.assert_allclose(scaled.values / scale, plain.values, rtol=1e-5)


@pytest.mark.parametrize("n", [3, 10, 30])
def test_additive_games_are_exact(n):
    rng = np.random.default_rng(n)
    effects = rng.normal(size=n)
    rows = np.concatenate([np.eye(n, dtype=bool), draw_pairs(n, 2, rng)[:1]])
    rows = np.unique(rows, axis=0)
    odd = -0.5 * signs(rows) @ effects
    found = fit(rows, odd, effects.sum())
    assert found.model == "additive"
    np.testing.assert_allclose(found.values, effects, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("pairs", [250, 1700])
def test_sparse_games_are_recovered_exactly(pairs):
    """Of more than 1000 pairs, a part is searched and all have to agree."""
    rng = np.random.default_rng(7)
    n = 14
    terms = np.zeros((12, n), bool)
    for row in terms:
        row[rng.choice(n, 3, replace=False)] = True
    terms = np.concatenate([np.eye(n, dtype=bool), terms])
    beta = np.concatenate([rng.normal(size=n), 0.3 * rng.normal(size=12)])
    rows = draw_pairs(n, pairs, rng)
    found = fit(rows, characters(signs(rows), terms) @ beta, -2 * beta.sum())
    expected = -2.0 * (beta / terms.sum(axis=1)) @ terms
    assert found.model == "sparse"
    np.testing.assert_allclose(found.values, expected, atol=1e-9)


@pytest.mark.parametrize("pairs", [15, 17, 20, 60, 400])
def test_variances_of_recovered_games_are_those_of_least_squares(pairs):
    """A game in single precision is recovered up to its rounding, and the intervals know it.

    With many pairs it is the rounding of the total, which nothing averages, that is left.
    """
    rng = np.random.default_rng(pairs)
    n, covered = 12, []
    triples = np.array([[0, 1, 2], [3, 4, 5], [2, 6, 9]])
    terms = np.zeros((3, n), dtype=bool)
    np.put_along_axis(terms, triples, values=True, axis=1)
    everything = np.concatenate([np.eye(n, dtype=bool), terms])
    for _ in range(200):
        rows, beta = draw_pairs(n, pairs, rng), rng.normal(size=n + 3)
        odd = characters(signs(rows), everything) @ beta + 1e-7 * rng.normal(size=len(rows))
        total = -2 * (beta.sum() + 1e-7 * rng.normal())
        found = sparse_fit(rows, odd, total, terms)
        if found is None:  # the draw does not determine the terms
            continue
        values, variances = found
        values += (total - values.sum()) / n  # efficiency, as the fit imposes it
        exact = -2.0 * (beta / everything.sum(axis=1)) @ everything
        covered.append(np.mean(np.abs(values - exact) <= 1.645 * np.sqrt(variances)))
    assert len(covered) > 30
    standard_error = np.std(covered) / np.sqrt(len(covered))
    assert abs(np.mean(covered) - 0.9) < 4 * standard_error + 0.01


def test_sparse_fit_refuses_other_functions():
    rng = np.random.default_rng(8)
    game, _ = random_game(8, rng)
    rows = draw_pairs(8, 60, rng)
    total = -2 * game(np.zeros((1, 8), bool))[0]
    assert sparse_fit(rows, game(rows), total, np.zeros((0, 8), bool)) is None


def test_constants_are_zero():
    rows = half_of_pairs()
    found = fit(rows, np.zeros(len(rows)), 0.0)
    assert not found.values.any()
    assert np.isinf(found.variances).all()  # nothing tells the scale on which others may differ


def test_no_pairs_and_tiny_samples_are_finite():
    none = fit(np.zeros((0, 3), bool), np.zeros(0), 3.0)
    np.testing.assert_allclose(none.values, 1.0)
    one = fit(half_of_pairs()[:1], np.array([0.4]), 3.0)
    assert np.isfinite(one.values).all()
    assert one.values.sum() == pytest.approx(3.0)


def test_pairs_beyond_the_limit_still_count():
    rng = np.random.default_rng(9)
    game, exact = random_game(9, rng, orders=(1, 3, 5))
    rows = draw_pairs(9, 200, rng)
    values = game(rows)
    total = -2 * game(np.zeros((1, 9), bool))[0]
    limited = fit(rows, values, total, max_pairs=60, sparse=SparseOptions(part_rounds=0, rounds=0))
    assert limited.pairs == 60
    assert np.abs(limited.values - exact).max() < 0.1


def test_same_generator_same_bits():
    rng = np.random.default_rng(10)
    game, _ = random_game(9, rng)
    rows = draw_pairs(9, 60, rng)
    total = -2 * game(np.zeros((1, 9), bool))[0]
    first, second = (fit(rows, game(rows), total, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.values, second.values)
    np.testing.assert_array_equal(first.variances, second.variances)


def test_intervals_cover_where_the_model_is_right():
    inside = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rates = rng.uniform(0.05, 0.5, 8)
        none = np.zeros((0, 8), bool)
        prior = OddKernel(rates, 1.0, 0.5, none, np.zeros(0), 1e-6)
        odd = np.array([t for t in product([False, True], repeat=8) if sum(t) % 2])
        variances = product_variances(prior, odd)
        variances[odd.sum(axis=1) == 1] += prior.main / 8
        beta = rng.normal(size=len(odd)) * np.sqrt(variances)
        rows = draw_pairs(8, 40, rng)
        values = characters(signs(rows), odd) @ beta
        found = fit(rows, values, -2 * beta.sum())
        exact = -2.0 * (beta / odd.sum(axis=1)) @ odd
        inside.append(np.abs(found.values - exact) < 1.645 * np.sqrt(found.variances))
    assert 0.75 < np.mean(inside) <= 1.0


def test_kernel_is_frozen(kernel):
    assert replace(kernel, noise=0.5).noise == 0.5
    with pytest.raises(AttributeError):
        kernel.noise = 0.5


def test_search_takes_a_third_of_many_pairs():
    options = SearchOptions(pairs=900, most_pairs=1300)
    assert [options.count(m) for m in (0, 5, 900, 2000, 3000, 10**6)] == [
        0,
        5,
        900,
        900,
        1000,
        1300,
    ]


@pytest.mark.parametrize("noise", [0.0, 0.4, 1e6])
def test_variances_against_equation_17_written_out(noise):
    n, rng = 5, np.random.default_rng(3)
    rows = draw_pairs(n, 9, rng)
    m = len(rows)
    residuals, posterior = rng.normal(size=m), rng.random(n) + 0.1
    alpha, precisions = rng.normal(size=m + 1), rng.random(m + 1) + 0.5
    found = calibrated_variances(
        posterior, residuals, coalitions=rows, sub=np.arange(m), alpha=alpha,
        precisions=precisions, noise=noise, hyperparameters=2,
    )  # fmt: skip
    share = min(noise * precisions[1:].mean(), 1.0)
    drawn = np.bincount(np.minimum(rows.sum(axis=1), n - rows.sum(axis=1)), minlength=n)
    as_drawn, expected = np.zeros(n), []
    for row, a, c in zip(rows, alpha[1:], precisions[1:], strict=True):
        size = int(row.sum())
        k = drawn[min(size, n - size)]
        term = (a / c) ** 2 * (1 - k / comb(n, size)) ** (2 - share) * (2 / k) ** 2
        as_drawn += term * np.where(row, 1 / size**2, 1 / (n - size) ** 2)
        expected.append(term / (size * (n - size)))
    freedom = sum(expected) ** 2 / sum(e**2 for e in expected)
    sampling = freedom / max(freedom - 2, freedom / 2) * (as_drawn + sum(expected)) / 2
    misfit = max(np.mean(alpha[1:] ** 2) / precisions[1:].mean(), 1.0)
    blend = (1 - share) * misfit * posterior + share * sampling
    np.testing.assert_allclose(found, m / (m - 2) * np.maximum(blend, sampling))


def test_variances_of_huge_games_are_infinite_and_no_error():
    _, variances = OddGP(7, random_state=0).approximate_with_variance(
        40, lambda c: (c @ np.arange(7.0)) * 1e160
    )
    assert not np.isnan(variances).any()
    _, variances = OddGP(7, random_state=0).approximate_with_variance(
        40, lambda c: (c @ np.arange(7.0) + c[:, 0] * c[:, 1] * c[:, 2]) * 1e160
    )
    assert np.isinf(variances).all()
