"""Games of many players with known Shapley values that are no trees."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    Values = Callable[[np.ndarray], np.ndarray]

__all__ = [
    "CLOSED_FORMS",
    "digits_network",
    "kernel_machine",
    "nearest_neighbours",
    "permutation_reference",
    "sparse_products",
]

_TEST_POINTS, _NEIGHBOURS = 20, 5
_PERMUTATIONS = 20_000
"""Antithetic pairs of the digits' reference, whose own error is then far below what it judges."""


def nearest_neighbours(n: int, seed: int) -> tuple[Values, np.ndarray]:
    """Return data valuation by k nearest neighbours, exact in closed form (Jia et al., 2019).

    A training point's worth is its share in the accuracy of a 5-nearest-neighbour classifier on 20
    test points; the recursion of their theorem 1 gives the Shapley values.

    Args:
        n: Number of training points, the players.
        seed: Draws the points.

    Returns:
        The value function and the Shapley values.
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
    return values, shapley / _TEST_POINTS


def kernel_machine(n: int, seed: int) -> tuple[Values, np.ndarray]:
    """Return a machine of radial basis functions, exact by Gauss-Legendre quadrature.

    A product kernel over the present features is a product over players, so that the Shapley value
    is an integral of a polynomial of degree n - 1.

    Args:
        n: Number of features, the players.
        seed: Draws the machine.

    Returns:
        The value function and the Shapley values.
    """
    rng = np.random.default_rng([seed, n])
    row, centres = rng.normal(size=n), rng.normal(size=(40, n))
    factors = np.exp(-((centres - row) ** 2) / n)
    weights = rng.normal(size=40)
    logs = np.log(factors)

    def values(coalitions: np.ndarray) -> np.ndarray:
        result: np.ndarray = np.exp(coalitions @ logs.T) @ weights
        return result

    shapley = np.zeros(n)
    nodes, masses = np.polynomial.legendre.leggauss((n + 1) // 2 + 1)
    for node, mass in zip((nodes + 1) / 2, masses / 2, strict=True):
        mixed = 1.0 + node * (factors - 1.0)
        others = np.prod(mixed, axis=1, keepdims=True) / mixed
        shapley += mass * (weights @ (others * (factors - 1.0)))
    return values, shapley


def digits_network(n: int, seed: int) -> tuple[Values, np.ndarray]:
    """Return a network on the digits, absent pixels at their mean; reference by permutations.

    Args:
        n: Number of pixels, 64.
        seed: Which digit is explained.

    Returns:
        The value function, the score of the predicted class, and the Shapley values.
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

    return values, permutation_reference(values, n, _PERMUTATIONS, seed)


@lru_cache(maxsize=1)
def _digits() -> tuple[Any, np.ndarray]:
    """Return a network trained on scikit-learn's digits, and the digits."""
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    data, target = load_digits(return_X_y=True)
    data = data / 16.0
    network = MLPClassifier((64, 32), random_state=0, max_iter=300)
    return network.fit(data[:1500], target[:1500]), data


def permutation_reference(values: Values, n: int, pairs: int, seed: int) -> np.ndarray:
    """Return Shapley values from antithetic pairs of permutations, shape ``(n,)``."""
    rng = np.random.default_rng([seed, n, pairs])
    total, done, block = np.zeros(n), 0, 250
    while done < pairs:
        count = min(block, pairs - done)
        orders = rng.permuted(np.tile(np.arange(n), (count, 1)), axis=1)
        for order in (orders, orders[:, ::-1]):
            arrival = np.argsort(order, axis=1)
            prefixes = arrival[:, None, :] < np.arange(n + 1)[:, None]
            steps = np.diff(values(prefixes.reshape(-1, n)).reshape(count, n + 1), axis=1)
            total += np.bincount(order.ravel(), steps.ravel(), minlength=n)
        done += count
    return total / (2 * pairs)


def sparse_products(n: int, seed: int) -> tuple[Values, np.ndarray]:
    """Return main effects and a few products of two or three players, exact by symmetry.

    Near two evaluations per player a regression that interpolates blows up on such games.
    """
    rng = np.random.default_rng([seed, n, 7])
    main, weights = rng.normal(size=n), rng.normal(size=10)
    members = [rng.choice(n, size=size, replace=False) for size in rng.integers(2, 4, size=10)]

    def values(coalitions: np.ndarray) -> np.ndarray:
        result: np.ndarray = coalitions @ main
        for weight, players in zip(weights, members, strict=True):
            result = result + weight * coalitions[:, players].all(axis=1)
        return result

    shapley = main.copy()
    for weight, players in zip(weights, members, strict=True):
        shapley[players] += weight / len(players)
    return values, shapley


CLOSED_FORMS: dict[str, tuple[Callable[[int, int], tuple[Values, np.ndarray]], int]] = {
    **{f"neighbours-{n}": (nearest_neighbours, n) for n in (50, 100, 1000)},
    **{f"kernel-machine-{n}": (kernel_machine, n) for n in (30, 60, 100)},
    "digits-network-64": (digits_network, 64),
    **{f"sparse-{n}": (sparse_products, n) for n in (20, 40)},
}
"""The game of a number of players and a seed, and the number of players, by name."""
