"""
How many evaluations?
=====================

The error of an estimate falls with the number of evaluations, and how fast is a matter of the game
and of the estimator. Here the game is small enough to know the exact values: 12 features of a
gradient-boosted model, 4096 coalitions.
"""

import matplotlib.pyplot as plt
import numpy as np
import shapiq
from sklearn.datasets import make_regression
from sklearn.ensemble import GradientBoostingRegressor

from shapiq_oddshap import OddGP, OddSHAP

N = 12
data, target = make_regression(500, N, noise=5.0, random_state=0)
target += 20 * np.prod(data[:, :3], axis=1)
model = GradientBoostingRegressor(random_state=0).fit(data, target)
imputer = shapiq.MarginalImputer(
    model.predict, data[:20], x=data[:1], sample_size=20, random_state=0
)
every = (np.arange(2**N)[:, None] >> np.arange(N) & 1).astype(bool)
table = imputer(every)


def game(coalitions):
    """Look values up: coalition ``b`` of the table holds the players that are bits of ``b``."""
    return table[coalitions @ (1 << np.arange(N))]


exact = OddSHAP(N).approximate(2**N, game).get_n_order_values(1)

# %%
# Five seeds each. A regression follows the interactions that it can hold, the process all of them; and
# once the process sees that few of them make up the whole game, it recovers it but for rounding.
budgets = [40, 80, 160, 320, 640, 1280]
estimators = {"KernelSHAP": shapiq.KernelSHAP, "OddSHAP": OddSHAP, "OddGP": OddGP}


def mean_squared_error(estimator, budget):
    """Return the error over players and five seeds."""
    runs = [estimator(N, random_state=seed).approximate(budget, game) for seed in range(5)]
    return np.mean([(run.get_n_order_values(1) - exact) ** 2 for run in runs])


figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for name, estimator in estimators.items():
    errors = [mean_squared_error(estimator, budget) for budget in budgets]
    axes.loglog(budgets, np.maximum(errors, 1e-12), marker="o", label=name)
axes.set_xlabel("evaluations")
axes.set_ylabel("mean squared error, 1e-12 at least")
axes.grid(alpha=0.3)
axes.legend()
