"""
Pairs that interact
===================

Which pairs of features interact, beyond doubt, and shapiq's network plot of them.

One paired sample gives the Shapley values and, from the half that these do not use, the pairwise
interactions, each with a variance. Pairs whose 90 % interval holds zero are left out of the plot::

    python examples/interactions.py --output interactions.png
"""

from __future__ import annotations

import argparse
from itertools import combinations
from pathlib import Path

import numpy as np
import shapiq
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier

from shapiq_oddshap import Estimate, OddGP

PLAYERS, BUDGET, SHOWN = 12, 300, 8


def certain(estimate: Estimate) -> shapiq.InteractionValues:
    """Return the values without the pairs whose 90 % interval holds zero."""
    values, n = estimate.values, estimate.diagnostics.n
    widths = 1.645 * np.sqrt(estimate.variances[n:])  # the pairs come after the players
    width_of = dict(zip(combinations(range(n), 2), widths, strict=True))
    kept = {
        players: value
        for players, value in values.interactions.items()
        if abs(value) > width_of.get(players, -1.0)
    }
    return shapiq.InteractionValues(
        kept,
        index=values.index,
        max_order=2,
        min_order=0,
        n_players=n,
        baseline_value=values.baseline_value,
    )


def main() -> None:
    """Train a model, explain a row of it, print and plot."""
    parser = argparse.ArgumentParser(description="Pairs that interact.")
    parser.add_argument("--output", type=Path, help="where the plot goes (default: nowhere)")
    options = parser.parse_args()
    data = load_breast_cancer()
    rows, names = data.data[:, :PLAYERS], data.feature_names[:PLAYERS].tolist()
    model = HistGradientBoostingClassifier(random_state=0).fit(rows, data.target)
    imputer = shapiq.BaselineImputer(model.decision_function, rows, x=rows[0])
    estimate = OddGP(PLAYERS, max_order=2, index="k-SII", random_state=0).estimate(BUDGET, imputer)
    values = certain(estimate)
    pairs = {players: value for players, value in values.interactions.items() if len(players) == 2}
    print(f"{estimate.diagnostics.evaluations} evaluations; {len(pairs)} of ", end="")
    print(f"{PLAYERS * (PLAYERS - 1) // 2} pairs interact beyond doubt, the strongest:")
    for players in sorted(pairs, key=lambda players: -abs(pairs[players]))[:SHOWN]:
        print(f"  {' and '.join(names[player] for player in players):40s} {pairs[players]:+.3f}")
    figure, _ = values.plot_network(feature_names=names, show=False)
    if options.output:
        figure.savefig(options.output, dpi=150, bbox_inches="tight")


if __name__ == "__main__":
    main()
