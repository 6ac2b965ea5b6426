"""
A hundred rows of a refitted model, for the fits of one
=======================================================

A feature is absent when the model was fitted without it. Each fit predicts all rows, so that a row
more costs nothing but a prediction; the bill says what that saved::

    python examples/many_rows.py --rows 100 --budget 120 --output many-rows.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from shapiq_oddshap import OddGP, RefitGame, Summary


def main() -> None:
    """Explain rows of the test data, print the bill and the global explanation, and plot it."""
    parser = argparse.ArgumentParser(
        description="A hundred rows of a refitted model, for the fits of one."
    )
    parser.add_argument("--rows", type=int, default=100, help="rows (default: 100)")
    parser.add_argument("--budget", type=int, default=120, help="coalitions (default: 120)")
    parser.add_argument("--output", type=Path, help="where to save the plot")
    options = parser.parse_args()
    data = load_diabetes()
    train, test, labels, _ = train_test_split(data.data, data.target, random_state=0)
    model = HistGradientBoostingRegressor(max_iter=30, random_state=0)
    game = RefitGame(model, train, labels, test[: options.rows])
    approximator = OddGP(n=train.shape[1], random_state=0)
    estimates = approximator.estimate_outputs(options.budget, game)
    saved = (len(estimates) - 1) * game.fits
    print(f"{len(estimates)} rows: {game.fits} fits made, {saved} fits saved")
    summary = Summary.of(estimates)
    print("mean |attribution|, with the half-width of its 90 % interval")
    for feature in summary.means.argsort()[::-1]:
        error = 1.645 * summary.errors[feature]
        print(f"  {data.feature_names[feature]:4s} {summary.means[feature]:7.3f} ± {error:.3f}")
    axes = summary.plot_bar(data.feature_names)
    if options.output:
        axes.figure.savefig(options.output, dpi=150, bbox_inches="tight")


if __name__ == "__main__":
    main()
