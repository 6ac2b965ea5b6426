"""Games of many players with known Shapley values that are no trees.

The values of all but a network are exact in closed form. Those of the network are a reference: the
mean over so many permutations, each with its reverse, that its own error, which is estimated along,
is small beside the errors that it judges.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.instance import Instance

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.instance import Values

__all__ = [
    "CLOSED_FORMS",
    "ClosedForm",
    "digits_network",
    "kernel_machine",
    "nearest_neighbours",
    "permutation_reference",
    "sparse_triples",
]

_TEST_POINTS, _NEIGHBOURS = 20, 5
_PERMUTATIONS = 20_000
"""Antithetic pairs of the digits' reference, whose own error is then far below what it judges."""
_TRIPLES = 12


@dataclass(frozen=True)
class ClosedForm:
    """A game by its recipe.

    Attributes:
        n: Number of players.
        domain: What it is a case of.
        make: Returns an instance by its number, which is its seed too, and the folder in which
            references may be kept.
        instances: How many there are.
    """

    n: int
    domain: str
    make: Callable[[int, Path | None], Instance]
    instances: int = 3


def nearest_neighbours(n: int, seed: int, _folder: Path | None = None) -> Instance:
    """Return data valuation by k nearest neighbours, exact in closed form (Jia et al., 2019).

    A training point's worth is its share in the accuracy of a 5-nearest-neighbour classifier on 20
    test points; the recursion of their theorem 1 gives the Shapley values.

    Args:
        n: Number of training points, the players.
        seed: Draws the points.
    """
    rng = np.random.default_rng([seed, n])
    centres = rng.normal(size=(2, 10))
    labels, truth = rng.integers(2, size=n), rng.integers(2, size=_TEST_POINTS)
    points = centres[labels] + 1.5 * rng.normal(size=(n, 10))
    tests = centres[truth] + 1.5 * rng.normal(size=(_TEST_POINTS, 10))
    order = np.argsort(np.linalg.norm(tests[:, None] - points, axis=2), axis=1)
    right = labels[order] == truth[:, None]

    def values(coalitions: np.ndarray) -> np.ndarray:
        total = np.zeros(len(coalitions))
        for nearest, matches in zip(order, right, strict=True):
            here = coalitions[:, nearest]
            taken = here & (np.cumsum(here, axis=1) <= _NEIGHBOURS)
            total += taken @ matches.astype(float)
        return total / (_NEIGHBOURS * _TEST_POINTS)

    shapley = np.zeros(n)
    rank = np.arange(1, n)
    for nearest, matches in zip(order, right.astype(float), strict=True):
        steps = (matches[:-1] - matches[1:]) / _NEIGHBOURS * np.minimum(_NEIGHBOURS, rank) / rank
        last = matches[-1] * min(_NEIGHBOURS, n) / (n * _NEIGHBOURS)
        shapley[nearest] += last + np.concatenate([np.cumsum(steps[::-1])[::-1], [0.0]])
    return Instance(n, values, shapley / _TEST_POINTS)


def kernel_machine(n: int, seed: int, _folder: Path | None = None) -> Instance:
    """Return a machine of radial basis functions, exact by Gauss-Legendre quadrature.

    A product kernel over the present features is a product over players, so that the Shapley value
    is an integral of a polynomial of degree n - 1.

    Args:
        n: Number of features, the players.
        seed: Draws the machine.
    """
    row, centres, weights = kernel_parameters(n, seed)
    logs = -((centres - row) ** 2) / n
    factors = np.exp(logs)

    def values(coalitions: np.ndarray) -> np.ndarray:
        result: np.ndarray = np.exp(coalitions @ logs.T) @ weights
        return result

    shapley = np.zeros(n)
    nodes, masses = np.polynomial.legendre.leggauss((n + 1) // 2 + 1)
    for node, mass in zip((nodes + 1) / 2, masses / 2, strict=True):
        mixed = 1.0 + node * (factors - 1.0)
        others = np.prod(mixed, axis=1, keepdims=True) / mixed
        shapley += mass * (weights @ (others * (factors - 1.0)))
    return Instance(n, values, shapley)


def kernel_parameters(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the explained row ``(n,)``, the centres ``(40, n)`` and their weights ``(40,)``."""
    rng = np.random.default_rng([seed, n])
    return rng.normal(size=n), rng.normal(size=(40, n)), rng.normal(size=40)


def digits_network(seed: int, folder: Path | None = None) -> Instance:
    """Return a network's score of its predicted digit, absent pixels at their means.

    Args:
        seed: Which digit is explained.
        folder: Where the reference is kept, under a name that its inputs make.
    """
    network, data = _digits()
    row, mean = data[-1 - seed], data[:1500].mean(axis=0)
    target = int(network.predict(row[None])[0])

    def values(coalitions: np.ndarray) -> np.ndarray:
        hidden = np.where(coalitions, row, mean)
        for weights, bias in zip(network.coefs_[:-1], network.intercepts_[:-1], strict=True):
            hidden = np.maximum(hidden @ weights + bias, 0.0)
        score: np.ndarray = hidden @ network.coefs_[-1][:, target] + network.intercepts_[-1][target]
        return score

    digest = hashlib.sha256(row.tobytes() + mean.tobytes())
    for array in (*network.coefs_, *network.intercepts_):
        digest.update(array.tobytes())
    name = f"digits-{target}-{_PERMUTATIONS}-{seed}-{digest.hexdigest()[:16]}.npz"
    shapley, error = _kept(
        folder and folder / name,
        lambda: permutation_reference(values, len(row), _PERMUTATIONS, seed),
    )
    return Instance(len(row), values, shapley, error)


def _kept(
    file: Path | None, compute: Callable[[], tuple[np.ndarray, float]]
) -> tuple[np.ndarray, float]:
    """Return what a file holds; compute and write it if it is not there."""
    if file is not None and file.exists():
        with np.load(file) as data:
            return data["shapley"], float(data["error"])
    shapley, error = compute()
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        whole = file.with_suffix(".tmp")  # an interruption leaves no half of a reference
        with whole.open("wb") as stream:
            np.savez(stream, shapley=shapley, error=error)
        whole.replace(file)
    return shapley, error


@lru_cache(maxsize=1)
def _digits() -> tuple[Any, np.ndarray]:
    """Return a network trained on scikit-learn's digits, and the digits."""
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    data, target = load_digits(return_X_y=True)
    data = data / 16.0
    network = MLPClassifier((64, 32), random_state=0, max_iter=300)
    return network.fit(data[:1500], target[:1500]), data


def permutation_reference(
    values: Values, n: int, pairs: int, seed: int
) -> tuple[np.ndarray, float]:
    """Return Shapley values from permutations, each with its reverse, and their mean squared error.

    The error is estimated from the spread of the pairs' contributions.
    """
    rng = np.random.default_rng([seed, n, pairs])
    total, squares, done, block = np.zeros(n), np.zeros(n), 0, 250
    while done < pairs:
        count = min(block, pairs - done)
        orders = rng.permuted(np.tile(np.arange(n), (count, 1)), axis=1)
        both = np.zeros((count, n))
        for order in (orders, orders[:, ::-1]):
            arrival = np.argsort(order, axis=1)
            prefixes = arrival[:, None, :] < np.arange(n + 1)[:, None]
            steps = np.diff(values(prefixes.reshape(-1, n)).reshape(count, n + 1), axis=1)
            both += np.take_along_axis(steps, arrival, axis=1) / 2
        total += both.sum(axis=0)
        squares += (both**2).sum(axis=0)
        done += count
    shapley = total / pairs
    return shapley, float(np.mean(squares / pairs - shapley**2) / (pairs - 1))


def sparse_triples(n: int, seed: int, _folder: Path | None = None) -> Instance:
    """Return main effects and twelve conjunctions of three players, which share their worth.

    Near two evaluations per player a regression that interpolates blows up on such games.
    """
    rng = np.random.default_rng(seed)
    main = rng.normal(size=n)
    members = [rng.choice(n, 3, replace=False) for _ in range(_TRIPLES)]
    worth = 2 * rng.normal(size=_TRIPLES)

    def values(coalitions: np.ndarray) -> np.ndarray:
        complete = np.stack([coalitions[:, players].all(axis=1) for players in members], axis=1)
        result: np.ndarray = coalitions @ main + complete @ worth
        return result

    shapley = main.copy()
    for share, players in zip(worth / 3, members, strict=True):
        shapley[players] += share
    return Instance(n, values, shapley)


CLOSED_FORMS: dict[str, ClosedForm] = {
    **{
        f"neighbours-{n}": ClosedForm(n, "nearest neighbours", partial(nearest_neighbours, n))
        for n in (50, 100, 1000)
    },
    **{
        f"kernel-machine-{n}": ClosedForm(n, "kernel machine", partial(kernel_machine, n))
        for n in (30, 60, 100)
    },
    "digits-network-64": ClosedForm(64, "network of digits", digits_network),
    **{
        f"sparse-triples-{n}": ClosedForm(n, "sparse", partial(sparse_triples, n), 40)
        for n in (20, 40)
    },
}
"""Every game by name."""
