"""
What is each training point worth, by three metrics? One training serves them all
=================================================================================

The players are 24 training points, some of them mislabelled. Every coalition is trained on once, and
the model scored by accuracy, log-likelihood and area under the curve::

    python examples/three_metrics.py --budget 500
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_limits

from shapiq_oddshap import OddSHAP

N_POINTS = 24
MISLABELLED = (3, 8, 14, 20)
METRICS = ("accuracy", "log-likelihood", "area under curve")


def main() -> None:
    """Value the points by all metrics, and print who is worth least by each."""
    parser = argparse.ArgumentParser(
        description="What is each training point worth, by three metrics? One training serves them all."
    )
    parser.add_argument("--budget", type=int, default=500, help="trainings (default: 500)")
    options = parser.parse_args()
    x, y = load_breast_cancer(return_X_y=True)
    x, x_test, y, y_test = train_test_split(
        scale(x), y, train_size=N_POINTS, stratify=y, random_state=0
    )
    y[list(MISLABELLED)] ^= 1
    trainings = 0

    def train_and_score(points: np.ndarray) -> list[float]:
        nonlocal trainings
        if len(set(y[points])) < 2:  # nothing to learn from
            return [0.5, -np.log(2), 0.5]
        trainings += 1
        with threadpool_limits(1):  # for such small matrices more threads are slower
            model = LogisticRegression().fit(x[points], y[points])
            probability = model.predict_proba(x_test)[:, 1]
        return [
            accuracy_score(y_test, probability > 0.5),
            -log_loss(y_test, probability),
            roc_auc_score(y_test, probability),
        ]

    def game(coalitions: np.ndarray) -> np.ndarray:
        return np.array([train_and_score(coalition) for coalition in coalitions])

    estimates = OddSHAP(n=N_POINTS, random_state=0).estimate_outputs(options.budget, game)
    print(f"{len(METRICS)} metrics, {trainings} trainings")
    for metric, estimate in zip(METRICS, estimates, strict=True):
        worth = estimate.values.get_n_order_values(1)
        least = np.argsort(worth)[: len(MISLABELLED)]
        found = len(set(least.tolist()) & set(MISLABELLED))
        points = ", ".join(f"{point} ({worth[point]:+.4f})" for point in least)
        print(f"least by {metric}: {points}; {found} of them mislabelled")


if __name__ == "__main__":
    main()
