"""Contract, the game: what it may return, what it may do, what it may be."""

import numpy as np
import pytest
import shapiq

from tests.helpers import phi_of, random_game

N = 6


def run(approximator, game, n=N):
    instance = approximator(n, random_state=0)
    return instance.approximate(max(40, min(instance.required_budget(), 2**n)), game)


@pytest.mark.parametrize(
    "convert",
    [
        lambda v: v[:, None],
        lambda v: v.tolist(),
        lambda v: v.astype(np.float32),
        lambda v: v.astype(object),
        lambda v: (10 * v).astype(int),
        lambda v: v > 0,
    ],
    ids=["column", "list", "float32", "object", "int", "bool"],
)
def test_results_of_many_kinds_are_taken(approximator, convert):
    game = random_game(N)
    plain = phi_of(run(approximator, lambda c: np.asarray(convert(game(c)), dtype=float).ravel()))
    np.testing.assert_array_equal(phi_of(run(approximator, lambda c: convert(game(c)))), plain)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda v: np.stack([v, v], axis=1),
        lambda v: v[:-1],
        lambda v: float(v[0]),
        lambda v: v.astype(complex),
        lambda v: [str(x) for x in v],
        lambda v: None,
    ],
    ids=["two columns", "one short", "scalar", "complex", "strings", "nothing"],
)
def test_results_of_the_wrong_kind_are_refused(approximator, wrong):
    game = random_game(N)
    with pytest.raises((TypeError, ValueError), match="game"):
        run(approximator, lambda c: wrong(game(c)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_named(approximator, bad):
    def game(coalitions):
        values = coalitions.sum(axis=1).astype(float)
        values[coalitions.all(axis=1)] = bad
        return values

    with pytest.raises(ValueError, match=r"1 .*\(0, 1, 2, 3, 4, 5\)"):
        run(approximator, game)


def test_a_game_may_spoil_its_input_but_not_the_run(approximator):
    game = random_game(N)

    def spoiling(coalitions):
        values = game(coalitions)
        coalitions[:] = True
        return values

    np.testing.assert_array_equal(
        phi_of(run(approximator, spoiling)), phi_of(run(approximator, game))
    )


def test_what_a_game_returns_is_never_written_to(approximator):
    game = random_game(N)

    def frozen(coalitions):
        values = game(coalitions)
        values.flags.writeable = False
        return values

    run(approximator, frozen)


def test_shapiq_games_and_imputers(approximator):
    class SizeGame(shapiq.Game):
        def value_function(self, coalitions):
            return coalitions.sum(axis=1) ** 2.0

    game = SizeGame(n_players=N, normalize=True, normalization_value=0.0)
    values = approximator(N, random_state=0).approximate(2**N, game)
    np.testing.assert_allclose(phi_of(values), N, atol=1e-9)

    data = np.random.default_rng(0).normal(size=(20, N))
    imputer = shapiq.MarginalImputer(lambda x: x @ np.arange(N), data, x=data[:1])
    exact = data[0] * np.arange(N) - (data * np.arange(N)).mean(axis=0)
    values = approximator(N, random_state=0).approximate(2**N, imputer)
    np.testing.assert_allclose(phi_of(values), exact, atol=1e-9)
