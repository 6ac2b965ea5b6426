"""
FFD-RD
======

Shapley values from a fractional factorial design :footcite:t:`Zhou.2025`, exact where no more than
four players interact, using :class:`~shapiq.FFDRD`.
"""

from __future__ import annotations

import numpy as np

import shapiq

N_PLAYERS = 8
feature_names = [f"x{i}" for i in range(N_PLAYERS)]

weights = np.array([0.4, 0.3, 0.2, 0.1, 0.05, -0.1, -0.2, -0.3])


def game_fun(coalitions: np.ndarray) -> np.ndarray:
    coalitions = np.atleast_2d(coalitions)
    return (coalitions @ weights) + 0.5 * coalitions[:, :4].all(axis=1)


# %%
# Approximate Shapley values
# --------------------------
# The number of evaluations follows from the number of players.

approximator = shapiq.FFDRD(n=N_PLAYERS, random_state=42)
iv = approximator.approximate(approximator.required_budget(), game_fun)
print(iv)

# %%
# Visualize the result
# --------------------

iv.plot_force(feature_names=feature_names)

# %%
# References
# ----------
# .. footbibliography::
