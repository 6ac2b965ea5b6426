"""Pairwise interactions from the even process: read-out, correction, exactness, intervals."""

import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

from shapiq_oddshap import OddGP
from shapiq_oddshap.fourier import pair_indices, pairwise_interactions
from shapiq_oddshap.gp import Hints, Pairs, fit_odd_gp
from shapiq_oddshap.gp.correction import Strata, pair_correction, pair_variances
from shapiq_oddshap.gp.intervals import calibrated_variances, sampling_variances
from shapiq_oddshap.gp.kernel import Kernel
from shapiq_oddshap.gp.observations import Observations
from shapiq_oddshap.gp.parts import Constant, PairEffects, Product, SizeSteps, Terms
from shapiq_oddshap.gp.posterior import Posterior
from shapiq_oddshap.gp.readout import PAIRWISE, SHAPLEY_VALUES
from shapiq_oddshap.gp.signs import characters, signs
from shapiq_oddshap.pairwise import complete
from shapiq_oddshap.sample import Sample
from shapiq_oddshap.sampling import PairedCoalitionSampler
from tests.gp.enumeration import COALITIONS, INTERACTIONS, N, X, draw_pairs, half_of_pairs
from tests.helpers import (
    TableGame,
    all_coalitions,
    interactions_by_definition,
    pairs_of,
    random_game,
    tree_game,
)

EVEN = COALITIONS[COALITIONS.sum(axis=1) % 2 == 0]


def even_fit(coalitions, targets, seed=0):
    pairs = Pairs(coalitions, targets, 0.0)
    rng = np.random.default_rng(seed)
    return fit_odd_gp(pairs, Hints.none(coalitions.shape[1]), rng, readout=PAIRWISE)


def even_values():
    """An even function with any values, zero at the empty and the grand coalition."""
    values = np.random.default_rng(3).normal(size=len(COALITIONS))
    values = values + values[::-1]
    return values - values[0]


def at(rows):
    values = even_values()
    where = {row.tobytes(): value for row, value in zip(COALITIONS, values, strict=True)}
    return np.array([where[row.tobytes()] for row in rows])


def random_even_game(n, terms, rng):
    rows = np.zeros((len(terms), n), dtype=bool)
    for row, term in zip(rows, terms, strict=True):
        row[list(term)] = True
    beta = rng.normal(size=len(terms))
    constant = -beta.sum()  # zero at the empty coalition
    return lambda c: characters(signs(c), rows) @ beta + constant, pairwise_interactions(beta, rows)


def test_posterior_read_out_against_enumeration():
    rates = np.random.default_rng(0).uniform(0.05, 0.8, N)
    parts = (
        Constant(0.2, parity="even"),
        PairEffects(0.4, parity="even"),
        Product(0.6, rates, parity="even"),
        Terms.of(EVEN[[3, 9, 20]], np.array([0.3, 0.1, 0.2])),
        SizeSteps(0.1, parity="even"),
    )
    x = np.concatenate([X[:1], X[5:20]])
    data = Observations(x, np.concatenate([[0.0], np.random.default_rng(1).normal(size=15)]))
    posterior = Posterior.of(Kernel(N, parts, 1e-2), data)
    kernel = posterior.kernel
    noisy = kernel.gram(x, x) + np.diag([1e-12, *[kernel.noise] * 15])
    cross = kernel.gram(X, x)
    mean = cross @ np.linalg.solve(noisy, data.targets)
    covariance = kernel.gram(X, X) - cross @ np.linalg.solve(noisy, cross.T)
    np.testing.assert_allclose(posterior.pairwise_interactions(), mean @ INTERACTIONS, atol=1e-9)
    expected = np.diag(INTERACTIONS.T @ covariance @ INTERACTIONS)
    np.testing.assert_allclose(posterior.pairwise_variances(), expected, atol=1e-9)


def test_correction_at_all_coalitions_is_the_interaction():
    rows = half_of_pairs()
    strata = Strata.of(rows)
    expected = even_values() @ INTERACTIONS
    np.testing.assert_allclose(pair_correction(rows, at(rows), strata), expected, atol=1e-12)
    assert not pair_variances(rows, at(rows), strata).any()


def test_correction_is_unbiased_and_its_variance_is_claimed_right():
    rng = np.random.default_rng(4)
    rows, values = half_of_pairs(), at(half_of_pairs())
    exact = pair_correction(rows, values, Strata.of(rows))
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
        estimates.append(pair_correction(rows[drawn], values[drawn], strata))
        claims.append(pair_variances(rows[drawn], values[drawn], strata))
        errors = values[drawn] ** 2 * strata.unseen
        means.append(float(errors @ PAIRWISE.mean_squares(strata)))
    error = np.std(estimates, axis=0) / 4000**0.5
    assert (np.abs(np.mean(estimates, axis=0) - exact) < 5 * error).all()
    ratio = np.mean(claims, axis=0) / np.var(estimates, axis=0)
    # second moments about zero are too large where a size has a mean of its own
    assert (ratio > 0.85).all()
    # what is expected of a pair is the mean over all of what is claimed for each
    assert np.mean(means) == pytest.approx(np.mean(claims), rel=0.05)


def test_sampling_variances_hold_for_a_pair_that_no_small_coalition_holds():
    rows = half_of_pairs()
    drawn = rows[~((rows.sum(axis=1) == 2) & rows[:, 0] & rows[:, 1])][::2]
    errors = np.random.default_rng(0).normal(size=len(drawn))
    strata = Strata.of(drawn)
    claimed = sampling_variances(drawn, errors, strata, PAIRWISE)
    assert (claimed > 0.5 * pair_variances(drawn, errors, strata)).all()
    assert claimed.min() >= 0.5 * float(errors**2 * strata.unseen @ PAIRWISE.mean_squares(strata))


def test_fit_at_all_coalitions_is_exact_whatever_the_model():
    rows = half_of_pairs()
    found = even_fit(rows, at(rows))
    np.testing.assert_allclose(found.values, even_values() @ INTERACTIONS, atol=1e-8)


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


def test_interactions_of_a_player_sum_to_what_it_tells_alone():
    """Σ_j SII_ij = 2 (f_even(∅) - f_even({i})), and the estimate is moved onto it, no further."""
    n, rng = 7, np.random.default_rng(0)
    game = random_game(n)
    exact = interactions_by_definition(game, n)
    sampler = PairedCoalitionSampler(n, random_state=0)
    sampler.sample(26)
    rows = sampler.coalitions_matrix
    known = [i for i in range(n) if (rows == np.eye(n, dtype=bool)[i]).all(axis=1).any()]
    assert 1 < len(known) < n
    even = Sample(rows, game(rows), np.r_[0, 0, np.ones(len(rows) - 2)]).component("even")
    first, second = pair_indices(n)
    sums = np.array([(first == i) | (second == i) for i in known]).astype(float)
    guess = exact + rng.normal(size=len(exact))
    found = complete(guess, even)
    np.testing.assert_allclose(sums @ found, sums @ exact, atol=1e-10)
    least = guess + np.linalg.pinv(sums) @ (sums @ (exact - guess))
    np.testing.assert_allclose(found, least, atol=1e-10)
    np.testing.assert_allclose(complete(exact, even), exact, atol=1e-10)


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
@pytest.mark.parametrize("picked", [False, True])
def test_variances_of_pairs_written_out(credibility, size, picked):
    """What the correction takes away is known; what is not added of it stays with the process."""
    n, noise, rng = 5, 0.4, np.random.default_rng(3)
    rows = draw_pairs(n, 9, rng)
    m = len(rows)
    posterior, correction = rng.random(10) + 0.1, size * rng.normal(size=10)
    alpha, precisions = rng.normal(size=m + 1), rng.random(m) + 0.5
    process = SimpleNamespace(
        alpha=alpha,
        precisions=precisions,
        pairwise_variances=posterior.copy,
        kernel=Kernel.start(Hints.none(n), (Terms,) if picked else ()).with_noise(noise),
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
    trusted = sampling if picked else (sampling + np.minimum(left, sampling)) / 2
    expected = np.maximum(
        (1 - added) * left + added * sampling, (1 - share) * trusted + added * sampling
    )
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
                found = pairs_of(approximator.approximate(120, game))
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


def test_many_players_are_refused_before_anything_is_evaluated():
    with pytest.raises(ValueError, match=r"n=500 and max_order=2, but at most 200"):
        OddGP(500, max_order=2, index="SII")


def test_pairs_of_a_game_of_three_players_are_found():
    def game(coalitions):
        return 2.0 * (coalitions[:, 0] & coalitions[:, 1]) - 3.0 * coalitions[:, 2]

    values = OddGP(12, max_order=2, index="SII", random_state=0).approximate(120, game)
    exact = np.zeros(66)
    exact[0] = 2.0
    np.testing.assert_allclose(pairs_of(values), exact, atol=1e-6)
    small = interactions_by_definition(game, 3)
    np.testing.assert_allclose(small, [2.0, 0.0, 0.0], atol=1e-12)


MEMORY = """
import resource
import numpy as np
from shapiq_oddshap import OddGP
rng = np.random.default_rng(0)
main, hidden = rng.normal(size=100), rng.normal(size=(100, 5)) / 10
def game(coalitions):
    return coalitions @ main + np.tanh(coalitions @ hidden).sum(axis=1)
start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
estimate = OddGP(100, max_order=2, index="SII", random_state=0).estimate(800, game)
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start
assert estimate.variances.shape == (100 + 4950,) and np.isfinite(estimate.variances).all()
print(used / 2**20)
"""


def test_a_hundred_players_in_bounded_memory():
    run = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    assert float(run.stdout) < 1.0  # GiB above the start
