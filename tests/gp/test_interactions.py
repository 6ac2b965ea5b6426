"""Interactions from both processes: read-out, correction, exactness, intervals, by order."""

import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

from shapiq_oddshap import OddGP
from shapiq_oddshap.fourier import interactions, subsets
from shapiq_oddshap.gp import Hints, Pairs, fit_odd_gp
from shapiq_oddshap.gp.correction import Strata, correction, correction_variances
from shapiq_oddshap.gp.intervals import calibrated_variances, sampling_variances
from shapiq_oddshap.gp.kernel import Kernel
from shapiq_oddshap.gp.observations import Observations
from shapiq_oddshap.gp.parts import (
    ChangingInteractions,
    Constant,
    MainEffects,
    PairEffects,
    Product,
    SizeSteps,
    Terms,
)
from shapiq_oddshap.gp.posterior import Posterior
from shapiq_oddshap.gp.readout import PAIRWISE, SHAPLEY_VALUES, TRIPLEWISE
from shapiq_oddshap.gp.signs import characters, signs
from shapiq_oddshap.interactions import aggregated_odd_values, complete
from shapiq_oddshap.sample import Sample
from shapiq_oddshap.sampling import PairedCoalitionSampler
from tests.gp.enumeration import (
    COALITIONS,
    INTERACTIONS,
    ODD,
    SHAPLEY,
    N,
    X,
    draw_pairs,
    half_of_pairs,
)
from tests.helpers import (
    TableGame,
    all_coalitions,
    interactions_by_definition,
    interactions_of,
    random_game,
    tree_game,
)

EVEN = COALITIONS[COALITIONS.sum(axis=1) % 2 == 0]
READOUTS = {2: PAIRWISE, 3: TRIPLEWISE}
RATES = np.random.default_rng(0).uniform(0.05, 0.8, N)
KERNELS = {
    2: (
        Constant(0.2, parity="even"),
        PairEffects(0.4, parity="even"),
        Product(0.6, RATES, parity="even"),
        Terms.of(EVEN[[3, 9, 20]], np.array([0.3, 0.1, 0.2])),
        SizeSteps(0.1, parity="even"),
    ),
    3: (
        MainEffects(0.4),
        Product(0.6, RATES),
        Terms.of(ODD[[3, 9, 20]], np.array([0.3, 0.1, 0.2])),
        SizeSteps(0.1),
        ChangingInteractions(0.2, RATES),
    ),
}


def posterior_by_enumeration(order):
    """A posterior, and mean and covariance of all values by the definition."""
    x = np.concatenate([X[:1], X[5:20]])
    data = Observations(x, np.concatenate([[0.0], np.random.default_rng(1).normal(size=15)]))
    posterior = Posterior.of(Kernel(N, KERNELS[order], 1e-2), data)
    kernel = posterior.kernel
    noisy = kernel.gram(x, x) + np.diag([1e-12, *[kernel.noise] * 15])
    cross = kernel.gram(X, x)
    mean = cross @ np.linalg.solve(noisy, data.targets)
    return posterior, mean, kernel.gram(X, X) - cross @ np.linalg.solve(noisy, cross.T)


def even_fit(coalitions, targets, seed=0):
    pairs = Pairs(coalitions, targets, 0.0)
    rng = np.random.default_rng(seed)
    return fit_odd_gp(pairs, Hints.none(coalitions.shape[1]), rng, readout=PAIRWISE)


def values_of_parity(order):
    """A function with the parity of an order and any values, zero at the empty and the grand coalition."""
    values = np.random.default_rng(3).normal(size=len(COALITIONS))
    values = values + (-1) ** order * values[::-1]
    values[[0, -1]] = 0.0
    return values


def at(rows, order):
    values = values_of_parity(order)
    where = {row.tobytes(): value for row, value in zip(COALITIONS, values, strict=True)}
    return np.array([where[row.tobytes()] for row in rows])


def random_even_game(n, terms, rng):
    rows = np.zeros((len(terms), n), dtype=bool)
    for row, term in zip(rows, terms, strict=True):
        row[list(term)] = True
    beta = rng.normal(size=len(terms))
    constant = -beta.sum()  # zero at the empty coalition
    return lambda c: characters(signs(c), rows) @ beta + constant, interactions(beta, rows, 2)


@pytest.mark.parametrize("order", [2, 3])
def test_posterior_read_out_against_enumeration(order):
    posterior, mean, covariance = posterior_by_enumeration(order)
    exact = INTERACTIONS[order]
    np.testing.assert_allclose(posterior.interactions(order), mean @ exact, atol=1e-9)
    expected = np.diag(exact.T @ covariance @ exact)
    np.testing.assert_allclose(posterior.interaction_variances(order), expected, atol=1e-9)


def test_aggregated_interactions_of_the_odd_posterior_against_enumeration():
    """φ_i + Σ SII_ijl / 6 and -Σ SII_ijl / 2: their errors are correlated, as the posterior knows."""
    posterior, _, covariance = posterior_by_enumeration(3)
    triples = np.array(list(combinations(range(N), 3)))
    pairs = list(combinations(range(N), 2))
    member = np.array([(triples == i).any(axis=1) for i in range(N)])
    inside = np.array([member[i] & member[j] for i, j in pairs])
    ends = COALITIONS[[0, -1]]
    sample = Sample(ends, np.array([0.0, 1.0]), np.zeros(2))  # no sum is known
    of_players, of_pairs = aggregated_odd_values(sample)
    for readout, matrix in (
        (of_players, SHAPLEY + INTERACTIONS[3] @ member.T / 6),
        (of_pairs, -INTERACTIONS[3] @ inside.T / 2),
    ):
        expected = np.diag(matrix.T @ covariance @ matrix)
        np.testing.assert_allclose(readout.variances(posterior), expected, atol=1e-9)
        values = characters(X, ODD).T @ matrix
        np.testing.assert_allclose(readout.functionals(ODD), values, atol=1e-12)


@pytest.mark.parametrize("order", [2, 3])
def test_correction_at_all_coalitions_is_the_interaction(order):
    rows = half_of_pairs()
    strata = Strata.of(rows)
    expected = values_of_parity(order) @ INTERACTIONS[order]
    found = correction(rows, at(rows, order), strata, order)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert not correction_variances(rows, at(rows, order), strata, order).any()


@pytest.mark.parametrize("order", [2, 3])
def test_correction_is_unbiased_and_its_variance_is_claimed_right(order):
    rng = np.random.default_rng(4)
    rows, values = half_of_pairs(), at(half_of_pairs(), order)
    exact = correction(rows, values, Strata.of(rows), order)
    small = np.minimum(rows.sum(axis=1), N - rows.sum(axis=1))
    estimates, claims, means = [], [], []
    for _ in range(4000):
        drawn = np.concatenate(
            [
                rng.choice(np.flatnonzero(small == s), k, replace=False)
                for s, k in [(1, 4), (2, 8), (3, 6)]
            ]
        )
        strata = Strata.of(rows[drawn])
        estimates.append(correction(rows[drawn], values[drawn], strata, order))
        claims.append(correction_variances(rows[drawn], values[drawn], strata, order))
        errors = values[drawn] ** 2 * strata.unseen
        means.append(float(errors @ READOUTS[order].mean_squares(strata)))
    error = np.std(estimates, axis=0) / 4000**0.5
    assert (np.abs(np.mean(estimates, axis=0) - exact) < 5 * error).all()
    ratio = np.mean(claims, axis=0) / np.var(estimates, axis=0)
    # second moments about zero are too large where a size has a mean of its own
    assert (ratio > 0.85).all()
    # what is expected of a set is the mean over all of what is claimed for each
    assert np.mean(means) == pytest.approx(np.mean(claims), rel=0.05)


@pytest.mark.parametrize("order", [2, 3])
def test_sampling_variances_hold_for_a_set_that_no_small_coalition_holds(order):
    rows, readout = half_of_pairs(), READOUTS[order]
    drawn = rows[~((rows.sum(axis=1) == order) & rows[:, :order].all(axis=1))][::2]
    errors = np.random.default_rng(0).normal(size=len(drawn))
    strata = Strata.of(drawn)
    claimed = sampling_variances(drawn, errors, strata, readout)
    assert (claimed > 0.5 * correction_variances(drawn, errors, strata, order)).all()
    assert claimed.min() >= 0.5 * float(errors**2 * strata.unseen @ readout.mean_squares(strata))


def test_fit_at_all_coalitions_is_exact_whatever_the_model():
    rows = half_of_pairs()
    found = even_fit(rows, at(rows, 2))
    np.testing.assert_allclose(found.values, values_of_parity(2) @ INTERACTIONS[2], atol=1e-8)
    odd = fit_odd_gp(Pairs(rows, at(rows, 3), 0.0), Hints.none(N), np.random.default_rng(0))
    triples, _ = odd.read(TRIPLEWISE)
    np.testing.assert_allclose(triples, values_of_parity(3) @ INTERACTIONS[3], atol=1e-8)


@pytest.mark.parametrize("n", [6, 8, 12])
def test_games_of_order_two_are_exact_from_hardly_more_equations_than_unknowns(n):
    rng = np.random.default_rng(n)
    game, exact = random_even_game(n, list(combinations(range(n), 2)), rng)
    unknowns = 1 + n * (n - 1) // 2  # the constant and all pairs
    rows = draw_pairs(n, unknowns + 5, rng)
    found = even_fit(rows, game(rows))
    assert found.path == "pairwise"
    np.testing.assert_allclose(found.values, exact, atol=1e-8)


def test_sparse_even_games_are_recovered_from_fewer():
    n, rng = 16, np.random.default_rng(1)
    terms = [(0, 1), (2, 5), (7, 8), (3, 9), (1, 4, 6, 11), (2, 8, 12, 15)]
    game, exact = random_even_game(n, terms, rng)
    rows = draw_pairs(n, 140, rng)
    found = even_fit(rows, game(rows))
    assert found.path == "sparse"
    np.testing.assert_allclose(found.values, exact, atol=1e-8)


@pytest.mark.parametrize(("order", "budget"), [(2, 26), (3, 60)])
def test_interactions_sum_to_what_smaller_sets_tell(order, budget):
    """Σ_l SII_B∪l = -2 Δ_B f(∅) of the component, and the estimate is moved onto it, no further."""
    n, rng = 7, np.random.default_rng(0)
    game = random_game(n)
    exact = interactions_by_definition(game, n, order)
    sampler = PairedCoalitionSampler(n, random_state=0)
    sampler.sample(budget)
    rows = sampler.coalitions_matrix
    drawn = {row.tobytes() for row in rows}

    def known(players):
        return all(
            np.isin(np.arange(n), some).tobytes() in drawn
            for size in range(1, order)
            for some in combinations(players, size)
        )

    faces = [players for players in combinations(range(n), order - 1) if known(players)]
    assert 1 < len(faces) < len(list(combinations(range(n), order - 1)))
    sample = Sample(rows, game(rows), np.r_[0, 0, np.ones(len(rows) - 2)])
    members = np.stack(subsets(n, order), axis=1)
    sums = np.array([np.isin(members, face).sum(axis=1) == order - 1 for face in faces]).astype(
        float
    )
    guess = exact + rng.normal(size=len(exact))
    found = complete(guess, sample, order)
    np.testing.assert_allclose(sums @ found, sums @ exact, atol=1e-10)
    least = guess + np.linalg.pinv(sums) @ (sums @ (exact - guess))
    np.testing.assert_allclose(found, least, atol=1e-10)
    np.testing.assert_allclose(complete(exact, sample, order), exact, atol=1e-10)


def test_correction_is_added_as_far_as_it_is_more_than_noise():
    """James and Stein: f c has a lower risk than c, and where nothing is uncertain it is c."""
    rng = np.random.default_rng(0)
    truth, noise = 0.5 * rng.normal(size=36), rng.uniform(0.5, 1.5, 36)
    drawn = truth + np.sqrt(noise) * rng.normal(size=(2000, 36))
    shares = np.array([PAIRWISE.credibility(c, noise) for c in drawn])
    energy = (drawn**2).sum(axis=1)
    np.testing.assert_allclose(shares, np.maximum(1 - noise.sum() / energy, 0))
    shrunk = np.mean((shares[:, None] * drawn - truth) ** 2)
    assert shrunk < 0.5 * np.mean((drawn - truth) ** 2)
    assert PAIRWISE.credibility(truth, np.zeros(36)) == 1.0
    assert PAIRWISE.credibility(np.zeros(36), np.zeros(36)) == 1.0
    assert SHAPLEY_VALUES.credibility(truth, noise) == 1.0  # they keep all of theirs


@pytest.mark.parametrize("credibility", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("size", [0.1, 10.0])
def test_variances_of_pairs_written_out(credibility, size):
    """What the correction takes away is known; what is not added of it claims no variance."""
    n, noise, rng = 5, 0.4, np.random.default_rng(3)
    rows = draw_pairs(n, 9, rng)
    m = len(rows)
    posterior, correction = rng.random(10) + 0.1, size * rng.normal(size=10)
    alpha, precisions = rng.normal(size=m + 1), rng.random(m) + 0.5
    process = SimpleNamespace(
        alpha=alpha,
        precisions=precisions,
        interaction_variances=lambda _order: posterior.copy(),
        kernel=SimpleNamespace(noise=noise),
    )
    found = calibrated_variances(
        process,
        rng.normal(size=m),
        coalitions=rows,
        sub=np.arange(m),
        hyperparameters=2,
        readout=PAIRWISE,
        correction=correction,
        credibility=credibility,
    )
    share = noise * precisions.mean()
    strata = Strata.of(rows)
    strata = replace(strata, unseen=strata.unseen ** (2 - share))
    sampling = sampling_variances(rows, alpha[1:] / precisions, strata, PAIRWISE)
    prior = max(np.mean(alpha[1:] ** 2) / precisions.mean(), 1.0) * posterior
    left = prior * max(1 - credibility * np.sum(correction**2) / np.sum(prior), 0)
    added = share * credibility
    expected = np.maximum((1 - added) * left + added * sampling, credibility**2 * sampling)
    np.testing.assert_allclose(found, m / (m - 2) * expected)


def test_shrinking_the_correction_pays_where_residuals_are_noise(monkeypatch):
    """A function of the size under noise, as in data valuation: half of the error is left."""
    n, errors = 9, {True: [], False: []}
    root = np.sqrt(all_coalitions(n).sum(axis=1))
    for seed in range(8):
        game = TableGame(root + 0.05 * np.random.default_rng(seed).normal(size=2**n))
        exact = interactions_by_definition(game, n)
        for shrunk in (True, False):
            with monkeypatch.context() as patch:
                if not shrunk:
                    patch.setattr(type(PAIRWISE), "credibility", lambda *_: 1.0)
                approximator = OddGP(n, max_order=2, index="SII", random_state=seed)
                found = interactions_of(approximator.approximate(120, game))
            errors[shrunk].append(np.mean((found - exact) ** 2))
    assert np.mean(errors[True]) < 0.75 * np.mean(errors[False])


def network_game(n, seed):
    rng = np.random.default_rng(seed)
    hidden, out = rng.normal(size=(n, 12)) / np.sqrt(n), rng.normal(size=12)
    return TableGame(np.tanh(3.0 * (all_coalitions(n) - 0.3) @ hidden) @ out)


@pytest.mark.parametrize("kind", [network_game, tree_game])
@pytest.mark.parametrize("index", ["SII", "k-SII"])
def test_intervals_cover_as_often_as_they_promise(kind, index):
    """90 % intervals hold 80 to 98 % of pairs, and of the players that k-SII sums pairs for."""
    n, covered = 9, []
    for seed in range(24):
        game = kind(n, seed)
        exact = OddGP(n, max_order=2, index=index).approximate(2**n, game)
        found = OddGP(n, max_order=2, index=index, random_state=seed).estimate(160, game)
        players = [(i,) for i in range(n)] if index == "k-SII" else combinations(range(n), 2)
        variances = found.variances[:n] if index == "k-SII" else found.variances[n:]
        errors = np.array([found.values[p] - exact[p] for p in players])
        covered.extend(np.abs(errors) <= 1.645 * np.sqrt(variances) + 1e-9)
    assert 0.8 <= np.mean(covered) <= 0.98


@pytest.mark.parametrize("kind", [network_game, tree_game])
def test_intervals_of_triples_cover_as_often_as_they_promise(kind):
    """And those of the players and pairs that k-SII sums triples for hold as many, or more."""
    n, covered = 9, {1: [], 2: [], 3: []}
    orders = [order for order in covered for _ in combinations(range(n), order)]
    for seed in range(16):
        game = kind(n, seed)
        exact = OddGP(n, max_order=3, index="k-SII").approximate(2**n, game)
        found = OddGP(n, max_order=3, index="k-SII", random_state=seed).estimate(160, game)
        sets = [p for order in covered for p in combinations(range(n), order)]
        for order, players, variance in zip(orders, sets, found.variances, strict=True):
            error = abs(found.values[players] - exact[players])
            covered[order].append(error <= 1.645 * np.sqrt(variance) + 1e-9)
    assert 0.8 <= np.mean(covered[3]) <= 0.98
    assert min(np.mean(covered[1]), np.mean(covered[2])) >= 0.8


def test_many_players_are_refused_before_anything_is_evaluated():
    with pytest.raises(ValueError, match=r"n=500 and max_order=2, but at most 200"):
        OddGP(500, max_order=2, index="SII")
    with pytest.raises(ValueError, match=r"max_order=3, but at most 40 .* 82160 triples"):
        OddGP(80, max_order=3, index="SII")


def test_pairs_of_a_game_of_three_players_are_found():
    def game(coalitions):
        return 2.0 * (coalitions[:, 0] & coalitions[:, 1]) - 3.0 * coalitions[:, 2]

    values = OddGP(12, max_order=2, index="SII", random_state=0).approximate(120, game)
    exact = np.zeros(66)
    exact[0] = 2.0
    np.testing.assert_allclose(interactions_of(values), exact, atol=1e-6)
    small = interactions_by_definition(game, 3)
    np.testing.assert_allclose(small, [2.0, 0.0, 0.0], atol=1e-12)


MEMORY = """
import resource, sys
from math import comb
import numpy as np
from shapiq_oddshap import OddGP
n, order = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
main, hidden = rng.normal(size=n), rng.normal(size=(n, 5)) / 10
def game(coalitions):
    return coalitions @ main + np.tanh(coalitions @ hidden).sum(axis=1)
start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
estimate = OddGP(n, max_order=order, index="SII", random_state=0).estimate(8 * n, game)
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start
assert len(estimate.variances) == sum(comb(n, k) for k in range(1, order + 1))
assert np.isfinite(estimate.variances).all()
print(used / 2**20)
"""


@pytest.mark.parametrize(("n", "order"), [(100, 2), (40, 3)])
def test_many_players_in_bounded_memory(n, order):
    command = [sys.executable, "-c", MEMORY, str(n), str(order)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(run.stdout) < 1.0  # GiB above the start
