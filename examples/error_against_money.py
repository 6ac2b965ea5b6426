"""
Error against money: which coalitions a refitted model is fitted on
====================================================================

A feature is absent when the model was fitted without it, so that every coalition costs a fit. At
2.5 to 10 fits per feature the coalitions are chosen, each batch by what the fits before it say; the
intervals tell how far one is, without the exact values that are there to compare with here::

    python examples/error_against_money.py --output error-against-money.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shapiq_oddshap import OddGP, RefitGame


def main() -> None:
    """Explain some rows at growing numbers of fits, with chosen and with drawn coalitions."""
    parser = argparse.ArgumentParser(
        description="Error against money: which coalitions a refitted model is fitted on."
    )
    parser.add_argument("--rows", type=int, default=8, help="rows (default: 8)")
    parser.add_argument("--price", type=float, default=0.05, help="of a fit (default: 0.05)")
    parser.add_argument("--output", type=Path, help="where to save the plot")
    options = parser.parse_args()
    data = load_diabetes()
    train, test, labels, _ = train_test_split(data.data, data.target, random_state=0)
    model = make_pipeline(StandardScaler(), KNeighborsRegressor(15))
    n = train.shape[1]
    fits = RefitGame(model, train, labels, test[: options.rows])
    coalitions = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)
    table = fits(coalitions)  # all 1024 fits, once: to know the errors

    def game(rows: np.ndarray) -> np.ndarray:
        return table[rows @ (1 << np.arange(n))]

    exact = [e.values.get_n_order_values(1) for e in OddGP(n).estimate_outputs(2**n, game)]
    budgets = [25, 35, 50, 70, 100]
    errors: dict[str, list[float]] = {"auto": [], "paired": []}
    widths: list[float] = []
    print("fits  price  error of chosen  of drawn  half-width of the 90 % intervals")
    for budget in budgets:
        for design, found in errors.items():
            estimates = OddGP(n, design=design, random_state=0).estimate_outputs(budget, game)
            values = [e.values.get_n_order_values(1) for e in estimates]
            found.append(float(np.sqrt(np.mean(np.subtract(values, exact) ** 2))))
            if design == "auto":
                widths.append(1.645 * float(np.sqrt(np.mean([e.variances for e in estimates]))))
        print(
            f"{budget:4d}  {options.price * budget:5.2f}  {errors['auto'][-1]:15.3f}  "
            f"{errors['paired'][-1]:8.3f}  {widths[-1]:.3f}"
        )
    figure, axes = plt.subplots()
    money = options.price * np.array(budgets)
    axes.fill_between(money, widths, alpha=0.2, label="half-width of the 90 % intervals")
    axes.plot(money, errors["paired"], "o--", label="drawn coalitions")
    axes.plot(money, errors["auto"], "o-", label="chosen coalitions")
    axes.set(xlabel="price of the fits", ylabel="root mean squared error", yscale="log")
    axes.legend()
    if options.output:
        figure.savefig(options.output, dpi=150, bbox_inches="tight")


if __name__ == "__main__":
    main()
