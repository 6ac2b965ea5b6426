"""
Which part of the image speaks for which digit? All ten classes at once
=======================================================================

The players are the sixteen 2x2 blocks of a handwritten digit; absent blocks are those of the mean
image. The classifier returns the probabilities of all digits anyway, and all are explained::

    python examples/all_classes.py --row 3 --output all-classes.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from shapiq_oddshap import Estimate, OddGP

SIDE = 4
"""Blocks of an image in a row, and in a column."""


def plot(image: np.ndarray, estimates: list[Estimate]) -> plt.Figure:
    """Draw the digit, and for each class what every block adds to its probability."""
    phi = [estimate.values.get_n_order_values(1).reshape(SIDE, SIDE) for estimate in estimates]
    most = max(np.abs(each).max() for each in phi)
    figure, axes = plt.subplots(1, len(phi) + 1, figsize=(13, 1.7), layout="constrained")
    axes[0].imshow(image, cmap="gray_r")
    axes[0].set_title("image")
    for digit, (axis, each) in enumerate(zip(axes[1:], phi, strict=True)):
        axis.imshow(each, cmap="bwr", vmin=-most, vmax=most)
        axis.set_title(f"{digit}?")
    for axis in axes:
        axis.set_axis_off()
    return figure


def main() -> None:
    """Train a classifier, explain one image for all classes, print and plot."""
    parser = argparse.ArgumentParser(
        description="Which part of the image speaks for which digit? All ten classes at once."
    )
    parser.add_argument("--row", type=int, default=3, help="which image (default: 3)")
    parser.add_argument("--budget", type=int, default=200, help="evaluations (default: 200)")
    parser.add_argument("--output", type=Path, help="where to save the plot")
    options = parser.parse_args()
    data, target = load_digits(return_X_y=True)
    image, mean = data[options.row], data.mean(axis=0)
    model = LogisticRegression(max_iter=3000, C=1e-3).fit(data[1000:], target[1000:])

    def game(coalitions: np.ndarray) -> np.ndarray:
        blocks = coalitions.reshape(-1, SIDE, SIDE)
        present = blocks.repeat(2, axis=1).repeat(2, axis=2).reshape(len(coalitions), -1)
        probabilities: np.ndarray = model.predict_proba(np.where(present, image, mean))
        return probabilities

    estimates = OddGP(n=SIDE * SIDE, random_state=0).estimate_outputs(options.budget, game)
    print(f"{len(estimates)} classes, {estimates[0].diagnostics.evaluations} evaluations in all")
    for digit, estimate in enumerate(estimates):
        phi, error = estimate.values.get_n_order_values(1), 1.645 * np.sqrt(estimate.variances)
        block = int(np.argmax(np.abs(phi)))
        print(
            f"  {digit}: {phi.sum():+.3f}, block {divmod(block, SIDE)} most, "
            f"{phi[block]:+.4f} ± {error[block]:.4f}"
        )
    figure = plot(image.reshape(8, 8), estimates)
    if options.output:
        figure.savefig(options.output, dpi=150)


if __name__ == "__main__":
    main()
