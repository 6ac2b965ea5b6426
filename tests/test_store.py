"""The file behind an evaluated game: refusals, kills and sharing."""

import json
import math
import os
import pickle
import re
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapiq_oddshap import EvaluatedGame, OddSHAP
from shapiq_oddshap.evaluation import GameValueError
from shapiq_oddshap.store import Store, StoreError

ROOT = Path(__file__).parents[1]


def bits(value):
    return struct.pack("<d", value)


@pytest.fixture
def filled(tmp_path):
    """Return the path of a store that is large enough to be truncated in many ways."""
    path = tmp_path / "filled.sqlite"
    Store(path, n=16, key="game").write({struct.pack("<H", i): i / 7 for i in range(2000)})
    return path


def run_script(script, *arguments):
    """Run a script that can import the package, and return what it printed."""
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=120,
    ).stdout


# ------------------------------------------------------------------ what goes in comes out


@settings(deadline=None)
@given(st.dictionaries(st.binary(min_size=2, max_size=2), st.floats(allow_nan=False)))
def test_values_come_back_bit_for_bit(tmp_path_factory, values):
    store = Store(tmp_path_factory.mktemp("s") / "s.sqlite", n=16)
    store.write(values)
    found = store.read(values)
    assert {key: bits(value) for key, value in found.items()} == {
        key: bits(value) for key, value in values.items()
    }


@pytest.mark.parametrize("value", [-0.0, 3.0, 5e-324, math.nextafter(1, 2), 1.7e308, 2.0**53])
def test_values_that_sqlite_might_convert(tmp_path, value):
    store = Store(tmp_path / "s.sqlite", n=1)
    store.write({b"\x80": value})
    assert bits(store.read([b"\x80"])[b"\x80"]) == bits(value)


def test_the_first_value_of_a_coalition_stays(tmp_path):
    store = Store(tmp_path / "s.sqlite", n=1)
    store.write({b"a": 1.0})
    store.write({b"a": 2.0, b"b": 3.0})
    assert store.read([b"a", b"b", b"c"]) == {b"a": 1.0, b"b": 3.0}


def test_a_writer_commits_everything_even_if_it_is_left_by_an_exception(tmp_path):
    store = Store(tmp_path / "s.sqlite", n=16)

    def interrupted():
        with store.writer() as write:
            for i in range(300):
                write({struct.pack("<H", i): i / 7})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(store) == 300


def test_a_commit_that_fails_is_noticed(filled):
    store = Store(filled, n=16, key="game")
    filled.unlink()

    def write_one():
        with store.writer() as write:
            write({b"aa": 1.0})

    with pytest.raises(StoreError, match="cannot be written to"):
        write_one()


def test_many_coalitions_are_read_at_once(filled):
    store = Store(filled, n=16, key="game")
    assert len(store) == len(store.read([struct.pack("<H", i) for i in range(5000)])) == 2000


def test_telling_coalitions_are_those_of_unusual_values(tmp_path):
    store = Store(tmp_path / "s.sqlite", n=4)
    assert store.telling(b"\xf0", 3) == ({}, 0.0)
    assert store.sample() is None
    common = {bytes([key]): 0.0 for key in range(8)} | {bytes([8 + key]): 0.5 for key in range(4)}
    rare = {b"\xf0": 0.9, b"\x20": 1.0, b"\x30": 0.6, b"\x40": -2.0}
    store.write(common | rare)
    found, largest = store.telling(b"\xf0", 3)
    assert found == rare
    assert largest == 2.0
    assert store.sample() == (b"\x40", -2.0, 2.0)
    assert set(store.telling(b"\xf0", 5)[0].values()) == {0.9, 1.0, 0.6, -2.0, 0.5, 0.0}


def test_the_empty_coalition_tells_nothing(tmp_path):
    store = Store(tmp_path / "s.sqlite", n=4)
    store.write({b"\x00": 9.0, b"\x10": 1.0, b"\x20": 2.0})
    assert store.telling(b"\xf0", 5) == ({b"\x10": 1.0, b"\x20": 2.0}, 9.0)


# ------------------------------------------------------------------ several outputs, rows, formats


@settings(deadline=None)
@given(
    st.dictionaries(
        st.binary(min_size=2, max_size=2),
        st.lists(st.floats(allow_nan=False), min_size=3, max_size=3),
    )
)
def test_the_values_of_several_outputs_come_back_bit_for_bit(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("s") / "s.sqlite"
    Store(path, n=16).write({key: np.array(row) for key, row in rows.items()})
    found = Store(path, n=16).read(rows)
    assert {key: value.tobytes() for key, value in found.items()} == {
        key: np.array(row).tobytes() for key, row in rows.items()
    }


def test_rows_are_kept_apart(tmp_path):
    store = Store(tmp_path / "s.sqlite", n=4)
    store.write({b"\x10": 1.0, b"\x20": 3.0}, b"first")
    with store.writer(b"second") as write:
        write({b"\x10": np.array([2.0, -8.0])})
    assert store.read([b"\x10"]) == {}
    assert store.read([b"\x10"], b"first") == {b"\x10": 1.0}
    np.testing.assert_array_equal(store.read([b"\x10"], b"second")[b"\x10"], [2.0, -8.0])
    assert store.telling(b"\xf0", 9, b"first") == ({b"\x10": 1.0, b"\x20": 3.0}, 3.0)
    np.testing.assert_array_equal(store.telling(b"\xf0", 9, b"second")[1], [2.0, 8.0])
    assert len(store) == 3


FORMAT_1 = f"""
    PRAGMA application_id = {int.from_bytes(b"OdSh", "big")};
    PRAGMA user_version = 1;
    CREATE TABLE identity (n INTEGER NOT NULL, dtype TEXT NOT NULL, key TEXT);
    CREATE TABLE evaluated (coalition BLOB PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
    INSERT INTO identity VALUES (16, 'float64', 'game');
    INSERT INTO evaluated VALUES (x'0100', 0.5), (x'ffff', -0.0);
"""


def test_files_of_format_1_are_read_and_continued_as_ever(tmp_path):
    path = tmp_path / "old.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FORMAT_1)
    before = path.read_bytes()
    store = Store(path, n=16, key="game")
    assert store.read([b"\1\0", b"\2\0"], b"any row") == {b"\1\0": 0.5}
    assert bits(store.read([b"\xff\xff"])[b"\xff\xff"]) == bits(-0.0)
    assert store.telling(b"\xff\xff", 3)[0].keys() == {b"\1\0", b"\xff\xff"}
    with pytest.raises(StoreError, match="one number per coalition"):
        store.write({b"\2\0": np.zeros(2)})
    assert path.read_bytes() == before
    store.write({b"\2\0": 3.0})
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("SELECT COUNT(*) FROM evaluated").fetchone() == (3,)


def test_a_store_is_one_file_and_only_a_path(filled, monkeypatch, tmp_path):
    store = Store(filled, n=16, key="game")
    monkeypatch.chdir(filled.parent)
    relative = Store(filled.name, n=16, key="game")
    monkeypatch.chdir("/")
    assert len(relative) == len(pickle.loads(pickle.dumps(store))) == 2000
    assert [path.name for path in tmp_path.iterdir()] == ["filled.sqlite"]


def test_a_path_may_hold_any_characters(tmp_path):
    forbidden = "" if os.name == "nt" else '?*:"<>|'
    path = tmp_path / f"50% of #&é{forbidden}.sqlite"
    Store(path, n=3).write({b"a": 1.0})
    assert len(Store(path, n=3)) == 1


def test_a_file_that_cannot_be_written_can_be_read(filled):
    filled.chmod(0o400)
    assert len(Store(filled, n=16, key="game")) == 2000


# ------------------------------------------------------------------ refusals


def truncate(path, size):
    path.write_bytes(path.read_bytes()[:size])


def overwrite(path, start, content):
    data = bytearray(path.read_bytes())
    data[start : start + len(content)] = content
    path.write_bytes(data)


def another_program(path):
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE evaluated (coalition, value)")


DAMAGES = {
    "empty": (lambda path: truncate(path, 0), "not an SQLite file"),
    "50 bytes": (lambda path: truncate(path, 50), "not an SQLite file"),
    "100 bytes": (lambda path: truncate(path, 100), "truncated or damaged"),
    "one page": (lambda path: truncate(path, 4096), "truncated or damaged"),
    "half": (lambda path: truncate(path, path.stat().st_size // 2), "truncated or damaged"),
    "one byte less": (lambda path: truncate(path, path.stat().st_size - 1), "truncated or dam"),
    "a page lost": (lambda path: overwrite(path, 3 * 4096, bytes(4096)), "truncated or damaged"),
    "text": (lambda path: path.write_text("coalition,value\n" * 100), "not an SQLite file"),
    "pickle": (lambda path: path.write_bytes(pickle.dumps([0.5] * 99)), "not an SQLite file"),
    "another program": (another_program, "SQLite file of another program"),
    "another format": (lambda path: overwrite(path, 60, b"\0\0\0\3"), "store format 3"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_unusable_files_are_refused_and_left_as_they_are(filled, damage):
    spoil, reason = DAMAGES[damage]
    spoil(filled)
    before = {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in filled.parent.iterdir()}
    with pytest.raises(
        StoreError,
        match=f"(?s){re.escape(str(filled))}.*{reason}.*left untouched: give another path",
    ):
        Store(filled, n=16, key="game")
    after = {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in filled.parent.iterdir()}
    assert after == before


def test_folders_are_refused(tmp_path):
    with pytest.raises(StoreError, match="is a folder"):
        Store(tmp_path, n=3)
    with pytest.raises(StoreError, match="missing is no folder"):
        Store(tmp_path / "missing" / "s.sqlite", n=3)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 3.0}, "n=3.0, but an integer"),
        ({"n": 3, "key": 3}, "key=3, but a string"),
        ({"n": 3, "key": ("a", 1)}, "key=.*, but a string"),
    ],
)
def test_options_of_the_wrong_type_are_refused(options, message, tmp_path):
    with pytest.raises(TypeError, match=message):
        Store(tmp_path / "s.sqlite", **options)
    assert not list(tmp_path.iterdir())


def test_numpys_integers_and_strings_are_ours(tmp_path):
    Store(tmp_path / "s.sqlite", n=np.int64(3), key=np.str_("game")).write({b"\x20": 1.0})
    assert len(Store(tmp_path / "s.sqlite", n=3, key="game")) == 1


@pytest.mark.parametrize(("n", "key"), [(15, "game"), (16, "another"), (16, None)])
def test_another_game_is_refused(filled, n, key):
    before = filled.read_bytes()
    with pytest.raises(StoreError, match=r"\(16, 'float64', 'game'\), but this one has"):
        Store(filled, n=n, key=key)
    assert filled.read_bytes() == before


def test_a_vanished_file_is_not_made_anew(filled):
    store = Store(filled, n=16, key="game")
    filled.unlink()
    with pytest.raises(StoreError, match="cannot be written to: unable to open"):
        store.write({b"ab": 1.0})
    assert not filled.exists()


# ------------------------------------------------------------------ kills and sharing

GAME = """
import json, os, random, signal, sys, time
import numpy as np
from shapiq_oddshap import EvaluatedGame, PairedAllSHAP

outputs = int(sys.argv[2])

def make_game(log, pause):
    def game(coalitions):
        time.sleep(pause)
        with open(log, "a") as file:
            file.write("".join(row.tobytes().hex() + "\\n" for row in np.packbits(coalitions, axis=1)))
        values = np.sin(coalitions @ np.sqrt(np.arange(1.0, 13)))
        return values if outputs == 1 else values[:, None] * np.arange(1.0, 1 + outputs)
    return game

def shapley_values(game, budget=250, seed=0):
    estimates = PairedAllSHAP(n=12, random_state=seed).estimate_outputs(budget, game)
    return np.stack([estimate.values.values for estimate in estimates])

def fork(work, *arguments):
    child = os.fork()
    if child == 0:
        work(*arguments)
        os._exit(0)
    return child
"""

KILLS = """
from shapiq_oddshap.store import Store
folder = sys.argv[1]
path = f"{folder}/s.sqlite"

def work(log):
    shapley_values(EvaluatedGame(make_game(log, 0.004), n=12, store=path, key="kill"))

moments = random.Random(0)
for attempt in range(20):
    log, evaluations = f"{folder}/{attempt}.log", moments.randrange(16)
    child = fork(work, log)
    while evaluations and not (os.path.exists(log) and len(open(log).readlines()) > evaluations):
        time.sleep(0.001)
    time.sleep(moments.uniform(0, 0.01))  # anywhere in an evaluation or a commit
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    every = np.arange(2**12)[:, None] >> np.arange(12) & 1
    names = [row.tobytes() for row in np.packbits(every, axis=1)]
    stored = Store(path, n=12, key="kill").read(names)
    with open(f"{folder}/{attempt}.stored", "w") as file:
        json.dump({name.hex(): np.asarray(value).tobytes().hex() for name, value in stored.items()}, file)
game = EvaluatedGame(make_game(f"{folder}/final.log", 0), n=12, store=path, key="kill")
resumed = shapley_values(game)
undisturbed = shapley_values(EvaluatedGame(make_game(f"{folder}/undisturbed.log", 0), n=12))
print(json.dumps([resumed.tobytes().hex(), undisturbed.tobytes().hex()]))
"""

SHARED = """
folder = sys.argv[1]
path = f"{folder}/s.sqlite"

def work(name, seed, store):
    game = EvaluatedGame(make_game(f"{folder}/{name}.log", 0.001), n=12, store=store)
    np.save(f"{folder}/{name}.npy", shapley_values(game, seed=seed))

children = [fork(work, f"shared{seed}", seed, path) for seed in (0, 1)]
children += [fork(work, f"alone{seed}", seed, None) for seed in (0, 1)]
print(json.dumps([os.waitpid(child, 0)[1] for child in children]))
"""

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="starts its processes by os.fork")


@needs_fork
@pytest.mark.parametrize("outputs", [1, 3])
def test_twenty_kills_lose_nothing_that_was_committed(tmp_path, outputs):
    resumed, undisturbed = json.loads(run_script(GAME + KILLS, tmp_path, outputs))
    assert resumed == undisturbed  # bit for bit

    asked = [
        set(log.read_text().split()) if (log := tmp_path / f"{name}.log").exists() else set()
        for name in [*range(20), "final"]
    ]
    stored = [json.loads((tmp_path / f"{attempt}.stored").read_text()) for attempt in range(20)]
    for before, after in pairwise(stored):
        assert before.items() <= after.items()
    for before, again in zip(stored, asked[1:], strict=True):
        assert len(before.keys() & again) <= 5  # those that verify the store
    # at most what was being evaluated or committed at the kill is lost
    assert median(len(one - now.keys()) for one, now in zip(asked, stored, strict=False)) <= 5
    needed = len((tmp_path / "undisturbed.log").read_text().split())
    assert len(stored[-1]) < needed  # every kill hit an unfinished run


@needs_fork
def test_two_processes_share_a_file(tmp_path):
    assert json.loads(run_script(GAME + SHARED, tmp_path, 2)) == [0, 0, 0, 0]
    for seed in (0, 1):
        shared, alone = (np.load(tmp_path / f"{name}{seed}.npy") for name in ("shared", "alone"))
        assert shared.tobytes() == alone.tobytes()
    asked = [set((tmp_path / f"shared{seed}.log").read_text().split()) for seed in (0, 1)]
    assert len(Store(tmp_path / "s.sqlite", n=12)) == len(asked[0] | asked[1])


def outputs_game(*columns):
    return lambda coalitions: np.stack([column(coalitions) for column in columns], axis=1)


def test_a_small_output_beside_a_large_one_tells_another_game(tmp_path):
    path, approximator = tmp_path / "s.sqlite", OddSHAP(8, random_state=0)
    large = lambda z: 1e10 * (1.0 + z @ np.arange(8.0))  # noqa: E731
    small = lambda z: np.sin(z @ np.arange(1.0, 9.0))  # noqa: E731
    other = lambda z: np.cos(z @ np.arange(1.0, 9.0))  # noqa: E731
    first = EvaluatedGame(outputs_game(large, small), n=8, store=path)
    approximator.estimate_outputs(60, first)
    with pytest.raises(StoreError, match="this game gives"):
        approximator.estimate_outputs(
            60, EvaluatedGame(outputs_game(large, other), n=8, store=path)
        )


def test_classes_that_sum_to_one_tell_another_model(tmp_path):
    def classes(slope):
        def game(z):
            wave = np.round(64 * np.abs(np.sin(z @ np.arange(1, 9) * slope))) / 64
            first = np.where(z.all(axis=1), 0.75, np.where(z.sum(axis=1) <= 2, 0.5, wave))
            return np.stack([first, 1.0 - first], axis=1)

        return game

    path, approximator = tmp_path / "s.sqlite", OddSHAP(8, random_state=0)
    approximator.estimate_outputs(60, EvaluatedGame(classes(1.0), n=8, store=path))
    with pytest.raises(StoreError, match="this game gives"):
        approximator.estimate_outputs(60, EvaluatedGame(classes(2.0), n=8, store=path))


def test_rows_of_another_number_of_outputs_are_not_stored(tmp_path):
    path, broken = tmp_path / "s.sqlite", True

    def game(z):
        size = 2 if broken and z.sum() == 3 else 3
        return np.tile(z.sum(axis=1, keepdims=True), size).astype(float)

    approximator = OddSHAP(8, random_state=0)
    with pytest.raises(GameValueError, match="2 and 3 outputs"):
        approximator.estimate_outputs(60, EvaluatedGame(game, n=8, store=path))
    broken = False
    mended = EvaluatedGame(game, n=8, store=path)
    assert len(approximator.estimate_outputs(60, mended)) == 3
    assert mended.report().reused > 0


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write to any file")
def test_a_read_only_file_is_refused_before_anything_is_paid_for(tmp_path):
    path, approximator = tmp_path / "s.sqlite", OddSHAP(8, random_state=0)
    approximator.estimate(40, EvaluatedGame(lambda z: z.sum(axis=1), n=8, store=path))
    path.chmod(0o444)
    game = EvaluatedGame(lambda z: z.sum(axis=1), n=8, store=path)
    approximator.estimate(40, game)
    with pytest.raises(StoreError, match="cannot be written to"):
        approximator.estimate(80, game)


def test_a_failing_write_names_the_file(tmp_path, monkeypatch):
    store = Store(tmp_path / "s.sqlite", n=4)

    def refuse(*_args, **_options):
        raise sqlite3.OperationalError("attempt to write a readonly database")

    monkeypatch.setattr(sqlite3, "connect", refuse)
    with pytest.raises(StoreError, match="s.sqlite cannot be written to: attempt to write a read"):
        store.write({b"\x10": 1.0})
