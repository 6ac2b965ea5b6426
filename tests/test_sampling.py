import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shapiq.approximator.sampling import CoalitionSampler

from shapiq_oddshap import PairedCoalitionSampler, UnpairedCoalitionSampler, sampling
from shapiq_oddshap.sample import Sample
from shapiq_oddshap.sampling import (
    coalitions_per_size,
    pairs_per_size,
    row_keys,
    row_weights,
    size_weights,
)
from tests.helpers import random_game

SAMPLERS = pytest.mark.parametrize("kind", [PairedCoalitionSampler, UnpairedCoalitionSampler])


def drawn(kind, n, budget, seed=0, sizes="auto"):
    sampler = kind(n, sizes=sizes, random_state=seed)
    sampler.sample(budget)
    return sampler


def as_set(coalitions):
    return {tuple(np.flatnonzero(row)) for row in coalitions}


@SAMPLERS
@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 11), budget=st.integers(2, 2100), seed=st.integers(0, 99))
def test_distinct_complete_and_within_budget(kind, n, budget, seed):
    coalitions = drawn(kind, n, budget, seed).coalitions_matrix
    assert len(as_set(coalitions)) == len(coalitions) <= min(budget, 2**n)
    assert len(coalitions) >= min(budget, 2**n) - (kind is PairedCoalitionSampler)
    assert not coalitions[0].any()
    assert coalitions[1].all()
    if kind is PairedCoalitionSampler:
        assert as_set(~coalitions) == as_set(coalitions)


@SAMPLERS
@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(2, 12),
    small=st.integers(2, 900),
    more=st.integers(0, 900),
    seed=st.integers(0, 9),
    sizes=st.sampled_from(["auto", "paper"]),
)
def test_smaller_samples_are_contained_in_larger_ones(kind, n, small, more, seed, sizes):
    few, many = (drawn(kind, n, b, seed, sizes).coalitions_matrix for b in (small, small + more))
    assert as_set(few) <= as_set(many)


@SAMPLERS
@pytest.mark.parametrize("n", [40, 100, 300])
def test_samples_are_nested_for_many_players(kind, n):
    few, many = (drawn(kind, n, b).coalitions_matrix for b in (200, 3000))
    assert as_set(few) <= as_set(many)


@SAMPLERS
def test_the_cost_of_a_sample_follows_what_is_drawn(kind, monkeypatch):
    """10,000 players: no more coalitions are drawn than are sampled, and they stay nested."""
    asked = []
    draw = sampling._draw_size

    def counting(n, size, count, *rest, **options):
        asked.append(count)
        return draw(n, size, count, *rest, **options)

    monkeypatch.setattr(sampling, "_draw_size", counting)
    few = drawn(kind, 10_000, 200).coalitions_matrix
    assert sum(asked) <= 2 * 200  # large sizes are drawn as the complements of small ones
    assert as_set(few) <= as_set(drawn(kind, 10_000, 600).coalitions_matrix)


@pytest.mark.parametrize("n", [64, 127, 128, 200])
def test_bounded_binomials_order_as_the_exact_ones(n):
    for k in range(n + 1):
        exact, bounded = math.comb(n, k), sampling._binomial(n, k)
        assert bounded == exact or min(bounded, exact) >= 2**63


def pairs_one_by_one(n, pairs, sizes):
    """Sainte-Laguë, one seat at a time; only the total over tied sizes is compared."""
    inner = range(1, n // 2 + 1)
    equal = {s: 0.5 if 2 * s == n else 1.0 for s in inner}
    dense = {s: equal[s] / math.sqrt(s * (n - s)) for s in inner}
    room = {s: math.comb(n, s) // (2 if 2 * s == n else 1) for s in inner}
    counts = dict.fromkeys(inner, 0)
    for pair in range(pairs):
        share = dense if sizes == "auto" and pair < 10 * n else equal
        best = max(
            (s for s in inner if counts[s] < room[s]), key=lambda s: share[s] / (2 * counts[s] + 1)
        )
        counts[best] += 1
    return counts


@pytest.mark.parametrize("sizes", ["auto", "paper"])
@pytest.mark.parametrize(
    ("n", "pairs"),
    [(5, 7), (8, 40), (9, 100), (12, 90), (12, 333), (12, 2047), (30, 250), (30, 700)],
)
def test_counts_per_size_follow_the_quota(n, pairs, sizes):
    counts = pairs_per_size(n, pairs, sizes)
    assert counts.sum() == pairs
    slow = pairs_one_by_one(n, pairs, sizes)
    assert all(abs(counts[s] - slow[s]) <= 1 for s in slow)


def test_outer_sizes_come_first_and_equal_numbers_later():
    small, large = pairs_per_size(40, 200), pairs_per_size(40, 4000)
    assert small[1] > 2 * small[19]
    assert np.ptp(large[2:20]) <= 1
    paper = pairs_per_size(40, 200, "paper")
    assert np.ptp(paper[1:20]) <= 1
    wide = coalitions_per_size(40, 400)
    assert np.abs(wide[1:] - wide[:0:-1]).max() <= 1


def test_an_unknown_way_to_choose_sizes_is_refused():
    with pytest.raises(ValueError, match="Received sizes='uniform'"):
        PairedCoalitionSampler(5, sizes="uniform")


def test_counts_at_sizes_whose_population_overflows():
    counts = pairs_per_size(1500, 9_999, "paper")
    assert counts.sum() == 9_999
    assert counts[1:-1].min() >= 13
    assert pairs_per_size(1500, 9_999).sum() == 9_999
    assert coalitions_per_size(1500, 20_000).sum() == 20_000


def test_coalitions_of_a_size_are_equally_likely():
    n, rounds = 7, 1500
    counts = Counter()
    for seed in range(rounds):
        counts.update(as_set(drawn(PairedCoalitionSampler, n, 30, seed).coalitions_matrix))
    for size in (2, 3):
        seen = [count for members, count in counts.items() if len(members) == size]
        assert len(seen) == math.comb(n, size)
        rate = np.mean(seen) / rounds
        error = np.sqrt(rate * (1 - rate) * rounds)
        assert np.abs(np.array(seen) - np.mean(seen)).max() < 4.5 * error


@SAMPLERS
@pytest.mark.parametrize(("n", "budget"), [(4, 9), (7, 40), (12, 300), (30, 500)])
def test_weights_are_kernel_mass_over_counts(kind, n, budget):
    """Any sampler's weights, by shapiq's own formula, in the units of the Shapley kernel."""
    sampler = drawn(kind, n, budget)
    sizes = sampler.coalitions_size
    inner = (sizes > 0) & (sizes < n)
    kernel = np.array([1 / (s * (n - s) * math.comb(n, s)) for s in sizes[inner].tolist()])
    expected = kernel * sampler.sampling_adjustment_weights[inner]
    np.testing.assert_allclose(row_weights(sampler)[inner], expected, rtol=1e-10)
    np.testing.assert_allclose(size_weights(sampler.coalitions_matrix)[inner], expected, rtol=1e-10)
    assert (row_weights(sampler)[~inner] == 0).all()


@pytest.mark.filterwarnings("ignore:Sampling might be inefficient")
@pytest.mark.parametrize("pairing", [True, False])
@pytest.mark.parametrize("budget", [40, 101])
def test_weights_of_shapiqs_sampler(pairing, budget):
    n = 9
    sampler = CoalitionSampler(n, np.ones(n + 1), pairing_trick=pairing, random_state=0)
    sampler.sample(budget)
    sizes = sampler.coalitions_size
    inner = (sizes > 0) & (sizes < n)
    kernel = np.array([1 / (s * (n - s) * math.comb(n, s)) for s in sizes[inner].tolist()])
    expected = kernel * sampler.sampling_adjustment_weights[inner]
    np.testing.assert_allclose(row_weights(sampler)[inner], expected, rtol=1e-10)


def test_weights_are_finite_where_binomials_overflow():
    sampler = drawn(PairedCoalitionSampler, 1100, 3000)
    weights = row_weights(sampler)[2:]
    assert np.isfinite(weights).all()
    assert (weights > 0).all()


@SAMPLERS
def test_shapiqs_public_attributes_are_filled(kind):
    sampler = drawn(kind, 6, 41)
    coalitions = sampler.coalitions_matrix
    assert sampler.n_coalitions == len(coalitions)
    assert sampler.empty_coalition_index == 0
    assert set(sampler.sampled_coalitions_dict) == as_set(coalitions)
    np.testing.assert_array_equal(sampler.coalitions_counter, 1)
    np.testing.assert_array_equal(
        sampler.coalitions_per_size, np.bincount(coalitions.sum(axis=1), minlength=7)
    )
    assert sampler.is_coalition_size_sampled.dtype == bool
    assert sampler.sampling_size_probabilities.sum() == pytest.approx(1)


def test_too_small_a_budget_is_refused():
    with pytest.raises(ValueError, match="Received a sampling budget of 1"):
        PairedCoalitionSampler(5).sample(1)


@pytest.mark.parametrize("n", [3, 8, 64, 65, 130])
def test_row_keys_tell_rows_apart(n):
    rows = np.random.default_rng(n).random((300, n)) < 0.5
    keys = row_keys(rows)
    assert len(np.unique(keys)) == len(np.unique(rows, axis=0))
    assert len(np.unique(row_keys(np.repeat(rows, 2, axis=0)))) == len(np.unique(keys))


def test_odd_rows_pair_what_has_a_complement_and_keep_what_has_not():
    """Against a search for every row's complement, with unequal weights and single rows."""
    n, rng = 5, np.random.default_rng(0)
    game = random_game(n)
    everything = np.concatenate(
        [[[False] * n, [True] * n], rng.permutation(list(np.ndindex(*(2,) * n)))]
    )
    inner = everything[2:][(everything[2:].sum(axis=1) % n) > 0][:19]
    coalitions = np.concatenate([everything[:2], inner]).astype(bool)
    weights = np.concatenate([[0, 0], rng.random(len(inner)) + 0.1])
    sample = Sample(coalitions, game(coalitions), weights)
    rows = sample.component("odd")
    for array in (rows.coalitions, rows.targets, rows.weights, rows.members, rows.singletons_gram):
        assert not array.flags.writeable
    found, expected = {}, {}
    middle = (game.values[0] + game.values[-1]) / 2
    for row, target, weight in zip(rows.coalitions, rows.targets, rows.weights, strict=True):
        found[tuple(row)] = (target, weight)
    lookup = {tuple(c): (v, w) for c, v, w in zip(coalitions, sample.values, weights, strict=True)}
    for key, (value, weight) in lookup.items():
        other = tuple(not x for x in key)
        if weight == 0 or other in expected:
            continue
        if other in lookup:
            partner, partner_weight = lookup[other]
            added = weight + partner_weight
            target = (weight * (value - middle) - partner_weight * (partner - middle)) / added
            expected[key] = (target, added)
        else:
            expected[key] = (value - middle, weight)
    assert found.keys() == expected.keys()
    scale = np.mean([w for _, w in expected.values()])
    for key, (target, weight) in expected.items():
        assert found[key] == pytest.approx((target, weight / scale))
