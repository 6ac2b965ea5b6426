"""Games that are made here: of many players, with known Shapley values, and none of them of trees.

Data valuation by nearest neighbours has a closed form (Jia et al., "Efficient task-specific data
valuation for nearest neighbor algorithms", 2019), a kernel machine whose kernel is a product over
the features an exact algorithm of shapiq's, and a sum of conjunctions its dividends. A network's
values are a reference: the mean over so many permutations, each with its reverse, that its own
error, which is estimated along, is small beside the errors that it judges.
"""

from __future__ import annotations

import hashlib
import warnings
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
    "MADE_GAMES",
    "MadeGame",
    "conjunctions",
    "neighbour_shapley",
    "neighbour_values",
    "permutation_reference",
]

_NEIGHBOURS, _TEST_POINTS = 5, 10
_CONJUNCTIONS = 12
_PERMUTATIONS = 1 << 15
"""Pairs of a permutation and its reverse behind a reference."""
_CHUNK = 128


@dataclass(frozen=True)
class MadeGame:
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


def _nearest_neighbours(n: int, index: int, _folder: Path | None) -> Instance:
    """Value images of digits for classification by the five nearest ones."""
    images, digits = _digits()
    order = np.random.default_rng(index).permutation(len(images))
    train, test = order[:n], order[-_TEST_POINTS:]
    distances = ((images[train] - images[test][:, None]) ** 2).sum(axis=2)
    nearest = np.argsort(distances, axis=1, kind="stable")
    matches = (digits[train][nearest] == digits[test][:, None]).astype(float)
    values = neighbour_values(nearest, matches, _NEIGHBOURS)
    return Instance(n, values, neighbour_shapley(nearest, matches, _NEIGHBOURS))


def neighbour_values(nearest: np.ndarray, matches: np.ndarray, k: int) -> Values:
    """Return the mean over test points of the share of the k nearest points with the right label.

    Args:
        nearest: The points by distance from each test point, shape ``(tests, n)``.
        matches: 1 where a point in that order has the test point's label, shape ``(tests, n)``.
        k: The number of neighbours; of fewer points than ``k``, each counts ``1 / k`` as well.
    """

    def values(coalitions: np.ndarray) -> np.ndarray:
        total = np.zeros(len(coalitions))
        for order, match in zip(nearest, matches, strict=True):
            present = coalitions[:, order]
            total += (present & (present.cumsum(axis=1, dtype=np.int32) <= k)) @ match
        return total / (k * len(nearest))

    return values


def neighbour_shapley(nearest: np.ndarray, matches: np.ndarray, k: int) -> np.ndarray:
    """Return the exact Shapley values of :func:`neighbour_values`, shape ``(n,)`` (theorem 1)."""
    n = nearest.shape[1]
    rank = np.arange(1, n)
    steps = (matches[:, :-1] - matches[:, 1:]) / k * np.minimum(k, rank) / rank
    last = matches[:, -1:] * min(k, n) / (k * n)
    by_rank = last + np.concatenate([np.cumsum(steps[:, ::-1], axis=1)[:, ::-1], 0 * last], axis=1)
    shapley = np.zeros_like(by_rank)
    np.put_along_axis(shapley, nearest, by_rank, axis=1)
    mean: np.ndarray = shapley.mean(axis=0)
    return mean


def _kernel_machine(n: int, index: int, _folder: Path | None) -> Instance:
    """Explain a support vector machine: breast cancer's 30 features, or a network's inputs."""
    from shapiq.explainer.product_kernel import ProductKernelComputer
    from shapiq.explainer.product_kernel.conversion import convert_svm

    machine, rows = _support_vectors(n)
    row = rows[index]
    model = convert_svm(machine)
    factors = -model.gamma * (model.X_train - row) ** 2
    computer = ProductKernelComputer(model)
    vectors = computer.compute_kernel_vectors(model.X_train, row)
    shapley = [computer.compute_shapley_value(vectors, player) for player in range(n)]
    return Instance(n, lambda c: np.exp(c @ factors.T) @ model.alpha, np.array(shapley))


@lru_cache(maxsize=2)
def _support_vectors(n: int) -> tuple[Any, np.ndarray]:
    """Return a fitted support vector machine with a radial kernel, and rows that it did not see."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import scale
    from sklearn.svm import SVC, SVR

    if n == 30:
        features, labels = load_breast_cancer(return_X_y=True)
        features = scale(features)
        return SVC().fit(features[50:], labels[50:]), features[:50]
    rng = np.random.default_rng(n)
    features = rng.normal(size=(350, n))
    target = np.tanh(features @ rng.normal(size=(n, 6)) / np.sqrt(n)) @ rng.normal(size=6)
    return SVR(epsilon=0.05).fit(features[50:], target[50:]), features[:50]


def _network(index: int, folder: Path | None) -> Instance:
    """Explain a network's probability of an image's digit; missing pixels take their means."""
    model, means, images = _digits_network()
    image = images[index]
    digit = int(model.predict(image[None])[0])

    def values(coalitions: np.ndarray) -> np.ndarray:
        probabilities: np.ndarray = model.predict_proba(np.where(coalitions, image, means))
        return probabilities[:, digit]

    digest = hashlib.sha256(image.tobytes() + means.tobytes())
    for weights in (*model.coefs_, *model.intercepts_):
        digest.update(weights.tobytes())
    name = f"digits-{_PERMUTATIONS}-{digest.hexdigest()[:16]}.npz"
    shapley, error = _kept(
        folder and folder / name,
        lambda: permutation_reference(values, len(image), _PERMUTATIONS, index),
    )
    return Instance(len(image), values, shapley, error)


@lru_cache(maxsize=1)
def _digits() -> tuple[np.ndarray, np.ndarray]:
    """Return scikit-learn's images of digits, with values of 0 to 1, and the digits."""
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    return images / 16.0, digits


@lru_cache(maxsize=1)
def _digits_network() -> tuple[Any, np.ndarray, np.ndarray]:
    """Return a network with one hidden layer, the means of the pixels, and images it did not see."""
    from sklearn.neural_network import MLPClassifier

    images, digits = _digits()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it need not converge
        model = MLPClassifier((48,), max_iter=60, random_state=0).fit(images[100:], digits[100:])
    return model, images[100:].mean(axis=0), images[:100]


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
        with file.open("wb") as stream:
            np.savez(stream, shapley=shapley, error=error)
    return shapley, error


def permutation_reference(
    values: Values, n: int, pairs: int, seed: int
) -> tuple[np.ndarray, float]:
    """Return Shapley values from permutations and their reverses, and their mean squared error.

    The error is estimated from the spread of the pairs' contributions.
    """
    rng = np.random.default_rng(seed)
    total, squares = np.zeros(n), np.zeros(n)
    sizes = np.arange(n + 1)[:, None]
    for start in range(0, pairs, _CHUNK):
        ranks = rng.permuted(np.tile(np.arange(n), (min(_CHUNK, pairs - start), 1)), axis=1)
        both = []
        for rank in (ranks, n - 1 - ranks):
            chains = (rank[:, None] < sizes).reshape(-1, n)
            marginal = np.diff(values(chains).reshape(-1, n + 1), axis=1)
            both.append(np.take_along_axis(marginal, rank, axis=1))
        means = (both[0] + both[1]) / 2
        total += means.sum(axis=0)
        squares += (means**2).sum(axis=0)
    shapley = total / pairs
    variances = (squares / pairs - shapley**2) / (pairs - 1)
    return shapley, float(variances.mean())


def conjunctions(n: int, index: int, _folder: Path | None = None) -> Instance:
    """Return main effects and twelve conjunctions of three players, whose worth they share."""
    rng = np.random.default_rng(index)
    main = rng.normal(size=n)
    members = [rng.choice(n, 3, replace=False) for _ in range(_CONJUNCTIONS)]
    worth = 2 * rng.normal(size=_CONJUNCTIONS)
    shapley = main.copy()
    for players, share in zip(members, worth / 3, strict=True):
        shapley[players] += share

    def values(coalitions: np.ndarray) -> np.ndarray:
        complete = np.stack([coalitions[:, players].all(axis=1) for players in members], axis=1)
        return coalitions @ main + complete @ worth

    return Instance(n, values, shapley)


MADE_GAMES: dict[str, MadeGame] = {
    **{
        f"neighbours-{n}": MadeGame(n, "nearest neighbours", partial(_nearest_neighbours, n))
        for n in (50, 100, 1000)
    },
    **{
        f"kernel-machine-{n}": MadeGame(n, "kernel machine", partial(_kernel_machine, n))
        for n in (30, 100)
    },
    "digits-64": MadeGame(64, "network of digits", _network),
    **{f"sparse-{n}": MadeGame(n, "sparse", partial(conjunctions, n), 40) for n in (20, 40)},
}
"""Every made game by name."""
