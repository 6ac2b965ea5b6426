"""
TabPFN: which approximator for which explainer
==============================================

TabPFN is explained in two ways, and the price of an evaluation decides which estimator to take.
*Refitting* fits the model again for every coalition: the odd Gaussian process, seeded, makes the most
of every fit, tells how sure it is, and one fit serves all rows. *Imputation* only predicts: there
OddSHAP takes any number of evaluations, also more than a process could hold. A small forest stands in
for TabPFN, so that the example runs anywhere::

    python examples/tabpfn_routing.py --rows 20 --fits 60 --predictions 600 --output routing.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import shapiq
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from shapiq_oddshap import OddGP, OddSHAP, explain

MOST_EVALUATIONS = 16_000  # beyond, the process would only look at a part of the pairs


class StandIn(RandomForestRegressor):
    """A model that is fitted in a moment and counts its fits; ``TabPFNRegressor()`` in earnest."""

    fits = 0

    def fit(self, X, y):
        """Fit, and count it."""
        StandIn.fits += 1
        return super().fit(X, y)


def resolved(n, *, refits, budget, random_state=0):
    """Return the approximator for an explainer of TabPFN that estimates Shapley values."""
    if refits and budget <= MOST_EVALUATIONS:
        return OddGP(n, random_state=random_state)
    return OddSHAP(n, random_state=random_state)


def main() -> None:
    """Explain rows by refitting and by imputation, print the bills, and plot a row."""
    parser = argparse.ArgumentParser(
        description="Which approximator for which explainer of TabPFN."
    )
    parser.add_argument("--rows", type=int, default=20, help="rows (default: 20)")
    parser.add_argument("--fits", type=int, default=60, help="coalitions, refitting (default: 60)")
    parser.add_argument("--predictions", type=int, default=600, help="imputation (default: 600)")
    parser.add_argument("--output", type=Path, help="where to save the plot")
    options = parser.parse_args()
    data = load_diabetes()
    train, test, labels, _ = train_test_split(data.data, data.target, random_state=0)
    n, rows = train.shape[1], test[: options.rows]
    model = StandIn(n_estimators=10, random_state=0)

    refitting = shapiq.TabPFNExplainer(
        model=model,
        data=train,
        labels=labels,
        index="SV",
        max_order=1,
        approximator=resolved(n, refits=True, budget=options.fits),
    )
    StandIn.fits = 0
    refitted = explain(refitting, rows, options.fits)
    print(f"refitting: {len(refitted)} rows by {type(refitting.approximator).__name__}")
    print(f"  {StandIn.fits} fits in all, instead of {len(rows) * options.fits}")

    model.fit(train, labels)
    imputing = shapiq.TabularExplainer(
        model=model.predict,
        data=train,
        imputer="baseline",
        index="SV",
        max_order=1,
        approximator=resolved(n, refits=False, budget=options.predictions),
    )
    StandIn.fits = 0
    imputed = explain(imputing, rows, options.predictions)
    print(f"imputation: {len(imputed)} rows by {type(imputing.approximator).__name__}")
    print(f"  {StandIn.fits} fits, {options.predictions} predictions a row")

    first, half = refitted[0], 1.645 * np.sqrt(refitted[0].variances)
    for name, phi, width, other in zip(
        data.feature_names,
        first.values.get_n_order_values(1),
        half,
        imputed[0].values.get_n_order_values(1),
        strict=True,
    ):
        print(f"  {name:4s} {phi:+8.2f} ± {width:5.2f} by refitting, {other:+8.2f} by imputation")
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    places = np.arange(n)
    axes.bar(places - 0.2, first.values.get_n_order_values(1), 0.4, yerr=half, capsize=3)
    axes.bar(places + 0.2, imputed[0].values.get_n_order_values(1), 0.4)
    axes.legend(["refitting, with 90 % intervals", "imputation"])
    axes.set_xticks(places, data.feature_names)
    axes.set_ylabel("attribution of the first row")
    axes.spines[["top", "right"]].set_visible(False)
    if options.output:
        figure.savefig(options.output, dpi=150)


if __name__ == "__main__":
    main()
