"""Pairs that are chosen while the game is evaluated: which, how many of each size, how often asked."""

import numpy as np
import pytest

from shapiq_oddshap import OddGP, PairedCoalitionSampler
from shapiq_oddshap.choosing import ChoiceOptions, chosen_pairs
from shapiq_oddshap.gp import OddGPRecipe
from shapiq_oddshap.gp.choice import choose
from shapiq_oddshap.gp.kernel import Kernel
from shapiq_oddshap.gp.observations import Observations
from shapiq_oddshap.gp.parts import MainEffects, Product
from shapiq_oddshap.gp.posterior import Posterior
from shapiq_oddshap.sampling import drawn_pairs, pairs_per_size, row_keys
from tests.helpers import phi_of

DESIGNS = ("auto", "active")


def interactions(n, seed=0, noise=0.0):
    """Return a game of main effects and many small interactions, and its noise-free values."""
    rng = np.random.default_rng(seed)
    main, pairs = rng.normal(size=n), 0.3 * rng.normal(size=(n, n))
    triple = rng.choice(n, (n, 3))

    def game(coalitions):
        z = coalitions.astype(float)
        values = z @ main + np.einsum("mi,ij,mj->m", z, pairs, z) + z[:, triple].prod(2).sum(1)
        return values + noise * rng.normal(size=len(values))

    return game


class Asked:
    """A game that remembers what it was asked."""

    def __init__(self, game):
        self.game, self.batches = game, []

    def __call__(self, coalitions):
        self.batches.append(coalitions.copy())
        return self.game(coalitions)

    @property
    def rows(self):
        return np.concatenate(self.batches)


def posterior_on(pairs, rates):
    n = pairs.shape[1]
    kernel = Kernel(n, (MainEffects(0.4), Product(0.6, rates)), 1e-2)
    targets = np.random.default_rng(1).normal(size=len(pairs))
    return Posterior.of(kernel, Observations.of(pairs, targets, 0.3))


@pytest.mark.parametrize(("known", "outputs"), [(3, 1), (9, 1), (9, 3)])
def test_the_choice_is_the_greedy_one_by_refitting(known, outputs):
    """Of several outputs, by the shares of their variances that a pair takes away."""
    n, rng = 7, np.random.default_rng(0)
    rows = rng.permutation(drawn_pairs(n, 40, 5))
    pairs, candidates = rows[:known], rows[known:]
    seats = np.array([0, 1, 3, 2])
    posteriors = [posterior_on(pairs, rng.uniform(0.05, 0.6, n)) for _ in range(outputs)]
    chosen = choose(posteriors, candidates, seats, 99)
    assert choose(posteriors, candidates, seats, 2).tolist() == chosen[:2].tolist()

    def totals(rows):
        data = Observations.of(rows, np.zeros(len(rows)), 0)
        after = (Posterior.of(each.kernel, data).shapley_variances() for each in posteriors)
        return np.array([each.sum() for each in after])

    left, expected = seats.copy(), []
    for _ in range(seats.sum()):
        there = np.concatenate([pairs, candidates[expected]])
        rank = np.linalg.matrix_rank(1.0 - 2.0 * np.vstack([np.zeros((1, n)), there]))
        before = totals(there)

        def left_over(row, there=there, before=before):
            return np.sum(totals(np.vstack([there, candidates[row]])) / before)

        def is_new(row, there=there, rank=rank):
            more = 1.0 - 2.0 * np.vstack([np.zeros((1, n)), there, candidates[row]])
            return np.linalg.matrix_rank(more) > rank

        open_ = [r for r in range(len(candidates)) if r not in expected]
        open_ = [r for r in open_ if left[candidates[r].sum()] > 0]
        open_ = [r for r in open_ if is_new(r)] or open_
        expected.append(min(open_, key=left_over))
        left[candidates[expected[-1]].sum()] -= 1
    assert chosen.tolist() == expected


@pytest.mark.parametrize("outputs", [2, 6])
def test_copies_and_negatives_are_one_output(outputs):
    """Both classes of a classifier ask for the coalitions of one."""
    n, budget, game = 10, 60, interactions(10)
    signs = np.resize([1.0, -2.0], outputs)
    alone, together = Asked(game), Asked(lambda c: game(c)[:, None] * signs + 3.0)
    OddGP(n, random_state=0).estimate(budget, alone)
    OddGP(n, random_state=0).estimate_outputs(budget, together)
    np.testing.assert_array_equal(together.rows, alone.rows)


def test_few_outputs_choose_by_kernels_of_their_own_as_long_as_that_takes_no_longer():
    n, budget, games = 10, 60, [interactions(10, seed) for seed in range(3)]

    def asked(count, **options):
        game = Asked(lambda c: np.stack([each(c) for each in games[:count]], axis=1))
        OddGP(n, random_state=0, **options).estimate_outputs(budget, game)
        return game.rows

    three, shared = asked(3), asked(3, recipe=OddGPRecipe(few_outputs=2))
    assert not np.array_equal(three, shared)
    np.testing.assert_array_equal(asked(2), asked(2, recipe=OddGPRecipe(few_outputs=2)))
    assert [ChoiceOptions().goes_on(60, 240, kernels) for kernels in (1, 4)] == [True, False]


def test_conditioning_the_leading_candidates_alone_loses_nothing(monkeypatch):
    """The variance lowered over that by a choice among all, mean and worst."""
    n, known, shares = 12, 30, []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rows = rng.permutation(drawn_pairs(n, 900, seed))
        pairs, candidates = rows[:known], rows[known:]
        posterior = posterior_on(pairs, rng.uniform(0.02, 0.4, n))
        seats = np.minimum(np.bincount(candidates.sum(axis=1), minlength=n // 2 + 1), 2)

        def lowered(pairs=pairs, candidates=candidates, posterior=posterior, seats=seats):
            there = np.concatenate([pairs, candidates[choose([posterior], candidates, seats, 99)]])
            data = Observations.of(there, np.zeros(len(there)), 0.0)
            after = Posterior.of(posterior.kernel, data).shapley_variances()
            return np.sum(posterior.shapley_variances() - after)

        leading = lowered()
        with monkeypatch.context() as patch:
            patch.setattr("shapiq_oddshap.gp.choice._LEADING", len(candidates))
            shares.append(leading / lowered())
    assert np.mean(shares) > 0.995
    assert np.min(shares) > 0.98


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize(("n", "step"), [(7, 2), (14, 46)])
def test_a_larger_budget_is_asked_for_all_that_a_smaller_one_is(design, n, step):
    game, smaller = interactions(n), np.zeros((0, n), dtype=bool)
    for budget in range(2, min(2**n, 600), step):
        asked = Asked(game)
        OddGP(n, design=design, random_state=3).estimate(budget, asked)
        assert np.isin(row_keys(smaller), row_keys(asked.rows)).all()
        smaller = asked.rows


@pytest.mark.parametrize("n", [2, 3, 5, 12, 70])
@pytest.mark.parametrize("factor", [1.0, 3.0, 9.0, 25.0])
@pytest.mark.parametrize("design", DESIGNS)
def test_as_many_of_each_size_as_would_be_drawn(n, factor, design):
    budget = int(min(factor * n, 2**n - 1, 900))
    options = ChoiceOptions() if design == "auto" else ChoiceOptions.throughout()
    asked = Asked(interactions(n))
    request = chosen_pairs(n, budget, 11, options)
    rows = next(request)
    while True:
        try:
            rows = request.send(asked(rows))
        except StopIteration:
            break
    rows = asked.rows
    inner = rows[(rows.any(axis=1)) & ~rows.all(axis=1)]
    assert len(np.unique(row_keys(inner))) == len(inner) == 2 * (budget // 2 - 1)
    np.testing.assert_array_equal(inner[::2], ~inner[1::2])
    sizes = np.bincount(inner[::2].sum(axis=1), minlength=n // 2 + 1)
    # the budget may cut the last batch, whose sizes are right as a whole
    shares = pairs_per_size(n, budget // 2 - 1)
    assert np.abs(sizes - shares).sum() <= 2 * options.batch(shares.sum())


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("seed", range(5))
def test_additive_games_are_exact_from_twice_the_players_and_two(design, seed):
    for n in (5, 13, 40):
        effects = np.random.default_rng(seed).normal(size=n)
        estimate = OddGP(n, design=design, random_state=seed).estimate(
            2 * n + 2, lambda coalitions, effects=effects: coalitions @ effects + 3.0
        )
        np.testing.assert_allclose(phi_of(estimate.values), effects, atol=1e-9)


def test_the_game_is_asked_a_few_dozen_times_and_fewer_with_larger_batches():
    n = 15
    calls = {}
    for batch_size in (1, 16, 64):
        asked = Asked(interactions(n))
        OddGP(n, batch_size=batch_size, random_state=0).estimate(10 * n, asked)
        calls[batch_size] = len(asked.batches)
        # the ends, the drawn start, the last batch, which the budget cuts
        assert all(len(rows) >= batch_size for rows in asked.batches[2:-1])
    assert calls[1] <= 48
    assert calls[16] <= 12
    assert calls[64] <= 5


@pytest.mark.parametrize(("n", "budget"), [(1, 2), (2, 3), (600, 1800)], ids=str)
def test_any_number_of_players(n, budget):
    estimate = OddGP(n, random_state=0).estimate(budget, lambda z: np.sqrt(z.sum(axis=1)))
    np.testing.assert_allclose(phi_of(estimate.values).sum(), np.sqrt(n))


def test_where_choosing_would_take_longer_than_evaluating_all_are_drawn():
    n, budget = 1500, 4000
    asked, drawn = Asked(lambda z: z.sum(axis=1) ** 2.0), PairedCoalitionSampler(n, random_state=0)
    estimate = OddGP(n, random_state=0).estimate(budget, asked)
    drawn.sample(budget)
    assert estimate.diagnostics.details["chosen"] == 0
    assert len(asked.batches) == 2
    sizes = np.sort(asked.rows.sum(axis=1))
    np.testing.assert_array_equal(sizes, np.sort(drawn.coalitions_size))


@pytest.mark.parametrize("game", [lambda z: np.ones(len(z)), lambda z: (z.sum(axis=1) - 4.0) ** 2])
def test_games_that_give_no_scale_are_drawn(game):
    estimate = OddGP(8, random_state=0).estimate(60, game)
    np.testing.assert_allclose(phi_of(estimate.values), 0.0, atol=1e-9)


def test_outputs_share_the_chosen_pairs():
    n, k = 10, 3
    games = [interactions(n, seed) for seed in range(k)]
    asked = Asked(lambda z: np.stack([game(z) for game in games], axis=1))
    estimates = OddGP(n, random_state=0).estimate_outputs(60, asked)
    assert len(asked.rows) == 60
    assert [estimate.diagnostics.details["chosen"] for estimate in estimates] == [29.0] * k


def test_one_output_of_scale_and_others_of_none():
    n = 8
    game = interactions(n)
    beside = OddGP(n, random_state=0).estimate_outputs(
        40, lambda z: np.stack([np.full(len(z), 2.0), game(z)], axis=1)
    )
    alone = OddGP(n, random_state=0).estimate(40, game)
    np.testing.assert_array_equal(phi_of(beside[1].values), phi_of(alone.values))


def test_chosen_pairs_tell_more_than_drawn_ones():
    """Mean logarithm of the error over that of drawn pairs, negative by three standard errors."""
    n, logs = 12, []
    for seed in range(24):
        game = interactions(n, seed)
        exact = phi_of(OddGP(n).estimate(2**n, game).values)
        errors = [
            np.mean(
                (phi_of(OddGP(n, design=d, random_state=seed).estimate(48, game).values) - exact)
                ** 2
            )
            for d in ("auto", "paired")
        ]
        logs.append(np.log(errors[0] / errors[1]))
    assert np.mean(logs) < -3 * np.std(logs) / np.sqrt(len(logs))


def test_noise_in_the_game_does_not_break_the_choice():
    """With noise as large as the interactions, chosen pairs are no worse than drawn ones."""
    n, logs = 12, []
    for seed in range(24):
        exact = phi_of(OddGP(n).estimate(2**n, interactions(n, seed)).values)
        errors = [
            np.mean(
                (
                    phi_of(
                        OddGP(n, design=d, random_state=seed)
                        .estimate(72, interactions(n, seed, noise=1.0))
                        .values
                    )
                    - exact
                )
                ** 2
            )
            for d in ("active", "paired")
        ]
        logs.append(np.log(errors[0] / errors[1]))
    assert np.mean(logs) < 3 * np.std(logs) / np.sqrt(len(logs))


@pytest.mark.parametrize("design", DESIGNS)
def test_intervals_cover_although_the_design_followed_the_model(design):
    n, covered = 12, []
    for seed in range(40):
        game = interactions(n, seed)
        exact = phi_of(OddGP(n).estimate(2**n, game).values)
        estimate = OddGP(n, design=design, random_state=seed).estimate(60, game)
        error = np.abs(phi_of(estimate.values) - exact)
        covered.append(np.mean(error <= 1.645 * np.sqrt(estimate.variances) + 1e-12))
    assert 0.8 <= np.mean(covered) <= 0.99


@pytest.mark.parametrize(("name", "value"), [("design", "greedy"), ("batch_size", 0)])
def test_invalid_options(name, value):
    with pytest.raises(ValueError, match=name):
        OddGP(5, **{name: value})


@pytest.mark.parametrize("design", DESIGNS)
def test_a_batch_larger_than_what_is_left_takes_what_is_left(design):
    n, asked = 14, Asked(interactions(14))
    estimate = OddGP(n, design=design, batch_size=10_000, random_state=0).estimate(150, asked)
    assert len(asked.rows) == 150
    assert estimate.diagnostics.details["chosen"] == 74
