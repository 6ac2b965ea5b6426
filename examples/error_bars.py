"""
Attributions with error bars
============================

Explain a model with the odd Gaussian process and plot what it knows and how well.

Grows the budget until every 90 % interval is narrow enough, then draws the largest attributions as
shapiq's bar plots do, with an interval on each::

    python examples/error_bars.py --error 0.05 --output error-bars.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import shapiq
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from shapiq_oddshap import OddGP

RED, BLUE = "#ff0d57", "#1e88e5"  # shapiq's colours of positive and negative attributions
TOP = 10


def plot(phi: np.ndarray, error: np.ndarray, names: np.ndarray) -> plt.Figure:
    """Draw the largest attributions of shape ``(n,)`` with intervals of half-width ``error``."""
    largest = np.argsort(-np.abs(phi))[:TOP][::-1]
    colours = np.where(phi[largest] > 0, RED, BLUE)
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.barh(
        names[largest], phi[largest], color=colours, xerr=error[largest], ecolor="0.2", capsize=3
    )
    axes.axvline(0, color="0.2", linewidth=0.8)
    axes.set_xlabel("attribution, with 90 % intervals")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False)
    return figure


def main() -> None:
    """Train a forest, explain a test row to the wanted precision, print and plot."""
    parser = argparse.ArgumentParser(description="Attributions with error bars.")
    parser.add_argument(
        "--error", type=float, default=0.004, help="largest half-width (default: 0.004)"
    )
    parser.add_argument("--max-budget", type=int, default=4000, help="evaluations at most")
    parser.add_argument("--output", type=Path, help="where the plot goes (default: nowhere)")
    options = parser.parse_args()
    data = load_breast_cancer()
    train, test, labels, _ = train_test_split(data.data, data.target, random_state=0)
    model = RandomForestClassifier(50, random_state=0).fit(train, labels)
    imputer = shapiq.MarginalImputer(
        lambda rows: model.predict_proba(rows)[:, 1], train[:20], x=test[:1], sample_size=20
    )
    values, variances = OddGP(n=30, random_state=0).approximate_until(
        options.error, options.max_budget, imputer
    )
    error = 1.645 * np.sqrt(variances)
    phi = values.get_n_order_values(1)
    print(f"{values.estimation_budget} evaluations, widest interval ±{error.max():.4f}")
    for player in np.argsort(-np.abs(phi))[:TOP]:
        print(f"  {data.feature_names[player]:24s} {phi[player]:+.4f} ± {error[player]:.4f}")
    figure = plot(phi, error, data.feature_names)
    if options.output:
        figure.savefig(options.output, dpi=150)


if __name__ == "__main__":
    main()
