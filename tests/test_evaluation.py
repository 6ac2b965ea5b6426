"""The evaluation stage and the wrapper for expensive games."""

import copy
import os
import pickle
import sqlite3
import subprocess
import sys
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import joblib
import numpy as np
import pytest
import shapiq
from hypothesis import given, settings
from hypothesis import strategies as st

from shapiq_oddshap import OddSHAP, evaluated, explain
from shapiq_oddshap.evaluated_game import EvaluatedGame, EvaluationError, EvaluationReport
from shapiq_oddshap.evaluation import GameValueError, evaluate
from shapiq_oddshap.store import Store, StoreError
from tests.helpers import assert_stops_promptly
from tests.test_store import FORMAT_1

ROOT = Path(__file__).parents[1]
N = 6
EVERY = (np.arange(2**N)[:, None] >> np.arange(N) & 1).astype(bool)
SIZES = EVERY.sum(axis=1).astype(float)


class Counting:
    """A game that keeps the coalitions that it was asked for, batch by batch."""

    def __init__(self):
        self.batches = []

    def __call__(self, coalitions):
        self.batches.append([tuple(np.flatnonzero(row).tolist()) for row in coalitions])
        return np.sin(coalitions @ np.sqrt(np.arange(1.0, coalitions.shape[1] + 1)))

    @property
    def asked(self):
        return [coalition for batch in self.batches for coalition in batch]


class Failing(Counting):
    """A game that raises for coalitions with player 5 the first ``times`` times."""

    def __init__(self, times):
        super().__init__()
        self.times = times

    def __call__(self, coalitions):
        values = super().__call__(coalitions)
        if coalitions[:, 5].any() and self.times:
            self.times -= 1
            msg = "out of memory"
            raise MemoryError(msg)
        return values


class SizeGame(shapiq.Game):
    """A shapiq game that subtracts a normalization value."""

    def __init__(self):
        super().__init__(
            n_players=N, normalization_value=1.5, player_names=[f"player {i}" for i in range(N)]
        )

    def value_function(self, coalitions):
        return coalitions.sum(axis=1).astype(float)


class ArrayLike:
    """What a tensor of another library looks like to NumPy."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)


def size_game(coalitions):
    """Return coalition sizes; at module level, so that plain pickle takes it."""
    return coalitions.sum(axis=1)


class UnpicklableError(Exception):
    """An exception that pickle cannot rebuild from what it is made of."""

    def __init__(self, one, two):
        super().__init__(one, two, "never rebuilt from three")


def broken_game(coalitions):
    """Raise for coalitions with player 5."""
    if coalitions[:, 5].any():
        raise UnpicklableError(*"ab")
    return coalitions.sum(axis=1)


@pytest.fixture
def pauses(monkeypatch):
    """Return the list of the pauses that are asked for; none is made."""
    made = []
    monkeypatch.setattr("shapiq_oddshap.workers.sleep", made.append)
    return made


# ------------------------------------------------------------------ what a game may return


@pytest.mark.parametrize(
    "convert",
    [
        lambda v: v,
        lambda v: v[:, None],
        lambda v: v.tolist(),
        tuple,
        lambda v: v.astype(int),
        lambda v: v.astype(np.uint8),
        lambda v: v.astype(np.float32),
        lambda v: v.astype(np.float16),
        lambda v: v.astype(object),
        lambda v: [Fraction(int(x)) for x in v],
        ArrayLike,
        lambda v: np.asfortranarray(np.stack([v, v], axis=1))[:, :1],
    ],
)
def test_accepted_answers(convert):
    values = evaluate(lambda c: convert(c.sum(axis=1).astype(float)), EVERY)
    assert values.dtype == np.float64
    assert values.shape == (len(EVERY),)
    np.testing.assert_array_equal(values, SIZES)


def test_booleans_are_numbers():
    np.testing.assert_array_equal(evaluate(lambda c: c.any(axis=1), EVERY), SIZES > 0)


@pytest.mark.parametrize(
    ("answer", "received"),
    [
        (np.zeros((64, 2)), r"shape \(64, 2\)"),
        (np.zeros((1, 64)), r"shape \(1, 64\)"),
        (np.zeros((64, 1, 1)), r"shape \(64, 1, 1\)"),
        (np.zeros(63), r"shape \(63,\)"),
        (1.0, r"shape \(\)"),
        (None, r"shape \(\)"),
        ([[1.0], [1.0, 2.0]] * 32, "list that is no array"),
        (np.zeros(64, dtype=complex), "complex128"),
        (["1.0"] * 64, "<U3"),
        (np.array(["1.0"] * 64, dtype=object), "object, such as '1.0'"),
        ([None] * 64, "64 values that are NaN"),
        ([1j] * 63 + [object()], "object"),
        ([10**400] * 64, "object"),
        (np.zeros(64, dtype="datetime64[s]"), "datetime64"),
    ],
)
def test_refused_answers(answer, received):
    with pytest.raises(GameValueError, match=received) as refusal:
        evaluate(lambda _: answer, EVERY)
    assert "One finite real number per coalition is required" in str(refusal.value)


def test_a_scalar_is_refused_for_one_coalition_too():
    with pytest.raises(GameValueError, match=r"shape \(\) for 1 coalitions"):
        evaluate(lambda c: float(c.sum()), EVERY[:1])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_counted_and_one_is_named(value):
    def game(coalitions):
        return np.where(coalitions[:, [0, 3]].all(axis=1), value, 1.0)

    with pytest.raises(ValueError, match=rf"16 values .* such as {value} .* coalition \(0, 3\)"):
        evaluate(game, EVERY)


def test_neither_side_can_change_the_arrays_of_the_other():
    own, kept = EVERY.copy(), np.arange(64.0)

    def vandal(coalitions):
        coalitions[:] = True
        return kept

    values = evaluate(vandal, own)
    values[:] = -1
    np.testing.assert_array_equal(own, EVERY)
    np.testing.assert_array_equal(kept, np.arange(64.0))


def test_no_coalitions_cost_nothing():
    assert evaluate(pytest.fail, np.zeros((0, N), dtype=bool)).shape == (0,)


def test_an_exception_of_the_game_passes_through():
    with pytest.raises(MemoryError, match="out of memory"):
        evaluate(Failing(1), EVERY)


def test_games_and_imputers_are_evaluated():
    rng = np.random.default_rng(0)
    data = rng.normal(size=(20, N))
    imputer = shapiq.MarginalImputer(
        lambda x: x.sum(axis=1), data, x=data[0], sample_size=5, random_state=0, normalize=False
    )
    np.testing.assert_array_equal(evaluate(SizeGame(), EVERY), SIZES - 1.5)
    for game in (SizeGame(), imputer):
        wrapped = EvaluatedGame(game, batch_size=64)
        assert wrapped.n_players == N
        np.testing.assert_allclose(wrapped(EVERY), game(EVERY), rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------------ the wrapper as a shapiq game


def test_construction_is_free_and_quiet(recwarn):
    game = Counting()
    EvaluatedGame(game, n=N)
    assert not game.batches
    assert not recwarn.list


def test_it_takes_what_a_shapiq_game_takes():
    game = EvaluatedGame(SizeGame())
    assert game(EVERY[5]).tolist() == [0.5]
    assert game((0, 1)).tolist() == [0.5]
    assert game([("player 0", "player 3", "player 5")]).tolist() == [1.5]


def test_duplicates_are_evaluated_once():
    counting = Counting()
    game = EvaluatedGame(counting, n=N)
    values = game(np.concatenate([EVERY, EVERY[::-1]]))
    np.testing.assert_array_equal(values[:64], values[64:][::-1])
    assert len(counting.asked) == len(set(counting.asked)) == 64
    assert game.report() == EvaluationReport(evaluated=64, reused=0)


@settings(deadline=None)
@given(
    st.integers(1, 20).flatmap(
        lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=1, max_size=9)
    ),
    st.integers(1, 4),
)
def test_values_stay_with_their_coalitions(rows, batch_size):
    coalitions = np.array(rows, dtype=bool)

    def game(asked):
        return asked @ 2.0 ** np.arange(asked.shape[1])

    wrapped = EvaluatedGame(game, n=coalitions.shape[1], batch_size=batch_size)
    np.testing.assert_array_equal(wrapped(coalitions), game(coalitions))


@pytest.mark.parametrize(
    "make",
    [
        lambda: shapiq.KernelSHAP(n=N, random_state=0),
        lambda: shapiq.PermutationSamplingSV(n=N, random_state=0),
        lambda: shapiq.SVARM(n=N, random_state=0),
        lambda: shapiq.OwenSamplingSV(n=N, n_anchor_points=2, random_state=0),
        lambda: shapiq.KernelSHAPIQ(n=N, max_order=2, index="k-SII", random_state=0),
    ],
)
def test_every_approximator_of_shapiq_takes_it(make, tmp_path):
    plain = make().approximate(40, lambda c: Counting()(np.atleast_2d(c)))
    wrapped = EvaluatedGame(Counting(), n=N, store=tmp_path / "s.sqlite")
    np.testing.assert_allclose(make().approximate(40, wrapped).values, plain.values, atol=1e-12)


def test_explainers_take_it():
    explainer = shapiq.AgnosticExplainer(
        EvaluatedGame(size_game, n=N), index="SV", max_order=1, random_state=0
    )
    phi = explainer.explain_function(64).get_n_order_values(1)
    np.testing.assert_allclose(phi, np.ones(N), atol=1e-5)  # the default estimator's own error


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, "Received no n and a game without n_players"),
        ({"n": 0}, ValueError, "n=0, but at least 1"),
        ({"n": 6.0}, TypeError, "n=6.0, but an integer"),
        ({"n": N, "batch_size": 0}, ValueError, "batch_size=0"),
        ({"n": N, "batch_size": "all"}, TypeError, "batch_size='all'"),
        ({"n": N, "retries": -1}, ValueError, "retries=-1"),
        ({"n": N, "retries": "2"}, TypeError, "retries='2'"),
        ({"n": N, "retries": 1.0}, TypeError, "retries=1.0"),
        ({"n": N, "n_jobs": 0}, ValueError, "n_jobs=0"),
        ({"n": N, "n_jobs": 0.5}, TypeError, "n_jobs=0.5"),
        ({"n": N, "key": "iris"}, ValueError, "key='iris' without a store"),
        ({"n": (N,)}, TypeError, "n=.*integer"),
        ({"n": N, "batch_size": np.array([4, 4])}, TypeError, "batch_size=.*integer"),
        ({"n": N, "progress": "no"}, TypeError, "progress='no', but True or False"),
        ({"n": N, "verify": 0}, TypeError, "verify=0, but True or False"),
        ({"n": N, "key": 3, "store": "s.sqlite"}, TypeError, "key=3, but a string"),
        ({"n": N, "key": ("a", "b"), "store": "s.sqlite"}, TypeError, "key=.*string"),
    ],
)
def test_invalid_options_are_refused(arguments, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        EvaluatedGame(size_game, **arguments)
    assert not list(tmp_path.iterdir())


def test_numpy_integers_are_integers(tmp_path):
    path = tmp_path / "s.sqlite"
    options = {"n_jobs": np.int64(1), "batch_size": np.int32(4), "retries": np.uint8(1)}
    first = EvaluatedGame(size_game, n=np.int64(N), store=path, key="sizes", **options)
    np.testing.assert_array_equal(first(EVERY), SIZES)
    again = EvaluatedGame(size_game, n=N, store=path, key="sizes")
    np.testing.assert_array_equal(again(EVERY), SIZES)


def test_what_is_no_game_and_no_coalition_is_refused():
    with pytest.raises(TypeError, match="type float, but a callable"):
        EvaluatedGame(1.0, n=N)
    with pytest.raises(ValueError, match=rf"shape \(2, 3\), but \(m, {N}\)"):
        EvaluatedGame(size_game, n=N).value_function(np.zeros((2, 3)))


def test_another_number_of_players_is_refused():
    with pytest.raises(ValueError, match=f"n=7 and a game of n_players={N}"):
        EvaluatedGame(SizeGame(), n=7)


# ------------------------------------------------------------------ parallel


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing", "sequential"])
@pytest.mark.parametrize("batch_size", ["auto", 5])
def test_results_do_not_depend_on_the_workers(backend, batch_size, tmp_path):
    serial = EvaluatedGame(Counting(), n=N, batch_size=batch_size)(EVERY)
    game = EvaluatedGame(Counting(), n=N, batch_size=batch_size, store=tmp_path / "s.sqlite")
    with joblib.parallel_config(backend=backend, n_jobs=2):
        np.testing.assert_array_equal(game(EVERY), serial)
    assert game.report().evaluated == len(game.store) == 64


def test_one_object_serves_many_threads(tmp_path):
    game = EvaluatedGame(Counting(), n=N, store=tmp_path / "s.sqlite")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: game(EVERY), range(8)))
    for values in answers:
        np.testing.assert_array_equal(values, answers[0])
    report = game.report()
    assert report.evaluated + report.reused == 8 * 64


def test_it_can_be_pickled_and_copied_with_progress_and_store(tmp_path):
    game = EvaluatedGame(size_game, n=N, progress=True, store=tmp_path / "s.sqlite", n_jobs=2)
    game(EVERY[:10])
    for clone in (pickle.loads(pickle.dumps(game)), copy.deepcopy(game)):
        np.testing.assert_array_equal(clone(EVERY), SIZES)
    assert len(game.store) == 64


def test_the_bar_is_off_by_default_and_one_on_stderr_if_wanted(capfd):
    EvaluatedGame(size_game, n=N)(EVERY)
    assert capfd.readouterr() == ("", "")
    game = EvaluatedGame(size_game, n=N, progress=True)
    game(EVERY)
    for coalition in EVERY:  # as an approximator that asks for one after the other
        game(coalition)
    out, err = capfd.readouterr()
    assert out == ""
    assert "64/64" in err
    assert err.count("\n") == 1


# ------------------------------------------------------------------ failures


def test_a_failure_names_the_coalition_and_keeps_what_is_finished(tmp_path):
    game = EvaluatedGame(Failing(1), n=N, store=tmp_path / "s.sqlite")
    with pytest.raises(EvaluationError, match=r"coalition \(5,\).*32 of 64 values") as failure:
        game(EVERY)
    assert failure.value.coalition == (5,)
    assert isinstance(failure.value.__cause__, MemoryError)
    assert len(game.store) == 32
    assert pickle.loads(pickle.dumps(failure.value)).coalition == (5,)

    np.testing.assert_array_equal(game(EVERY), EvaluatedGame(Counting(), n=N)(EVERY))
    # 33 the first time, and 32 now; the store was empty when it was first used
    assert game.report() == EvaluationReport(evaluated=65, reused=32)


def test_a_batch_that_failed_is_not_paid_for_twice_without_being_told_to():
    failing = Failing(1)
    with pytest.raises(EvaluationError, match=r"a batch of 8 from \(5,\) on.*retries=1") as failure:
        EvaluatedGame(failing, n=N, batch_size=8)(EVERY)
    assert failure.value.coalition is None
    assert len(failing.asked) == 40


def test_retries_ask_one_by_one_after_growing_pauses(pauses):
    failing = Failing(3)
    game = EvaluatedGame(failing, n=N, batch_size=64, retries=3)
    np.testing.assert_allclose(game(EVERY), Counting()(EVERY), rtol=1e-12)
    assert pauses == [1, 2]
    # the batch, then 64 single ones of which two failed, then those two
    assert [len(batch) for batch in failing.batches] == [64] + [1] * 66
    assert game.report().evaluated == 64 + 64 + 2


def test_retries_end(pauses):
    game = EvaluatedGame(Failing(10**9), n=N, retries=2, batch_size=64)
    with pytest.raises(EvaluationError, match=r"a batch of 32 from \(5,\)"):
        game(EVERY)
    assert pauses == [1, 2]


def test_refused_values_are_not_asked_for_again(pauses):
    counting = Counting()

    def game(coalitions):
        return counting(coalitions) * np.nan

    with pytest.raises(GameValueError, match="NaN or infinite"):
        EvaluatedGame(game, n=N, retries=5)(EVERY)
    assert len(counting.asked) == 1
    assert not pauses


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_failures_on_workers_keep_what_others_finish(backend, tmp_path):
    wrapped = EvaluatedGame(broken_game, n=N, store=tmp_path / "s.sqlite")
    with (
        joblib.parallel_config(backend=backend, n_jobs=2),
        pytest.raises(EvaluationError, match="never rebuilt") as failure,
    ):
        wrapped(EVERY)
    assert 5 in failure.value.coalition
    assert len(wrapped.store) == 32  # the first half is without player 5
    if backend != "threading":
        assert "in broken_game" in failure.value.__cause__.__notes__[0]


INTERRUPTED = """
import sys, time
import numpy as np
from shapiq_oddshap.evaluated_game import EvaluatedGame

store, log, n_jobs = sys.argv[1:]

def game(coalitions):
    with open(log, "a") as file:
        file.write("x")
    time.sleep(0.01 if coalitions.sum() < 3 else 60)
    return coalitions.sum(axis=1)

if __name__ == "__main__":
    coalitions = (np.arange(2**6)[:, None] >> np.arange(6) & 1).astype(bool)
    coalitions = coalitions[np.argsort(coalitions.sum(axis=1), kind="stable")]
    EvaluatedGame(game, n=6, n_jobs=int(n_jobs), store=store)(coalitions)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to a process group")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_stops_promptly_and_keeps_the_store(n_jobs, tmp_path):
    (tmp_path / "script.py").write_text(INTERRUPTED)
    store, log = tmp_path / "s.sqlite", tmp_path / "log"

    def fast_ones_are_done():
        return log.exists() and log.stat().st_size >= 22 + n_jobs

    assert_stops_promptly([tmp_path / "script.py", store, log, str(n_jobs)], fast_ones_are_done)
    assert len(Store(store, n=N)) == 22


# ------------------------------------------------------------------ the store behind it


def test_a_larger_budget_pays_for_the_difference_only(tmp_path):
    path = tmp_path / "s.sqlite"
    counting = Counting()
    EvaluatedGame(counting, n=N, store=path)(EVERY[:20])
    larger = EvaluatedGame(counting, n=N, store=path, verify=False)
    np.testing.assert_array_equal(larger(EVERY), EvaluatedGame(Counting(), n=N)(EVERY))
    assert larger.report() == EvaluationReport(evaluated=44, reused=20)
    assert len(counting.asked) == 64


def test_the_first_use_evaluates_a_few_telling_coalitions_again(tmp_path):
    path = tmp_path / "s.sqlite"
    EvaluatedGame(Counting(), n=N, store=path)(EVERY)
    counting = Counting()
    again = EvaluatedGame(counting, n=N, store=path)
    assert not counting.asked
    again(EVERY)
    again(EVERY)
    assert len(counting.asked) == len(set(counting.asked)) == 5
    assert tuple(range(N)) in counting.asked
    assert () not in counting.asked
    assert again.report() == EvaluationReport(evaluated=5, reused=2 * len(EVERY), verified=5)
    assert repr(again.report()) == "EvaluationReport(evaluated=5, reused=128, verified=5)"


def test_a_store_of_another_model_is_noticed_though_small_coalitions_are_worth_the_same(tmp_path):
    """As in data valuation, where what is too little to train on is worth nothing to any model."""

    def game_of(model):
        return lambda c: np.where(c.sum(axis=1) < 3, 0.0, model + 0.01 * c[:, 0])

    path = tmp_path / "s.sqlite"
    EvaluatedGame(game_of(0.8), n=N, store=path)(EVERY)
    with pytest.raises(StoreError, match="this game gives"):
        EvaluatedGame(game_of(0.7), n=N, store=path)(EVERY)


def fitted_imputer(row):
    data = np.random.default_rng(0).normal(size=(20, N))
    model = lambda x: x @ np.arange(1.0, N + 1)  # noqa: E731
    return shapiq.MarginalImputer(model, data, x=data[row], sample_size=20), data


def test_a_store_keeps_the_rows_of_its_imputer_apart(tmp_path):
    imputer, data = fitted_imputer(0)
    path = tmp_path / "s.sqlite"
    truth = [imputer.fit(row)(EVERY) for row in data[:3]]
    game = EvaluatedGame(imputer, batch_size=64, store=path)
    for _ in range(2):
        for row, values in zip(data, truth, strict=False):
            np.testing.assert_array_equal(game.fit(row)(EVERY), values)
        imputer.fit(data[0])  # whoever fits it
        np.testing.assert_array_equal(game(EVERY), truth[0])
    assert game.report() == EvaluationReport(evaluated=3 * 64, reused=5 * 64)
    again = EvaluatedGame(imputer, batch_size=64, store=path)
    for row, values in zip(data, truth, strict=False):
        np.testing.assert_array_equal(again.fit(row)(EVERY), values)
    assert again.report() == EvaluationReport(evaluated=15, reused=3 * 64, verified=15)


def test_a_store_keeps_the_random_states_of_its_imputer_apart(tmp_path):
    data = np.random.default_rng(0).normal(size=(20, N))
    imputer = shapiq.MarginalImputer(np.sum, data, x=data[0], sample_size=3, random_state=0)
    imputer._predict_function = lambda _, x: x.sum(axis=1)
    game = EvaluatedGame(imputer, batch_size=64, store=tmp_path / "s.sqlite")
    for _ in range(2):
        for seed in (1, 2):
            game.set_random_state(seed)
            np.testing.assert_array_equal(game(EVERY), imputer(EVERY))


def test_a_store_of_format_1_takes_one_row(tmp_path):
    imputer, data = fitted_imputer(0)
    path = tmp_path / "old.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            FORMAT_1.replace("(16, 'float64', 'game')", f"({N}, 'float64', NULL)")
        )
        connection.execute("DELETE FROM evaluated")
        connection.commit()
    for verify in (True, False):
        game = EvaluatedGame(imputer.fit(data[0]), batch_size=64, store=path, verify=verify)
        np.testing.assert_array_equal(game(EVERY), imputer(EVERY))
        with pytest.raises(StoreError, match="format 1, which holds the values of one row"):
            game.fit(data[1])(EVERY)
    with pytest.raises(StoreError, match="but this game gives"):
        EvaluatedGame(imputer, store=path)(EVERY)


def test_files_of_format_1_serve_and_continue_a_game(tmp_path):
    path = tmp_path / "old.sqlite"
    packed = [row.tobytes() for row in np.packbits(EVERY, axis=1)]
    truth = EvaluatedGame(Counting(), n=N)(EVERY)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            FORMAT_1.replace("(16, 'float64', 'game')", f"({N}, 'float64', NULL)")
        )
        connection.execute("DELETE FROM evaluated")
        rows = zip(packed[:40], truth[:40].tolist(), strict=True)
        connection.executemany("INSERT INTO evaluated VALUES (?, ?)", rows)
        connection.commit()
    before = path.read_bytes()

    game = EvaluatedGame(Counting(), n=N, store=path)
    np.testing.assert_array_equal(game(EVERY[:40]), truth[:40])
    with pytest.raises(StoreError, match="but this game gives"):
        EvaluatedGame(size_game, n=N, store=path)(EVERY)
    with pytest.raises(StoreError, match="format 1, which holds one number per coalition"):
        EvaluatedGame(three_outputs, n=N, store=path, verify=False)(EVERY[40:])
    assert path.read_bytes() == before

    np.testing.assert_array_equal(game(EVERY), truth)
    assert game.report() == EvaluationReport(evaluated=4 + 24, reused=40 + 40, verified=4)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        stored = dict(connection.execute("SELECT coalition, value FROM evaluated"))
    assert [stored[key] for key in packed] == game(EVERY).tolist()


def test_a_store_that_cannot_be_written_serves_what_it_has(tmp_path, monkeypatch):
    path = tmp_path / "s.sqlite"
    EvaluatedGame(size_game, n=N, store=path)(EVERY)
    monkeypatch.setattr(Store, "write", pytest.fail)
    np.testing.assert_array_equal(EvaluatedGame(size_game, n=N, store=path)(EVERY), SIZES)


def test_an_imputer_may_change_its_row_where_nothing_is_stored():
    imputer, data = fitted_imputer(0)
    game = EvaluatedGame(imputer)
    for row in data[:3]:
        np.testing.assert_allclose(game.fit(row)(EVERY), imputer.fit(row)(EVERY))


def test_explainers_take_an_evaluated_imputer_for_an_imputer():
    imputer, data = fitted_imputer(0)
    game = EvaluatedGame(imputer, batch_size=16)
    assert isinstance(game, EvaluatedGame)
    assert isinstance(copy.deepcopy(game), EvaluatedGame)
    arguments = {"approximator": OddSHAP(N, random_state=0), "index": "SV", "max_order": 1}
    agnostic = shapiq.AgnosticExplainer(game, **arguments)
    tabular = shapiq.TabularExplainer(imputer.model, data, imputer=game, **arguments)
    for row in data[1:4]:
        expected = row * np.arange(1, N + 1) - (data * np.arange(1, N + 1)).mean(axis=0)
        for explainer in (agnostic, tabular):
            found = explainer.explain(x=row, budget=2**N).get_n_order_values(1)
            np.testing.assert_allclose(found, expected, atol=1e-9)
    assert game.report().evaluated == 6 * 2**N


def test_a_refused_batch_keeps_its_finite_values(tmp_path):
    def game(coalitions):
        return np.where(coalitions[:, :3].all(axis=1) & ~coalitions[:, 3:].any(axis=1), np.nan, 1.0)

    evaluated = EvaluatedGame(game, n=N, batch_size=len(EVERY), store=tmp_path / "s.sqlite")
    with pytest.raises(GameValueError, match=r"1 values .* coalition \(0, 1, 2\)") as caught:
        evaluated(EVERY)
    assert "63 of 64 values are finished" in caught.value.__notes__[0]
    assert len(evaluated.store) == 63


KILLED = """
import os, signal
from functools import partial
from pathlib import Path
import numpy as np
from shapiq_oddshap import EvaluatedGame, EvaluationError

def game(coalitions, flag):
    if coalitions[0].sum() == 3 and not Path(flag).exists():
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return coalitions.sum(axis=1) + 0.0

every = (np.arange(64)[:, None] >> np.arange(6) & 1).astype(bool)

def wrapped(name, retries):
    once = partial(game, flag=name + ".flag")
    return EvaluatedGame(once, n=6, n_jobs=2, store=name + ".sqlite", retries=retries)

if __name__ == "__main__":
    lost = wrapped("lost", 0)
    try:
        lost(every)
    except EvaluationError as error:
        print(error)
    assert len(lost.store) < 64
    assert (lost(every) == every.sum(axis=1)).all()
    assert (wrapped("replaced", 1)(every) == every.sum(axis=1)).all()
"""


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL on Windows")
def test_a_killed_worker_says_how_to_go_on_or_is_replaced(tmp_path):
    (tmp_path / "killed.py").write_text(KILLED)
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "killed.py"], cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    for words in ("worker was killed", "of 64 values are finished", "lost.sqlite", "n_jobs"):
        assert words in run.stdout
    assert (tmp_path / "replaced.flag").exists()


class FitCounter:
    """A model of TabPFN's interface: it is fitted again for every coalition."""

    def __init__(self):
        self.fits = 0

    def fit(self, x, y):
        self.fits += 1
        time.sleep(0.0005)  # so that threads get in each other's way
        self.weights = np.arange(1.0, 1 + x.shape[1]) * (1 + y.mean())
        return self

    def predict(self, x):
        return x @ self.weights


DATA = np.random.default_rng(0).normal(size=(20, N))


def tabpfn_imputer():
    model = FitCounter()
    imputer = shapiq.TabPFNImputer(
        model, DATA, DATA[:, 0], x_test=DATA[:5], predict_function=FitCounter.predict
    )
    return imputer.fit(DATA[0]), model


@pytest.mark.parametrize("batch_size", ["auto", 7])
def test_an_imputer_that_refits_is_fitted_once_per_coalition(batch_size, tmp_path):
    imputer, model = tabpfn_imputer()
    coalitions = EVERY[:60]
    truth, _ = tabpfn_imputer()
    imputer.normalization_value = truth.normalization_value = 0.25
    game = EvaluatedGame(imputer, batch_size=batch_size, store=tmp_path / "s.sqlite")
    before = model.fits
    values = game(coalitions)
    assert model.fits - before == 60  # 59, since one is empty, and all features again at the end
    np.testing.assert_array_equal(values, [truth(row[None])[0] for row in coalitions])
    np.testing.assert_array_equal(model.weights, np.arange(1.0, 1 + N) * (1 + DATA[:, 0].mean()))

    imputer, model = tabpfn_imputer()
    before = model.fits
    OddSHAP(N, random_state=0).approximate(60, EvaluatedGame(imputer, batch_size=batch_size))
    assert model.fits - before == 60


def test_threads_take_turns_at_a_model_that_is_refitted():
    imputer, _ = tabpfn_imputer()
    alone = EvaluatedGame(imputer)(EVERY)
    with joblib.parallel_config(backend="threading", n_jobs=4):
        np.testing.assert_array_equal(EvaluatedGame(imputer)(EVERY), alone)


@pytest.mark.parametrize("backend", ["loky", "multiprocessing"])
def test_processes_refit_copies(backend):
    imputer, model = tabpfn_imputer()
    alone = EvaluatedGame(imputer)(EVERY)
    before = model.fits
    with joblib.parallel_config(backend=backend, n_jobs=2):
        np.testing.assert_array_equal(EvaluatedGame(imputer)(EVERY), alone)
    assert model.fits == before


# ------------------------------------------------------------------ explainers


ARGUMENTS = {"index": "SV", "max_order": 1}


def test_a_verbose_explainer_shows_a_bar_and_keeps_the_batches(capfd):
    imputer, data = fitted_imputer(0)
    sizes = []
    imputer._predict_function = lambda _, x: sizes.append(len(x)) or x.sum(axis=1)
    explainer = shapiq.TabularExplainer(
        imputer.model, data, imputer=EvaluatedGame(imputer, batch_size=64), verbose=True,
        approximator=OddSHAP(N, random_state=0), **ARGUMENTS,
    )  # fmt: skip
    explainer.explain(data[0], budget=2**N)
    assert max(sizes) >= 62
    assert "evaluations" in capfd.readouterr().err


def test_every_explainer_takes_evaluated_games(tmp_path):
    def weighted(x):
        return x @ np.arange(1.0, N + 1)

    approximator = OddSHAP(N, random_state=0)
    tabular = shapiq.TabularExplainer(
        weighted, DATA, sample_size=20, approximator=approximator, **ARGUMENTS
    )
    tabpfn = shapiq.TabPFNExplainer(
        FitCounter(), DATA, DATA[:, 0], approximator=approximator, **ARGUMENTS
    )
    agnostic = shapiq.AgnosticExplainer(
        Counting(), n_players=N, approximator=approximator, **ARGUMENTS
    )
    for number, explainer in enumerate([tabular, tabpfn, agnostic]):
        wrapped = evaluated(explainer, store=tmp_path / f"{number}.sqlite")
        assert type(wrapped) is type(explainer)
        rows = [None] if explainer is agnostic else DATA[:2]
        expected = [explainer.explain(x=row, budget=40) for row in rows]
        for _ in range(2):
            for row, values in zip(rows, expected, strict=True):
                found = wrapped.explain(x=row, budget=40)
                np.testing.assert_allclose(found.values, values.values, atol=1e-12)
        game = wrapped.game if explainer is agnostic else wrapped.imputer
        assert game.report() == EvaluationReport(evaluated=40 * len(rows), reused=40 * len(rows))
        inner = explainer.game if explainer is agnostic else explainer.imputer
        assert not isinstance(inner, EvaluatedGame)


def test_an_explainer_without_games_is_refused():
    with pytest.raises(TypeError, match="with an imputer or a game is required"):
        evaluated(object())


def test_rows_that_share_fits_are_stored_and_resumed(tmp_path):
    def explainer(model):
        return evaluated(
            shapiq.TabPFNExplainer(
                model, DATA, DATA[:, 0], approximator=OddSHAP(N, random_state=0), **ARGUMENTS
            ),
            store=tmp_path / "s.sqlite",
        )

    counts, values = [], []
    for _ in range(2):
        model = FitCounter()
        subject = explainer(model)
        before = model.fits
        values.append([each.values.values for each in explain(subject, DATA[:3], 50)])
        counts.append(model.fits - before)
    np.testing.assert_array_equal(*values)
    assert counts == [50, 5]  # 49 and all features again; five to verify the store, all last


# ------------------------------------------------------------------ several outputs


def three_outputs(coalitions):
    sizes = coalitions.sum(axis=1)
    return np.stack([sizes, np.sin(coalitions @ np.arange(1.0, N + 1)), -sizes], axis=1)


@pytest.mark.parametrize("backend", ["sequential", "loky"])
@pytest.mark.parametrize("batch_size", ["auto", 5])
def test_games_of_several_outputs(backend, batch_size, tmp_path):
    path = tmp_path / "s.sqlite"
    with joblib.parallel_config(backend=backend, n_jobs=2):
        EvaluatedGame(three_outputs, n=N, batch_size=batch_size, store=path)(EVERY[:30])
        game = EvaluatedGame(three_outputs, n=N, batch_size=batch_size, store=path)
        values = game(EVERY)
    np.testing.assert_array_equal(values, three_outputs(EVERY))
    assert game.report() == EvaluationReport(evaluated=34 + 4, reused=30, verified=4)
    with pytest.raises(StoreError, match="but this game gives"):
        EvaluatedGame(lambda c: three_outputs(c) * [1, 1, 2], n=N, store=path)(EVERY)
    with pytest.raises(StoreError, match="but this game gives"):
        EvaluatedGame(lambda c: three_outputs(c)[:, 0], n=N, store=path)(EVERY)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_all_outputs_are_estimated_through_an_evaluated_game(n_jobs, tmp_path):
    approximator = OddSHAP(N, random_state=0)
    game = EvaluatedGame(three_outputs, n=N, n_jobs=n_jobs, store=tmp_path / "s.sqlite")
    found = approximator.estimate_outputs(40, game)
    for one, other in zip(found, approximator.estimate_outputs(40, three_outputs), strict=True):
        np.testing.assert_array_equal(one.values.values, other.values.values)
    again = EvaluatedGame(three_outputs, n=N, n_jobs=n_jobs, store=tmp_path / "s.sqlite")
    more = approximator.estimate_outputs(50, again)
    for one, other in zip(more, approximator.estimate_outputs(50, three_outputs), strict=True):
        np.testing.assert_array_equal(one.values.values, other.values.values)
    assert again.report() == EvaluationReport(evaluated=10 + 5, reused=40, verified=5)
    with pytest.raises(GameValueError, match="estimate_outputs"):
        approximator.approximate(40, again)


def test_one_output_in_a_column_is_a_number(tmp_path):
    game = EvaluatedGame(lambda c: c.sum(axis=1)[:, None], n=N, store=tmp_path / "s.sqlite")
    np.testing.assert_array_equal(game(EVERY), SIZES)


def test_a_value_that_is_not_finite_names_its_output_and_keeps_the_other_coalitions(tmp_path):
    def game(coalitions):
        values = three_outputs(coalitions)
        values[coalitions[:, 3] & (coalitions.sum(axis=1) == 1), 1] = np.inf
        return values

    wrapped = EvaluatedGame(game, n=N, batch_size=64, store=tmp_path / "s.sqlite")
    with pytest.raises(GameValueError, match=r"coalition \(3,\) in output 1"):
        wrapped(EVERY)
    assert len(wrapped.store) == 63


def test_ten_thousand_outputs_are_held_twice(tmp_path):
    k = 10_000

    def game(coalitions):
        return coalitions.sum(axis=1)[:, None] * np.arange(1.0, 1 + k)

    game = EvaluatedGame(game, n=N, store=tmp_path / "s.sqlite")
    expected = SIZES[:, None] * np.arange(1.0, 1 + k)
    for _ in range(2):  # from the game, from the store
        tracemalloc.start()
        values = game(EVERY)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        np.testing.assert_array_equal(values, expected)
        assert peak < 2.25 * values.nbytes


def test_the_number_of_outputs_must_not_change():
    def game(coalitions):
        return np.zeros((len(coalitions), 2 + coalitions[0, 0]))

    with pytest.raises(GameValueError, match="2 and 3 outputs"):
        EvaluatedGame(game, n=N)(EVERY)


# ------------------------------------------------------------------ stores of other games


def test_a_store_of_another_game_is_noticed(tmp_path):
    path = tmp_path / "s.sqlite"
    EvaluatedGame(Counting(), n=N, store=path)(EVERY)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"holds .* but this game gives .*verify=False"):
        EvaluatedGame(size_game, n=N, store=path)(EVERY[:3])
    assert path.read_bytes() == before
    values = EvaluatedGame(size_game, n=N, store=path, verify=False)(EVERY)
    np.testing.assert_array_equal(values, EvaluatedGame(Counting(), n=N)(EVERY))


def test_rounding_in_the_game_is_no_mismatch(tmp_path):
    path = tmp_path / "s.sqlite"
    EvaluatedGame(size_game, n=N, store=path)(EVERY)
    EvaluatedGame(lambda c: c.sum(axis=1) * (1 + 1e-9), n=N, store=path)(EVERY)
