"""Players that a sample proves to be null: the proof, the coalitions after it, what is read off."""

from itertools import combinations

import numpy as np
import pytest

from shapiq_oddshap import OddGP
from shapiq_oddshap.choosing import (
    _next_pairs,
    _pairs_among,
    _pairs_for_all,
    _with_ends,
    smaller_members,
)
from shapiq_oddshap.null_players import relevant_players
from shapiq_oddshap.sampling import (
    PairedCoalitionSampler,
    PairSequences,
    drawn_pairs,
    row_keys,
)
from tests.helpers import all_coalitions

_N = 12
_RELEVANT = [1, 2, 4, 5, 8, 11]


def small_game(players=_RELEVANT, seed=0):
    """Return a game of some players, of which every coalition has a value of its own."""
    table = np.random.default_rng(seed).normal(size=2 ** len(players))
    return lambda coalitions: table[coalitions[:, players] @ (1 << np.arange(len(players)))]


def sampled(n, budget, game, seed=0):
    sampler = PairedCoalitionSampler(n, random_state=seed)
    sampler.sample(budget)
    rows = sampler.coalitions_matrix
    return rows, game(rows)


def relevant_by_definition(coalitions, values):
    """Leave players out as long as no two coalitions contradict it, pair by pair."""
    left = list(range(coalitions.shape[1]))
    odd = (values - values.mean()) @ np.where(coalitions, 1.0, -1.0)
    scale = np.abs(values - values[0]).max()
    for player in np.argsort(np.abs(odd), kind="stable").tolist():
        others = [each for each in left if each != player]
        equal = (
            abs(values[i] - values[j]) <= 5e-6 * scale
            for i, j in combinations(range(len(values)), 2)
            if (coalitions[i, others] == coalitions[j, others]).all()
        )
        if all(equal):
            left = others
    return left


@pytest.mark.parametrize("seed", range(2))
def test_players_are_left_out_by_definition(seed):
    rows, values = sampled(_N, 300, small_game(seed=seed), seed)
    found = np.flatnonzero(relevant_players(rows, values)).tolist()
    assert found == relevant_by_definition(rows, values) == _RELEVANT


def test_of_all_coalitions_the_null_players_are_found():
    rows = all_coalitions(8)[[0, 255, *range(1, 255)]]
    for players in ([3], [0, 7], [1, 2, 3, 4, 5, 6], list(range(8))):
        found = relevant_players(rows, small_game(players)(rows))
        assert np.flatnonzero(found).tolist() == players


def test_few_coalitions_prove_nothing():
    rows, values = sampled(_N, 40, small_game())
    assert len(relevant_by_definition(rows, values)) < _N
    assert relevant_players(rows, values).all()


def test_rounding_contradicts_nothing_and_noise_does():
    rows, values = sampled(_N, 300, small_game())
    noise = np.random.default_rng(1).normal(size=len(values))
    assert np.flatnonzero(relevant_players(rows, values + 1e-7 * noise)).tolist() == _RELEVANT
    assert relevant_players(rows, values + 1e-3 * noise).all()


def test_constants_prove_nothing_and_units_change_nothing():
    rows, values = sampled(_N, 300, small_game())
    assert relevant_players(rows, np.full(len(rows), 3.0)).all()
    for unit in (1e-300, 1e-3, 7.0, 1e300):
        assert np.flatnonzero(relevant_players(rows, values * unit)).tolist() == _RELEVANT


@pytest.mark.parametrize("seed", range(5))
def test_players_who_rarely_matter_are_kept(seed):
    """All coalitions of six players differ; three others matter in one of eight coalitions."""
    game, others = small_game(seed=seed), [0, 3, 6]
    rows, values = sampled(_N, 300, lambda c: game(c) + c[:, others].all(axis=1), seed)
    assert relevant_players(rows, values)[others].all()


def test_players_who_were_hardly_tested_are_kept():
    """Of a thousand players most tests are of others; a sum of ten lost four of them."""
    weights = np.random.default_rng(0).normal(size=1000)
    weights[:990] = 0.0
    rows, values = sampled(1000, 10000, lambda c: c @ weights)
    assert relevant_players(rows, values)[990:].all()


def test_every_output_is_asked_by_itself():
    rows, first = sampled(_N, 400, small_game([0, 1, 2, 3]))
    second, noise = small_game([2, 3, 4, 5])(rows), np.random.default_rng(0).normal(size=len(rows))
    outputs = np.column_stack([first, 1e-9 * second, np.full(len(rows), 2.0), noise])
    found = relevant_players(rows, outputs)
    for output, relevant in zip(outputs.T, found, strict=True):
        np.testing.assert_array_equal(relevant, relevant_players(rows, output))
    assert [np.flatnonzero(each).tolist() for each in found[:2]] == [[0, 1, 2, 3], [2, 3, 4, 5]]
    assert found[2:].all()


@pytest.mark.parametrize(
    ("order", "index"), [(1, "SV"), (2, "SII"), (2, "k-SII"), (3, "SII"), (3, "k-SII")]
)
def test_the_values_are_those_of_the_smaller_game(order, index):
    game, seed = small_game(), 3
    estimate = OddGP(_N, max_order=order, index=index, random_state=seed).estimate(600, game)
    assert estimate.diagnostics.path == "exact"
    assert estimate.diagnostics.details["null_players"] == _N - len(_RELEVANT)
    assert np.abs(estimate.variances).max() < 1e-28
    smaller = OddGP(len(_RELEVANT), max_order=order, index=index)
    exact = smaller.approximate(2 ** len(_RELEVANT), small_game(list(range(len(_RELEVANT)))))
    for size in range(1, order + 1):
        for players in combinations(range(_N), size):
            inside = [_RELEVANT.index(each) for each in players if each in _RELEVANT]
            expected = exact[tuple(inside)] if len(inside) == size else 0.0
            assert estimate.values[players] == pytest.approx(expected, abs=1e-12)


def test_what_rounding_leaves_uncertain_is_claimed():
    table = np.random.default_rng(0).normal(size=2**_N).astype(np.float32)

    def rounded(coalitions):
        return small_game()(coalitions) + 1e-7 * table[coalitions @ (1 << np.arange(_N))]

    estimate = OddGP(_N, random_state=0).estimate(600, rounded)
    exact = OddGP(_N).approximate(2**_N, rounded).get_n_order_values(1)
    off = estimate.values.get_n_order_values(1) - exact
    assert estimate.diagnostics.path == "exact"
    assert np.abs(off[_RELEVANT]).max() > 0
    assert np.all(np.abs(off) < 3 * np.sqrt(estimate.variances))
    assert estimate.variances == pytest.approx(np.full(_N, 2e-14), rel=0.2)
    assert off.sum() == pytest.approx(0.0, abs=1e-14)


def test_every_output_is_that_of_its_own_smaller_game():
    game, other = small_game(), small_game([1, 2, 4], seed=1)
    estimates = OddGP(_N, random_state=0).estimate_outputs(
        600, lambda c: np.column_stack([game(c), other(c), np.ones(len(c)), c[:, 5]])
    )
    assert [each.diagnostics.path for each in estimates] == ["exact", "exact", "constant", "exact"]
    for each, single in zip(estimates, (game, other, None, lambda c: c[:, 5] * 1.0), strict=True):
        if single is not None:
            alone = OddGP(_N, random_state=0).estimate(600, single)
            np.testing.assert_allclose(
                each.values.get_n_order_values(1), alone.values.get_n_order_values(1), atol=1e-12
            )


def test_a_larger_budget_is_asked_for_all_that_a_smaller_one_is():
    smaller = np.zeros((0, _N), dtype=bool)
    for budget in (2, 60, 122, 150, 240, 242, 270, 300, 420, 700):
        asked = []

        def game(coalitions, asked=asked):
            asked.append(coalitions)
            return small_game()(coalitions)

        OddGP(_N, random_state=3).estimate(budget, game)
        rows = np.concatenate(asked)
        assert len(np.unique(row_keys(rows))) == len(rows) == budget
        assert np.isin(row_keys(smaller), row_keys(rows)).all()
        smaller = rows


def test_once_it_is_proven_the_others_are_all_asked_for():
    """Of a sample that is drawn, some coalitions of the six players are missing for long."""
    players = [0, 1, 3, 4, 6, 7, 9, 10]
    seen = {}
    for design in ("auto", "paired"):
        asked = []

        def game(coalitions, asked=asked):
            asked.append(coalitions)
            return small_game(players)(coalitions)

        estimate = OddGP(_N, design=design, random_state=0).estimate(500, game)
        seen[design] = len(np.unique(np.concatenate(asked)[:, players], axis=0))
        assert estimate.diagnostics.details["null_players"] == 4
    assert seen["paired"] < seen["auto"] == 2 ** len(players)


def parts_of(players, pairs):
    """Return the part of every pair that some players have: both members', in one order."""
    return [frozenset({row[players].tobytes(), (~row)[players].tobytes()}) for row in pairs]


def test_pairs_are_new_to_as_many_smaller_games_as_can_be():
    """By definition, pair by pair; one that completes a small game is worth more."""
    n, count, sequences = 9, 20, PairSequences(9, 4)
    pairs = drawn_pairs(n, 6, 4)
    games = [
        np.isin(np.arange(n), players)
        for players in ([0, 1, 2, 3], [2, 3, 4, 5, 6], [1, 5, 6, 7, 8])
    ]
    rows = np.concatenate([_pairs_among(each, pairs, count, sequences) for each in games])
    known = [set(parts_of(each, pairs)) | set(parts_of(each, np.eye(n) > 1)) for each in games]
    worth = [
        1 / max(2 ** (each.sum() - 1) - len(seen), 1)
        for each, seen in zip(games, known, strict=True)
    ]
    expected = []
    while True:
        parts = [parts_of(each, rows) for each in games]
        gains = [
            sum(w for w, part, seen in zip(worth, own, known, strict=True) if part not in seen)
            for own in zip(*parts, strict=True)
        ]
        if max(gains) == 0.0 or len(expected) == count:
            break
        best = int(np.argmax(np.round(gains, 12)))
        expected.append(rows[best])
        for part, seen in zip(parts, known, strict=True):
            seen.add(part[best])
    assert len(expected) > 10
    np.testing.assert_array_equal(_pairs_for_all(games, pairs, count, sequences), expected)


def test_outputs_whose_null_players_differ_are_all_asked_for():
    """One after another, the last of them would lack some of its coalitions."""
    n, players = 16, (range(9), range(4, 13), [*range(1, 16, 2), 14], [*range(0, 12, 2), 12, 13])
    games = [small_game(list(each), seed) for seed, each in enumerate(players)]
    batches = []

    def game(coalitions):
        batches.append(coalitions)
        return np.column_stack([each(coalitions) for each in games])

    estimates = OddGP(n, random_state=0).estimate_outputs(900, game)
    assert [each.diagnostics.path for each in estimates] == ["exact"] * 4
    larger = np.concatenate(batches)
    batches.clear()
    OddGP(n, random_state=0).estimate_outputs(750, game)
    assert np.isin(row_keys(np.concatenate(batches)), row_keys(larger)).all()


@pytest.mark.parametrize(
    ("n", "budget", "options"),
    [
        (10, 600, {"batch_size": 200}),
        (12, 2600, {"design": "active"}),
        (10, 330, {"batch_size": 180}),
    ],
    ids=str,
)
def test_far_more_may_be_chosen_than_the_next_proof_waits_for(n, budget, options):
    games = [small_game([0, 1, 2]), small_game([3, 4, 6], seed=1), small_game(list(range(n)))]
    gp = OddGP(n, random_state=1, **options)
    for game in (games[2], lambda c: np.column_stack([each(c) for each in games])):
        asked = []

        def counted(coalitions, asked=asked, game=game):
            asked.append(coalitions)
            return game(coalitions)

        (gp.estimate if game is games[2] else gp.estimate_outputs)(budget, counted)
        assert len(np.unique(row_keys(np.concatenate(asked)))) == budget


def test_every_number_of_known_pairs_is_gone_on_from():
    n, games = 20, ([0, 1, 2], [4, 5, 6])

    def values(rows):
        return np.column_stack([small_game(each, 1)(rows) for each in games])

    for known in (99, 100, 101, 199, 200, 201, 450):
        pairs = drawn_pairs(n, known, 7)
        steps = _next_pairs(pairs, values(_with_ends(pairs)), known + 40, PairSequences(n, 7))
        new, rows = next(steps), []
        while new is not None:
            rows.append(new[::2])
            try:
                new = steps.send(values(new))
            except StopIteration:
                new = None
        found = smaller_members(np.concatenate([pairs, *rows]))
        assert len(np.unique(row_keys(found))) == known + 40
