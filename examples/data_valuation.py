"""
What is each training point worth? Retraining a model, killed and resumed
=========================================================================

The players are 30 training points, some of them mislabelled; the value of a coalition is the
log-likelihood of held-out data under a model that is really trained on it. A first process is
killed after a third of the evaluations, a second one takes up where it stopped, and a third one
spends a larger budget. None evaluates again what is stored::

    python examples/data_valuation.py --budget 400 --store valuation.sqlite --jobs 2
"""

from __future__ import annotations

import argparse
import time
from multiprocessing import Process
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_limits

from shapiq_oddshap import OddSHAP
from shapiq_oddshap.evaluated_game import EvaluatedGame

N_POINTS = 30
MISLABELLED = (3, 8, 14, 21, 27)


class DataValuation:
    """The game of the training points: how well does a model do that has only these?"""

    def __init__(self) -> None:
        """Load the data and spoil some of the labels."""
        x, y = load_breast_cancer(return_X_y=True)
        self.x, self.x_test, self.y, self.y_test = train_test_split(
            scale(x), y, train_size=N_POINTS, stratify=y, random_state=0
        )
        self.y[list(MISLABELLED)] ^= 1

    def __call__(self, coalitions: np.ndarray) -> np.ndarray:
        """Return the mean log-likelihood of the test data for coalitions of shape ``(m, 30)``."""
        return np.array([self.train_and_score(coalition) for coalition in coalitions])

    def train_and_score(self, points: np.ndarray) -> float:
        """Train on some of the points; without both classes there is nothing to learn from."""
        if len(set(self.y[points])) < 2:
            return -np.log(2)
        with threadpool_limits(1):  # for such small matrices more threads are slower
            model = LogisticRegression().fit(self.x[points], self.y[points])
            return -log_loss(self.y_test, model.predict_proba(self.x_test))


def valuation(store: Path, jobs: int, *, progress: bool = True) -> EvaluatedGame:
    """Return the game with its store; the key tells it from other games of 30 players."""
    return EvaluatedGame(
        DataValuation(),
        n=N_POINTS,
        n_jobs=jobs,
        progress=progress,
        store=store,
        key="breast cancer, logistic regression, seed 0",
    )


def run(budget: int, store: Path, jobs: int) -> np.ndarray:
    """Estimate the value of every point and say what it took."""
    game = valuation(store, jobs)
    values = OddSHAP(n=N_POINTS, random_state=0).approximate(budget, game).get_n_order_values(1)
    print(f"budget {budget}: {game.report()}")
    return values


def run_and_kill(budget: int, store: Path) -> None:
    """Start the same in a process of its own and kill it after a third of the evaluations."""
    stored = valuation(store, 1, progress=False).store
    victim = Process(target=run, args=(budget, store, 1))  # workers of its own would survive it
    victim.start()
    while victim.is_alive() and len(stored) < budget // 3:
        time.sleep(0.01)
    victim.kill()
    victim.join()
    print(f"budget {budget}: killed when {len(stored)} values were stored")


def draw(values: np.ndarray) -> None:
    """Draw the worth of every point, from the least to the greatest."""
    order = np.argsort(values)
    colours = np.where(np.isin(order, MISLABELLED), "#ff0d57", "#1e88e5")
    _, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    axes.bar(np.arange(N_POINTS), values[order], color=colours, tick_label=order)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlabel("training point (red: mislabelled)")
    axes.set_ylabel("worth, log-likelihood")


def main() -> None:
    """Run, kill, resume and extend the valuation, and print who is worth what."""
    parser = argparse.ArgumentParser(description="Retraining a model, killed and resumed.")
    parser.add_argument("--budget", type=int, default=400, help="evaluations (default: 400)")
    parser.add_argument("--store", type=Path, help="file to keep values in (default: temporary)")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes (default: 1)")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        store = options.store or Path(folder) / "valuation.sqlite"
        run_and_kill(options.budget, store)
        run(options.budget, store, options.jobs)
        values = run(2 * options.budget, store, options.jobs)
    print("the points of least value:")
    for point in np.argsort(values)[: len(MISLABELLED)]:
        remark = "mislabelled" if point in MISLABELLED else ""
        print(f"  {point:2} {values[point]:+.4f} {remark}".rstrip())
    draw(values)


if __name__ == "__main__":
    main()
