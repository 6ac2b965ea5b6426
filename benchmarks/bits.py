"""Compare the bits of every approximator with those of another version of the package.

``python -m benchmarks.bits FILE`` writes them if the file is not there, and otherwise compares:
it lists the answers that differ and exits with 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from shapiq_oddshap.approximators import APPROXIMATORS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Game = Callable[[np.ndarray], np.ndarray]

_SEED = 7


def network(n: int, seed: int) -> Game:
    """Return a random two-layer network, with interactions of every order."""
    rng = np.random.default_rng(seed)
    hidden, out = rng.normal(size=(n, 12)) * 1.5 / np.sqrt(n), rng.normal(size=12)
    return lambda coalitions: np.tanh(2.0 * (coalitions - 0.5) @ hidden) @ out


def products(n: int, seed: int, count: int, largest: int) -> Game:
    """Return a sum of random products of literals, as the leaves of a forest are."""
    rng = np.random.default_rng(seed)
    leaves = []
    for size in rng.integers(1, largest + 1, size=count):
        players = rng.choice(n, size=size, replace=False)
        leaves.append((rng.normal(), players, rng.random(size) < 0.5))
    return lambda coalitions: sum(
        (v * (coalitions[:, players] == wanted).all(axis=1) for v, players, wanted in leaves),
        np.zeros(len(coalitions)),
    )


def triples(n: int, seed: int, count: int) -> Game:
    """Return main effects and a few odd terms, which can be recovered exactly."""
    rng = np.random.default_rng(seed)
    terms = np.zeros((count, n))
    for term in terms:
        term[rng.choice(n, 3, replace=False)] = 1
    terms = np.concatenate([np.eye(n), terms])
    beta = rng.normal(size=len(terms))
    return lambda coalitions: (1 - 2 * (coalitions @ terms.T % 2)) @ beta


def sizes(n: int) -> Game:
    """Return a jump at the empty coalition and a learning curve."""
    return lambda coalitions: (1 - 0.5 ** coalitions.sum(axis=1)) + 0.01 * coalitions[:, n // 2]


GAMES: dict[str, tuple[int, Game, tuple[int, ...]]] = {
    "additive": (9, lambda c: c @ np.arange(9.0), (2, 20, 60, 300)),
    "constant": (9, lambda c: np.full(len(c), 3.0), (2, 20, 60, 300)),
    "network of 8": (8, network(8, 0), (17, 30, 100, 256)),
    "network of 12": (12, network(12, 1), (30, 50, 130, 1000)),
    "network of 16": (16, network(16, 2), (48, 160, 1000, 5000)),
    "network of 40": (40, network(40, 3), (60, 160, 1000, 4000)),
    "leaves of 12": (12, products(12, 0, 300, 7), (36, 120, 700, 3000)),
    "leaves of 20": (20, products(20, 1, 200, 5), (45, 200, 900, 3300)),
    "leaves of 30": (30, products(30, 2, 60, 4), (90, 300, 2000, 4500)),
    "triples of 20": (20, triples(20, 0, 15), (38, 46, 500, 2000)),
    "triples of 130": (130, triples(130, 1, 10), (262, 400, 2300, 3000)),
    "size of 14": (14, sizes(14), (42, 140, 420, 1400)),
    "large values": (10, lambda c: 1e12 + network(10, 4)(c), (22, 60, 200, 600)),
    "many pairs": (18, network(18, 5), (70, 17_000)),
}
"""Players, value function and budgets by name; the last one passes 8000 pairs."""


def answers() -> Iterator[tuple[str, str]]:
    """Yield every approximator's values, and variances where it gives any, as hexadecimal bits."""
    for name, (n, game, budgets) in tqdm(GAMES.items(), unit=" games"):
        for label, approximator in APPROXIMATORS.items():
            instance = approximator(n, random_state=_SEED)
            for budget in budgets:
                if budget < min(instance.required_budget(), 2**n):
                    continue
                parts = [instance.approximate(budget, game).values]
                if hasattr(instance, "approximate_with_variance"):
                    parts.append(instance.approximate_with_variance(budget, game)[1])
                yield f"{label}, {name}, {budget}", np.concatenate(parts).tobytes().hex()


def main() -> int:
    """Write or compare, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="the bits of the other version, as JSON")
    file: Path = parser.parse_args().file
    found = dict(answers())
    if not file.exists():
        file.write_text(json.dumps(found, indent=0))
        print(f"{len(found)} answers written to {file}.")
        return 0
    before = json.loads(file.read_text())
    different = [key for key in found.keys() | before if found.get(key) != before.get(key)]
    for key in sorted(different):
        print(f"differs: {key}")
    print(f"{len(found) - len(different)} of {len(found)} answers have the same bits.")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
