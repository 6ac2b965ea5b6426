"""Measure the OddSHAP of whichever shapiq is imported against its KernelSHAP, on nine predictions.

    PYTHONPATH=PATH-TO-SHAPIQ-CHECKOUT/src python tools/compare_oddshap.py

Forests on scikit-learn's diabetes and wine data and boosted trees on 14 columns of its breast cancer
data, absent features imputed from a few rows of the data, exact values by enumeration. Errors are
squared and relative to the mean square of the exact values; means over seeds, geometric means over
the games.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import shapiq
from scipy.special import betaln
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import (
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Predict = Callable[[np.ndarray], np.ndarray]
    Build = Callable[[int, int], Any]


def coalitions(n: int) -> np.ndarray:
    """Return all coalitions by their number in binary, shape ``(2**n, n)``."""
    return (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)


def table(predict: Predict, row: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Return the values of all coalitions of a row's features, shape ``(2**n,)``."""
    present = coalitions(len(row))
    values = [predict(np.where(present, row, other)) for other in background]
    return np.mean(values, axis=0)


def games() -> Iterator[np.ndarray]:
    """Yield the tables of nine games of 10, 13 and 14 players."""
    X, y = load_diabetes(return_X_y=True)
    model = RandomForestRegressor(30, random_state=0).fit(X[:300], y[:300])
    yield from (table(model.predict, X[row], X[:10]) for row in (400, 401, 402))
    X, y = load_wine(return_X_y=True)
    wine = RandomForestClassifier(30, random_state=0).fit(X, y)
    yield from (
        table(lambda x: wine.predict_proba(x)[:, 1], X[row], X[::25]) for row in (0, 80, 150)
    )
    X, y = load_breast_cancer(return_X_y=True)
    cancer = GradientBoostingClassifier(random_state=0).fit(X[:, :14], y)
    yield from (
        table(lambda x: cancer.predict_proba(x)[:, 1], X[row, :14], X[::120, :14])
        for row in (1, 50, 200)
    )


def exact(values: np.ndarray) -> np.ndarray:
    """Return the Shapley values of a table, by their definition."""
    n = int(np.log2(len(values)))
    present = coalitions(n)
    sizes = present.sum(axis=1)
    phi = np.zeros(n)
    for player in range(n):
        without = np.flatnonzero(~present[:, player])
        weights = np.exp(betaln(sizes[without] + 1, n - sizes[without]))
        phi[player] = weights @ (values[without | 1 << player] - values[without])
    return phi


def error(build: Build, values: np.ndarray, factor: int, seeds: int) -> float:
    """Return the relative squared error of an approximator at ``factor`` evaluations per player."""
    n = int(np.log2(len(values)))
    phi, bits = exact(values), 1 << np.arange(n)
    errors = []
    for seed in range(seeds):
        found = build(n, seed).approximate(
            factor * n, lambda rows: values[np.asarray(rows, dtype=int) @ bits]
        )
        errors.append(np.mean((found.get_n_order_values(1) - phi) ** 2))
    return float(np.mean(errors) / np.mean(phi**2))


def approximators() -> dict[str, Build]:
    """Return what there is to compare, by name; later patches bring more."""
    named: dict[str, Build] = {
        name: partial(_built, getattr(shapiq, name))
        for name in ("KernelSHAP", "OddSHAP", "OddGP")
        if hasattr(shapiq, name)
    }
    sampler = getattr(shapiq.approximator, "PairedCoalitionSampler", None)
    if sampler is not None:
        named["OddSHAP, pairs"] = lambda n, seed: _built(
            shapiq.OddSHAP, n, seed, sampler=sampler(n)
        )
    return named


def _built(cls: Any, n: int, seed: int, **options: Any) -> Any:  # noqa: ANN401 - whichever shapiq
    return cls(n=n, random_state=seed, **options)


def main() -> int:
    """Print a table of errors over those of KernelSHAP."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--factors", type=int, nargs="+", default=[3, 4, 6, 10, 30], help="evaluations per player"
    )
    parser.add_argument("--seeds", type=int, default=8, help="runs of each (default: 8)")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # the sampler's, of budgets that it does not use
    if not hasattr(shapiq, "OddSHAP"):
        print("error: this shapiq has no OddSHAP; 1.6 or later is needed.", file=sys.stderr)
        return 1
    every = list(games())
    print(f"shapiq {shapiq.__version__}: errors, in brackets over those of KernelSHAP")
    for factor in options.factors:
        means = {
            name: np.exp(
                np.mean([np.log(error(build, game, factor, options.seeds)) for game in every])
            )
            for name, build in approximators().items()
        }
        cells = (
            f"{name} {mean:.1e} ({mean / means['KernelSHAP']:.2f})" for name, mean in means.items()
        )
        print(f"{factor:4d} n  " + "  ".join(cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
