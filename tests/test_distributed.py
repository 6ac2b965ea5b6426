"""An evaluated game on a real Dask cluster of two worker processes, one of which dies."""

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import joblib
import numpy as np
import pytest
import shapiq

from shapiq_oddshap.evaluated_game import EvaluatedGame, EvaluationError

distributed = pytest.importorskip(
    "distributed", reason="needs a Dask cluster: pip install shapiq-oddshap[distributed]"
)
ROOT = Path(__file__).parents[1]
N = 40


@pytest.fixture
def workers(tmp_path):
    """Start two worker processes on loopback, without a nanny that would restart a lost one."""
    with (
        distributed.LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address=None) as local,
        distributed.Client(local) as client,
        joblib.parallel_config(backend="dask", client=client),
        ExitStack() as stack,
    ):
        command = [sys.executable, "-m", "distributed.cli.dask_worker", local.scheduler_address]
        command += ["--no-nanny", "--no-dashboard", "--host=127.0.0.1", "--nthreads=1"]
        processes = []
        for _ in range(2):
            process = subprocess.Popen(
                [*command, "--local-directory", tmp_path / "dask"],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stderr=subprocess.DEVNULL,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            processes.append(process)
        client.wait_for_workers(2, timeout=120)
        yield processes


def make_game(folder, pause, processes=1):
    """Return a game that leaves its coalitions in a file per process, and waits for the others'."""

    def game(coalitions):
        with (folder / str(os.getpid())).open("a") as log:
            log.write("x" * len(coalitions))
        while len(list(folder.iterdir())) < processes:
            time.sleep(0.01)
        time.sleep(pause * len(coalitions))
        return np.sin(coalitions @ np.sqrt(np.arange(1.0, N + 1)))

    return game


def shapley_values(game):
    return shapiq.KernelSHAP(n=N, random_state=0).approximate(400, game).values


def kill_when_both_work(workers, folder):
    """Kill the first of the workers once both have been asked for values, in five minutes at most."""
    start = time.monotonic()
    while sum(log.stat().st_size > 20 for log in folder.iterdir()) < 2:
        if time.monotonic() > start + 300:
            return
        time.sleep(0.01)
    workers[0].kill()
    workers[0].wait()


# 64 rows of 40 players are more than Dask keeps with a task; they must not be lost with the worker
@pytest.mark.parametrize("batch_size", [64, 4])
def test_a_lost_worker_changes_nothing(workers, tmp_path, batch_size):
    logs, alone = tmp_path / "logs", tmp_path / "alone"
    logs.mkdir()
    alone.mkdir()
    game = EvaluatedGame(
        make_game(logs, 0.01, processes=2), n=N, batch_size=batch_size, store=tmp_path / "s.sqlite"
    )
    killer = Thread(target=kill_when_both_work, args=(workers, logs))
    killer.start()
    values = shapley_values(game)
    killer.join()
    assert [worker.poll() is None for worker in workers] == [False, True]
    assert {log.name for log in logs.iterdir()} == {str(worker.pid) for worker in workers}

    with joblib.parallel_config(backend="sequential"):
        serial = EvaluatedGame(make_game(alone, 0), n=N, batch_size=batch_size)
        assert values.tobytes() == shapley_values(serial).tobytes()
    assert len(game.store) == serial.report().evaluated


def test_failures_come_back_from_the_cluster(workers, tmp_path):
    def game(coalitions):
        if coalitions[:, 3].any():
            msg = "no such model"
            raise LookupError(msg)
        return coalitions.sum(axis=1)

    wrapped = EvaluatedGame(game, n=N, store=tmp_path / "s.sqlite")
    with pytest.raises(EvaluationError, match=r"no such model.*coalition \(3,\)") as failure:
        wrapped(np.eye(N, dtype=bool)[[0, 1, 2, 3]])
    assert isinstance(failure.value.__cause__, LookupError)
    assert len(wrapped.store) == 3
