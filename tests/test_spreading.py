"""Pairs chosen before anything is evaluated: which, how many of each size, and what they are worth."""

import numpy as np
import pytest

from shapiq_oddshap import OddSHAP, PairedCoalitionSampler, spreading
from shapiq_oddshap.gp.observations import Observations
from shapiq_oddshap.gp.posterior import Posterior
from shapiq_oddshap.sampling import PairSequences, drawn_pairs, pairs_per_size, row_keys
from shapiq_oddshap.spreading import SpreadPairSampler, spread_pairs
from tests.helpers import phi_of

PLAYERS = (1, 2, 3, 4, 6, 9, 14, 31, 101)


def total_variance(pairs):
    """Return the sum of the Shapley values' posterior variances under the prior of the choice."""
    data = Observations.of(pairs, np.zeros(len(pairs)), 0.0)
    return Posterior.of(spreading._prior(pairs.shape[1]), data).shapley_variances().sum()


def rank(pairs):
    return np.linalg.matrix_rank(1.0 - 2.0 * np.vstack([np.zeros(pairs.shape[1]), pairs]))


@pytest.mark.parametrize("n", [4, 6])
def test_the_stages_are_the_greedy_choice_by_refitting(n):
    pairs, stage = drawn_pairs(n, 1, 0), 1
    while len(pairs) < min(10 * n, 2 ** (n - 1) - 1, 18):
        end = min(2**stage, 10 * n, 2 ** (n - 1) - 1)
        after = pairs_per_size(n, end)
        left, known = after - pairs_per_size(n, len(pairs)), set(row_keys(pairs).tolist())
        rows = [
            PairSequences(n, 0).first(s, 50 + 10 * after[s]) for s in np.flatnonzero(left).tolist()
        ]
        rows = [row for row in np.concatenate(rows) if row_keys(row[None])[0] not in known]
        while left.sum():
            before, there = total_variance(pairs), rank(pairs)
            gains = np.array([before - total_variance(np.vstack([pairs, row])) for row in rows])
            gains = np.round(gains / gains.max(), 9)  # equal ones by the order of the candidates
            open_ = [k for k, row in enumerate(rows) if left[row.sum()]]
            new = [k for k in open_ if rank(np.vstack([pairs, rows[k]])) > there] or open_
            best = rows.pop(max(new, key=gains.__getitem__))
            left[best.sum()] -= 1
            pairs = np.vstack([pairs, best])
        np.testing.assert_array_equal(spreading._stage(n, stage), pairs)
        stage += 1


@pytest.mark.parametrize("n", PLAYERS)
def test_pairs_are_distinct_nested_and_of_the_right_sizes(n):
    most = min(12 * n, 2 ** (n - 1) - 1)
    whole = spread_pairs(n, most, 3)
    assert len(np.unique(row_keys(np.concatenate([whole, ~whole])))) == 2 * most
    counts = np.bincount(whole.sum(axis=1), minlength=n // 2 + 1)
    np.testing.assert_array_equal(counts, pairs_per_size(n, most))
    smaller = whole[:0]
    for pairs in range(0, most, max(most // 12, 1)):
        rows = spread_pairs(n, pairs, 3)
        assert len(rows) == pairs
        assert np.isin(row_keys(smaller), row_keys(rows)).all()
        smaller = rows
    assert np.isin(row_keys(smaller), row_keys(whole)).all()


@pytest.mark.parametrize("n", PLAYERS[1:])
@pytest.mark.parametrize("entropy", range(3))
def test_the_first_pairs_are_independent_of_each_other_and_the_grand_coalition(n, entropy):
    assert rank(spread_pairs(n, min(n - 1, 2 ** (n - 1) - 1), entropy)) == n


def test_seeds_differ_by_the_order_of_the_players():
    n, pairs, runs = 7, 18, 600
    drawn = np.stack([spread_pairs(n, pairs, seed) for seed in range(runs)])
    assert len({rows.tobytes() for rows in drawn}) > runs / 2
    signs = 1.0 - 2.0 * drawn
    products = np.sort(np.abs(signs @ signs.transpose(0, 2, 1)).reshape(runs, -1), axis=1)
    assert (products == products[0]).all()
    # so every pair of players is in one member as often as any other
    together = (signs[..., :, None] * signs[..., None, :])[..., *np.triu_indices(n, 1)].mean(axis=1)
    error = together.std(axis=0, ddof=1) / np.sqrt(runs)
    assert np.all(np.abs(together.mean(axis=0) - together.mean()) < 4.5 * error)


@pytest.mark.parametrize("n", [10, 20])
def test_what_is_chosen_determines_more_than_what_is_drawn(n):
    for pairs in (n, 2 * n, 5 * n):
        drawn = [total_variance(drawn_pairs(n, pairs, seed)) for seed in range(5)]
        assert total_variance(spread_pairs(n, pairs, 0)) < 0.95 * min(drawn)


def test_many_players_and_equal_shares_are_drawn():
    np.testing.assert_array_equal(spread_pairs(101, 150, 4), drawn_pairs(101, 150, 4))
    spread, drawn = (
        kind(9, sizes="paper", random_state=1)
        for kind in (SpreadPairSampler, PairedCoalitionSampler)
    )
    spread.sample(60)
    drawn.sample(60)
    np.testing.assert_array_equal(spread.coalitions_matrix, drawn.coalitions_matrix)


@pytest.mark.parametrize("budget", [45, 75])
def test_errors_are_lower_than_of_drawn_pairs(budget):
    n, logs = 15, []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        main, both = rng.normal(size=n), 0.4 * rng.normal(size=(n, n))
        triples, weights = rng.choice(n, (4 * n, 3)), rng.normal(size=4 * n)
        orders = np.array([len(set(triple)) for triple in triples.tolist()])

        def game(coalitions, parts=(main, both, triples, weights)):
            main, both, triples, weights = parts
            z = coalitions.astype(float)
            return z @ main + np.sum((z @ both) * z, axis=1) + z[:, triples].prod(axis=2) @ weights

        shares = [
            weights[(triples == i).any(axis=1)] @ (1 / orders[(triples == i).any(axis=1)])
            for i in range(n)
        ]
        exact = main + 0.5 * (both + both.T).sum(axis=1) + shares
        np.testing.assert_allclose(exact.sum(), game(~np.zeros((1, n), bool))[0], atol=1e-9)
        errors = [
            np.mean(
                (phi_of(OddSHAP(n, random_state=seed, **own).approximate(budget, game)) - exact)
                ** 2
            )
            for own in ({}, {"sampler": PairedCoalitionSampler(n)})
        ]
        logs.append(np.log(errors[0] / errors[1]))
    assert np.mean(logs) + 2 * np.std(logs, ddof=1) / np.sqrt(len(logs)) < 0
