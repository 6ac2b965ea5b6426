"""Tests of the sampler of pairs without replacement."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from shapiq.approximator import OddSHAP, PairedCoalitionSampler


def keys(coalitions: np.ndarray) -> set[bytes]:
    """Return coalitions as a set."""
    return {row.tobytes() for row in coalitions}


@pytest.mark.parametrize(("n", "budget"), [(2, 4), (5, 20), (8, 100), (12, 600), (70, 300)])
def test_distinct_coalitions_in_pairs(n, budget):
    sampler = PairedCoalitionSampler(n, random_state=0)
    sampler.sample(budget)
    coalitions = sampler.coalitions_matrix
    assert len(coalitions) == len(keys(coalitions)) == budget
    assert keys(~coalitions) == keys(coalitions)
    assert sampler.coalitions_per_size[0] == sampler.coalitions_per_size[n] == 1
    np.testing.assert_array_equal(sampler.coalitions_counter, 1)


def test_a_smaller_sample_is_part_of_a_larger_one():
    sampler = PairedCoalitionSampler(12, random_state=0)
    samples = []
    for budget in (30, 100, 400, 4096):
        sampler.set_random_state(0)
        sampler.sample(budget)
        samples.append(keys(sampler.coalitions_matrix))
    for smaller, larger in pairwise(samples):
        assert smaller < larger


@pytest.mark.parametrize("n", [5, 12, 40])
def test_twice_as_many_coalitions_as_players_determine_additive_games(n):
    for seed in range(20):
        sampler = PairedCoalitionSampler(n, random_state=seed)
        sampler.sample(2 * n)
        assert np.linalg.matrix_rank(sampler.coalitions_matrix.astype(float)) == n


@pytest.mark.parametrize("n", [10, 1100])
def test_the_weights_are_finite_and_sum_to_the_number_of_coalitions(n):
    sampler = PairedCoalitionSampler(n, random_state=0)
    sampler.sample(200)
    weights = sampler.log_sampling_adjustment_weights
    assert np.isfinite(weights).all()


def test_oddshap_takes_it():
    sampler = PairedCoalitionSampler(12, random_state=3)
    approximator = OddSHAP(12, sampler=sampler, random_state=0)
    first, second = (
        approximator.approximate(100, lambda rows: rows @ np.arange(12.0)) for _ in range(2)
    )
    np.testing.assert_allclose(first.get_n_order_values(1), np.arange(12.0), atol=1e-8)
    np.testing.assert_array_equal(first.values, second.values)


def test_a_sampler_of_other_players_is_refused():
    with pytest.raises(ValueError, match="8 players, but one of 12"):
        OddSHAP(12, sampler=PairedCoalitionSampler(8))
