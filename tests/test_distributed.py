"""An evaluated game on a real Dask cluster of two worker processes, one of which dies."""

import os
import signal
import time
from threading import Thread

import joblib
import numpy as np
import pytest
import shapiq

from shapiq_oddshap.evaluation import EvaluatedGame, EvaluationError

distributed = pytest.importorskip(
    "distributed", reason="needs a Dask cluster: pip install shapiq-oddshap[distributed]"
)
N = 40


@pytest.fixture(scope="module")
def cluster():
    """Start two worker processes on loopback."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        ) as local,
        distributed.Client(local) as client,
        joblib.parallel_config(backend="dask", client=client),
    ):
        yield client


def make_game(folder, pause):
    """Return a game that leaves its coalitions in a file per process."""

    def game(coalitions):
        with (folder / str(os.getpid())).open("a") as log:
            log.write("x" * len(coalitions))
        time.sleep(pause * len(coalitions))
        return np.sin(coalitions @ np.sqrt(np.arange(1.0, N + 1)))

    return game


def shapley_values(game):
    return shapiq.KernelSHAP(n=N, random_state=0).approximate(400, game).values


def kill_a_worker(client, folder):
    """Kill one of the workers once both have been asked for values."""
    while len([log for log in folder.iterdir() if log.stat().st_size > 20]) < 2:
        time.sleep(0.01)
    victim = next(iter(client.run(os.getpid).values()))
    os.kill(victim, signal.SIGKILL)
    (folder / "victim").write_text(str(victim))


# 64 rows of 40 players are more than Dask keeps with a task; they must not be lost with the worker
@pytest.mark.parametrize("batch_size", ["auto", 64, 4])
def test_a_lost_worker_changes_nothing(cluster, tmp_path, batch_size):
    logs, alone = tmp_path / "logs", tmp_path / "alone"
    logs.mkdir()
    alone.mkdir()
    cluster.wait_for_workers(2)
    game = EvaluatedGame(
        make_game(logs, 0.01), n=N, batch_size=batch_size, store=tmp_path / "s.sqlite"
    )
    killer = Thread(target=kill_a_worker, args=(cluster, logs))
    killer.start()
    values = shapley_values(game)
    killer.join()

    with joblib.parallel_config(backend="sequential"):
        serial = EvaluatedGame(make_game(alone, 0), n=N, batch_size=batch_size)
        assert values.tobytes() == shapley_values(serial).tobytes()
    assert (logs / "victim").read_text() in {log.name for log in logs.iterdir()}
    assert len(game.store) == serial.report().evaluated


def test_failures_come_back_from_the_cluster(cluster, tmp_path):
    def game(coalitions):
        if coalitions[:, 3].any():
            msg = "no such model"
            raise LookupError(msg)
        return coalitions.sum(axis=1)

    cluster.wait_for_workers(2)
    wrapped = EvaluatedGame(game, n=N, store=tmp_path / "s.sqlite")
    with pytest.raises(EvaluationError, match=r"no such model.*coalition \(3,\)") as failure:
        wrapped(np.eye(N, dtype=bool)[[0, 1, 2, 3]])
    assert isinstance(failure.value.__cause__, LookupError)
    assert len(wrapped.store) == 3
