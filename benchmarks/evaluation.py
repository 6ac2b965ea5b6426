"""Time what an evaluated game promises: two workers, and a store that is already filled.

Run as ``python -m benchmarks.evaluation``; with ``--check`` it exits with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from shapiq import KernelSHAP

from shapiq_oddshap.evaluated_game import EvaluatedGame

N = 12
EVALUATIONS = 400
PAUSE = 0.02
MOST_PARALLEL = 0.6
MOST_STORED = 1.0


def slow_game(coalitions: np.ndarray) -> np.ndarray:
    """Return a value per coalition of shape ``(m, n)`` after 20 ms each."""
    time.sleep(PAUSE * len(coalitions))
    values: np.ndarray = np.sin(coalitions @ np.sqrt(np.arange(1.0, N + 1)))
    return values


def seconds(game: EvaluatedGame) -> float:
    """Return how long it takes to explain a game."""
    start = time.perf_counter()
    KernelSHAP(n=N, random_state=0).approximate(EVALUATIONS, game)
    return time.perf_counter() - start


def main() -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    check = parser.parse_args().check
    with TemporaryDirectory() as folder:
        store = Path(folder) / "game.sqlite"
        serial = seconds(EvaluatedGame(slow_game, n=N))
        # starting the processes is paid once, not for every explanation
        EvaluatedGame(slow_game, n=N, n_jobs=2)(np.eye(N, dtype=bool))
        parallel = seconds(EvaluatedGame(slow_game, n=N, n_jobs=2, store=store))
        stored = seconds(EvaluatedGame(slow_game, n=N, store=store))
    print(f"serial, {EVALUATIONS} evaluations of {PAUSE * 1000:.0f} ms: {serial:.2f} s")
    print(
        f"two workers and a store: {parallel:.2f} s, ratio {parallel / serial:.2f} (target {MOST_PARALLEL})"
    )
    print(f"store filled: {stored:.2f} s (target {MOST_STORED} s)")
    return int(check and (parallel > MOST_PARALLEL * serial or stored > MOST_STORED))


if __name__ == "__main__":
    sys.exit(main())
