"""The sample: look-up, the odd and the even component, and regressions on each."""

import numpy as np
import pytest

from shapiq_oddshap.approximators.base import Plan, Run
from shapiq_oddshap.fourier import parities, singletons
from shapiq_oddshap.regression import fit_terms
from shapiq_oddshap.sample import Sample
from shapiq_oddshap.sampling import PairedCoalitionSampler, row_weights
from tests.helpers import all_coalitions, fourier_game, random_game

N = 7


def sample_of(game, budget=80, n=N):
    sampler = PairedCoalitionSampler(n, random_state=0)
    sampler.sample(budget)
    coalitions = sampler.coalitions_matrix
    return Sample(coalitions, game(coalitions), row_weights(sampler))


def test_values_are_found_again():
    game = random_game(N)
    sample = sample_of(game)
    rows = np.random.default_rng(0).permutation(sample.coalitions)[:60].reshape(3, 20, N)
    np.testing.assert_array_equal(sample.at(rows), game(rows.reshape(-1, N)).reshape(3, 20))


def test_components_are_those_of_the_definition():
    game = random_game(N)
    sample = sample_of(game)
    odd, even = sample.component("odd"), sample.component("even")
    assert sample.component("odd") is odd
    assert sample.component("even") is even
    np.testing.assert_array_equal(odd.coalitions, even.coalitions)
    np.testing.assert_array_equal(odd.weights, even.weights)
    values, opposite = game(odd.coalitions), game(~odd.coalitions)
    np.testing.assert_allclose(odd.targets, (values - opposite) / 2, atol=1e-12)
    middle = (game.values[0] + game.values[-1]) / 2
    np.testing.assert_allclose(even.targets, (values + opposite) / 2 - middle, atol=1e-12)
    assert not even.targets.flags.writeable


@pytest.mark.parametrize("parity", ["odd", "even", "both"])
def test_terms_of_each_parity_are_recovered(parity):
    """Coefficients against those of the game, and the constraint at the empty and the grand one."""
    rng = np.random.default_rng(1)
    players = [(), (0,), (3,), (0, 1), (2, 5), (1, 2, 3), (0, 2, 4, 6), (0, 1, 2, 5, 6)]
    game = fourier_game(players, rng.normal(size=len(players)))
    sample = sample_of(game, budget=100)
    orders = all_coalitions(N).sum(axis=1)
    higher = all_coalitions(N)[(orders >= 2) & (orders <= 5)]
    kept = rng.permutation(len(higher))[:15]
    wanted = np.array([[i in term for i in range(N)] for term in players if len(term) >= 2])
    higher = np.unique(np.concatenate([wanted, higher[kept]]), axis=0)
    odd = higher.sum(axis=1) % 2 == 1
    terms = {
        "odd": np.concatenate([singletons(N), higher[odd]]),
        "even": higher[~odd],
        "both": np.concatenate([singletons(N), higher]),
    }[parity]
    fit = fit_terms(sample, terms, parity)
    everything = all_coalitions(N)
    found = fit.coefficients @ parities(fit.terms, everything)
    values, opposite = game(everything), game(~everything)
    middle = (values[0] + values[-1]) / 2
    expected = {
        "odd": (values - opposite) / 2,
        "even": (values + opposite) / 2 - middle,
        "both": values - values[0],
    }[parity]
    np.testing.assert_allclose(found, expected, atol=1e-9)


class TestDesigns:
    """The one place that drives a design."""

    def test_a_sequential_design_sees_values_and_pays_once(self):
        game = random_game(N)
        seen = []

        def design():
            first = np.eye(N, dtype=bool)
            values = yield first
            seen.append(values)
            best = first[[values.argmax()]]
            values = yield np.stack([np.concatenate([best, ~best]), first[:2]])
            seen.append(values)
            return Plan(notes="done")

        sample, notes = Run(2**N - 1, random_state=0).collect(design(), game, N)
        assert notes == "done"
        assert len(game.asked) == len(set(game.asked)) == len(sample.values) == N + 3
        assert not sample.coalitions[0].any()
        assert sample.coalitions[1].all()
        np.testing.assert_array_equal(sample.coalitions[2 : 2 + N], np.eye(N, dtype=bool))
        np.testing.assert_array_equal(seen[0], game(np.eye(N, dtype=bool)))
        assert seen[1].shape == (2, 2)
        np.testing.assert_array_equal(seen[1][1], seen[0][:2])
        np.testing.assert_array_equal(sample.weights[:2], 0)
        for array in (sample.coalitions, sample.values, sample.weights):
            assert not array.flags.writeable

    def test_a_design_that_asks_for_nothing_more_knows_the_boundary(self):
        def design():
            yield np.zeros((0, N), dtype=bool)
            return Plan()

        sample, _ = Run(2, random_state=0).collect(design(), random_game(N), N)
        assert len(sample.values) == 2

    def test_the_budget_is_kept(self):
        game = random_game(N)

        def design():
            yield np.eye(N, dtype=bool)
            yield ~np.eye(N, dtype=bool)
            return Plan()

        with pytest.raises(RuntimeError, match=f"{2 * N + 2} evaluations exceed {2 * N + 1}"):
            Run(2 * N + 1, random_state=0).collect(design(), game, N)
        assert len(game.asked) == N + 2
