"""Contract, outputs: one evaluation of a coalition serves all outputs of a game."""

import tracemalloc

import numpy as np
import pytest

from shapiq_oddshap import FFDRDCorrected, OddGP, OddSHAP, Screener
from shapiq_oddshap.approximators import APPROXIMATORS
from tests.helpers import phi_of, smooth_game

N = 7


SHARING = {name: cls for name, cls in APPROXIMATORS.items() if not cls.adaptive}


@pytest.fixture(params=SHARING.values(), ids=SHARING.keys())
def approximator(request):
    """An approximator class whose coalitions do not depend on the values."""
    return request.param


class Stacked:
    """Several games as one of several outputs; counts what is asked of it."""

    def __init__(self, games):
        self.games = games
        self.asked = 0

    def __call__(self, coalitions):
        self.asked += len(coalitions)
        return np.stack([game(coalitions) for game in self.games], axis=1)


def games(k, n=N):
    return [smooth_game(n, seed=seed) for seed in range(k)]


def budget_of(approximator, n=N):
    return max(60, approximator(n).required_budget())


@pytest.mark.parametrize("budget", [60, 2**N, 2**N + 5])
def test_each_output_is_what_a_run_on_it_alone_gives(approximator, budget):
    budget = max(budget, approximator(N).required_budget())
    instance, stacked = approximator(N, random_state=3), Stacked(games(3))
    estimates = instance.estimate_outputs(budget, stacked)
    assert len(estimates) == 3
    assert stacked.asked == estimates[0].diagnostics.evaluations <= budget
    for estimate, game in zip(estimates, stacked.games, strict=True):
        alone = instance.estimate(budget, game)
        assert estimate.diagnostics.evaluations == alone.diagnostics.evaluations
        assert estimate.values.baseline_value == alone.values.baseline_value
        assert estimate.values.estimated == alone.values.estimated
        if approximator is OddGP and budget < 2**N:  # outputs teach each other
            error = np.abs(phi_of(estimate.values) - phi_of(alone.values))
            assert np.all(error <= 1e-6 + 4 * np.sqrt(alone.variances + estimate.variances))
            continue
        np.testing.assert_array_equal(phi_of(estimate.values), phi_of(alone.values))
        assert estimate.diagnostics.path == alone.diagnostics.path
        if alone.variances is not None:
            np.testing.assert_array_equal(estimate.variances, alone.variances)


@pytest.mark.parametrize("column", [True, False], ids=["one column", "no column"])
def test_one_output_is_the_game_itself(approximator, column):
    (game,), instance = games(1), approximator(N, random_state=0)
    budget = budget_of(approximator)
    (estimate,) = instance.estimate_outputs(budget, Stacked([game]) if column else game)
    alone = instance.estimate(budget, game)
    np.testing.assert_array_equal(phi_of(estimate.values), phi_of(alone.values))


def test_outputs_do_not_depend_on_their_order_or_on_earlier_calls(approximator):
    instance, stacked = approximator(N, random_state=1), games(3)
    budget = budget_of(approximator)
    first = instance.estimate_outputs(budget, Stacked(stacked))
    again = instance.estimate_outputs(budget, Stacked(stacked))
    turned = instance.estimate_outputs(budget, Stacked(stacked[::-1]))[::-1]
    for one, same, other in zip(first, again, turned, strict=True):
        np.testing.assert_array_equal(phi_of(one.values), phi_of(same.values))
        scale = np.abs(phi_of(one.values)).max()
        np.testing.assert_allclose(phi_of(other.values), phi_of(one.values), atol=1e-2 * scale)


def test_constant_outputs_among_others_are_zero(approximator):
    constant = [lambda c: np.full(len(c), 3.0)]
    budget = budget_of(approximator)
    instance = approximator(N, random_state=0)
    estimates = instance.estimate_outputs(budget, Stacked(constant + games(1) + constant))
    for estimate in (estimates[0], estimates[2]):
        np.testing.assert_array_equal(phi_of(estimate.values), 0.0)
        assert estimate.values.baseline_value == 3.0
    assert np.abs(phi_of(estimates[1].values)).max() > 0


def test_scales_of_outputs_may_differ_by_many_orders(approximator):
    (game,), budget = games(1), budget_of(approximator)
    scaled = [lambda c: 1e-9 * game(c), game, lambda c: 1e9 * game(c)]
    estimates = approximator(N, random_state=0).estimate_outputs(budget, Stacked(scaled))
    small, one, large = (phi_of(estimate.values) for estimate in estimates)
    np.testing.assert_allclose(small * 1e9, one, atol=1e-4)
    np.testing.assert_allclose(large / 1e9, one, atol=1e-4)


def test_a_value_that_is_not_finite_is_named_by_output_and_coalition(approximator):
    def game(coalitions):
        values = np.stack([coalitions.sum(axis=1)] * 4, axis=1).astype(float)
        values[coalitions.all(axis=1), 2] = np.nan
        return values

    with pytest.raises(ValueError, match=r"1 values .*\(0, 1, 2, 3, 4, 5, 6\) in output 2"):
        approximator(N).estimate_outputs(budget_of(approximator), game)


@pytest.mark.parametrize("shape", [(0,), (2, 2)], ids=["no output", "matrices"])
def test_other_shapes_are_refused(approximator, shape):
    with pytest.raises(ValueError, match=r"game returned values of shape .* required"):
        approximator(N).estimate_outputs(
            budget_of(approximator), lambda c: np.zeros((len(c), *shape))
        )


def test_one_value_per_coalition_is_required_elsewhere(approximator):
    instance = approximator(N)
    with pytest.raises(ValueError, match=r"3 outputs at once .*estimate_outputs\(budget, game\)"):
        instance.approximate(budget_of(approximator), Stacked(games(3)))


def test_adaptive_designs_say_why_they_cannot_share():
    with pytest.raises(TypeError, match=r"FFDRDCorrected chooses its coalitions by the values"):
        FFDRDCorrected(N).estimate_outputs(2**N, Stacked(games(2)))


class Watcher(Screener):
    """Screens nothing; tells NumPy's error state, and fails on demand."""

    name = "watcher"

    def __init__(self, failure=None):
        self.failure, self.seen = failure, []

    def screen(self, sample, count, rng, *, parity="odd"):
        self.seen.append(np.geterr()["divide"])
        if self.failure:
            raise self.failure
        return np.zeros((0, sample.n), dtype=bool)


def test_threads_have_the_callers_context_and_hand_on_what_is_raised():
    watcher = Watcher()
    with np.errstate(divide="raise"):
        OddSHAP(N, screener=watcher).estimate_outputs(127, Stacked(games(4)))
    assert watcher.seen
    assert set(watcher.seen) == {"raise"}
    failure = LookupError("no terms")
    with pytest.raises(LookupError) as raised:
        OddSHAP(N, screener=Watcher(failure)).estimate_outputs(127, Stacked(games(4)))
    assert raised.value is failure


def test_memory_grows_with_values_and_results_alone(approximator, monkeypatch):
    # in one thread: what several take at their peaks meets by chance
    monkeypatch.setattr("shapiq_oddshap.approximators.base.cpu_count", lambda: 1)
    (game,), instance = games(1), approximator(N, random_state=0)
    budget = budget_of(approximator)

    def peak(k):
        tracemalloc.start()
        # the same output again and again: what one takes alone is the same for few and for many
        estimates = instance.estimate_outputs(budget, lambda c: np.repeat(game(c)[:, None], k, 1))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(estimates) == k
        return found

    peak(2)  # modules are imported, and caches filled
    assert peak(8) - peak(2) < 6 * (10 * 8 * budget + 20_000)
