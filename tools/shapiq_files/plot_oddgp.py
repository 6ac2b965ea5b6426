"""
OddGP
=====

Shapley values with intervals from a Gaussian process on the odd component of a game, using
:class:`~shapiq.OddGP`.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

import shapiq

N_PLAYERS = 8
BUDGET = 60
feature_names = [f"x{i}" for i in range(N_PLAYERS)]

weights = np.array([0.4, 0.3, 0.2, 0.1, 0.05, -0.1, -0.2, -0.3])


def game_fun(coalitions: np.ndarray) -> np.ndarray:
    coalitions = np.atleast_2d(coalitions)
    return np.tanh(coalitions @ weights) + 0.5 * coalitions[:, 0] * coalitions[:, 1]


# %%
# Approximate Shapley values and their variances
# ----------------------------------------------

approximator = shapiq.OddGP(n=N_PLAYERS, random_state=42)
iv, variances = approximator.approximate_with_variance(BUDGET, game_fun)
print(iv)

# %%
# Visualize the 90 % intervals
# ----------------------------

plt.bar(feature_names, iv.get_n_order_values(1), yerr=1.645 * np.sqrt(variances), capsize=3)
plt.ylabel("Shapley value")
plt.show()
