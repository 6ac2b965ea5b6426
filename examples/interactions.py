"""Pairwise interactions with error bars: shapiq's network plot, the certain pairs drawn strong.

python examples/interactions.py --output interactions.png
"""

from __future__ import annotations

import argparse
from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import numpy as np
import shapiq
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier

from shapiq_oddshap import OddGP

BUDGET = 300
PLAYERS = 12
SHOWN = 8


def certain(estimate: shapiq.InteractionValues, variances: np.ndarray) -> shapiq.InteractionValues:
    """Return the values with those pairs alone whose 90 % interval leaves out zero."""
    n = estimate.n_players
    deviations = dict(zip(combinations(range(n), 2), np.sqrt(variances[n:]), strict=True))
    kept = {
        players: value
        for players, value in estimate.interactions.items()
        if len(players) < 2 or abs(value) > 1.645 * deviations[players]
    }
    return shapiq.InteractionValues(
        values=kept,
        index="k-SII",
        max_order=2,
        min_order=0,
        n_players=n,
        estimation_budget=estimate.estimation_budget,
        baseline_value=estimate.baseline_value,
    )


def main() -> None:
    """Explain one prediction and draw it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("interactions.png"))
    output = parser.parse_args().output
    mpl.use("Agg")

    bunch = load_breast_cancer()
    data, names = bunch.data[:, :PLAYERS], [str(name) for name in bunch.feature_names[:PLAYERS]]
    model = HistGradientBoostingClassifier(random_state=0).fit(data, bunch.target)
    imputer = shapiq.BaselineImputer(model.decision_function, data, x=data[0], normalize=False)
    approximator = OddGP(PLAYERS, max_order=2, index="k-SII", random_state=0)
    estimate = approximator.estimate(BUDGET, imputer)
    values = certain(estimate.values, estimate.variances)
    pairs = sum(len(players) == 2 for players in values.interactions)
    print(
        f"{estimate.diagnostics.evaluations} evaluations; {pairs} of {PLAYERS * (PLAYERS - 1) // 2} "
        "pairs are certain to interact, the strongest:"
    )
    strongest = sorted(values.interactions.items(), key=lambda item: -abs(item[1]))
    for players, value in [item for item in strongest if len(item[0]) == 2][:SHOWN]:
        print(f"  {names[players[0]]} and {names[players[1]]}: {value:+.3f}")
    figure, _ = values.plot_network(feature_names=names, show=False)
    figure.savefig(output, dpi=150, bbox_inches="tight")
    print(f"Written to {output}.")


if __name__ == "__main__":
    main()
