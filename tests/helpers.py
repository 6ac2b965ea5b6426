"""Games and slow, obvious twins that several test modules share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import combinations, product
from math import comb
from pathlib import Path

import numpy as np

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def all_coalitions(n):
    """All 2ⁿ coalitions; row b holds player i where bit i of b is set."""
    return (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)


class TableGame:
    """A game whose 2ⁿ values lie in a table; counts what is asked of it."""

    def __init__(self, values):
        self.values = np.asarray(values, dtype=float)
        self.n = int(np.log2(len(self.values)))
        self.asked = []

    def __call__(self, coalitions):
        index = coalitions.astype(int) @ (1 << np.arange(self.n))
        self.asked.extend(index.tolist())
        return self.values[index]


def random_game(n, seed=0):
    return TableGame(np.random.default_rng(seed).normal(size=2**n))


def smooth_game(n, seed=0):
    """Main effects and a few interactions of order two and three: what estimators are made for."""
    rng = np.random.default_rng(seed)
    main = rng.normal(size=n)
    terms = [rng.choice(n, size=min(n, order), replace=False) for order in (2, 2, 3, 3) * 2]
    weights = rng.normal(size=len(terms))

    def game(coalitions):
        value = coalitions @ main
        for term, weight in zip(terms, weights, strict=True):
            value = value + weight * coalitions[:, term].all(axis=1)
        return value

    return game


def tree_game(n, seed):
    """A sum of random products of literals, as a forest's leaves are; too many to be found out."""
    rng = np.random.default_rng(seed)
    coalitions, values = all_coalitions(n), np.zeros(2**n)
    for _ in range(400):
        players = rng.choice(n, size=rng.integers(1, 8), replace=False)
        wanted = rng.random(len(players)) < 0.5
        values += rng.normal() * (coalitions[:, players] == wanted).all(axis=1)
    return TableGame(values)


def fourier_game(terms, coefficients):
    """Σ_T β_T χ_T(S), by the definition of χ_T."""

    def game(coalitions):
        signs = 1.0 - 2.0 * coalitions
        return sum(
            beta * np.prod(signs[:, list(term)], axis=1)
            for term, beta in zip(terms, coefficients, strict=True)
        )

    return game


def shapley_by_definition(game, n):
    """Equation 1 of the paper, one marginal contribution at a time."""
    phi = np.zeros(n)
    for player in range(n):
        others = [i for i in range(n) if i != player]
        for size in range(n):
            for members in combinations(others, size):
                without = np.zeros((1, n), dtype=bool)
                without[0, list(members)] = True
                joined = without.copy()
                joined[0, player] = True
                phi[player] += (game(joined)[0] - game(without)[0]) / (n * comb(n - 1, size))
    return phi


def interactions_by_definition(game, n, order=2):
    """Shapley interactions in the order of ``combinations``, one difference at a time."""
    out = []
    inside = np.array(list(product([False, True], repeat=order)))
    signs = (-1.0) ** (order - inside.sum(axis=1))
    for players in combinations(range(n), order):
        others = [i for i in range(n) if i not in players]
        value = 0.0
        for size in range(n - order + 1):
            for members in combinations(others, size):
                rows = np.zeros((len(inside), n), dtype=bool)
                rows[:, list(members)] = True
                rows[:, list(players)] = inside
                value += signs @ game(rows) / ((n - order + 1) * comb(n - order, size))
        out.append(value)
    return np.array(out)


def interactions_of(values, order=2):
    """The values of an order in the order of ``combinations``."""
    return np.array([values[some] for some in combinations(range(values.n_players), order)])


def phi_of(values):
    return values.get_n_order_values(1)


def peak_memory():
    """Return this process's largest resident memory so far, in bytes."""
    if sys.platform == "win32":
        from psutil import Process  # noqa: PLC0415 - comes with distributed

        return Process().memory_info().peak_wset
    import resource  # noqa: PLC0415 - not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def assert_stops_promptly(command, ready):
    """Run a script, press Ctrl-C shortly after ``ready()``, and check that it stops at once."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", *command],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # a shell that runs the tests in the background has them ignore SIGINT, and all they start
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    while process.poll() is None and not ready():
        time.sleep(0.01)
    time.sleep(0.3)
    start = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - start < 10
    assert process.returncode != 0
    assert "KeyboardInterrupt" in err
