"""
Pairs without replacement
=========================

A sampler whose larger samples contain the smaller ones, so that no evaluation is paid for twice,
using :class:`~shapiq.approximator.PairedCoalitionSampler` with :class:`~shapiq.OddSHAP`.
"""

from __future__ import annotations

import numpy as np

import shapiq
from shapiq.approximator import PairedCoalitionSampler

N_PLAYERS = 8
feature_names = [f"x{i}" for i in range(N_PLAYERS)]

weights = np.array([0.4, 0.3, 0.2, 0.1, 0.05, -0.1, -0.2, -0.3])
known: dict[bytes, float] = {}


def game_fun(coalitions: np.ndarray) -> np.ndarray:
    coalitions = np.atleast_2d(coalitions)
    values = (coalitions @ weights) + 0.5 * coalitions[:, 0] * coalitions[:, 1]
    known.update(zip([row.tobytes() for row in coalitions], values.tolist(), strict=True))
    return values


# %%
# Approximate Shapley values, then better ones
# --------------------------------------------

sampler = PairedCoalitionSampler(N_PLAYERS)
approximator = shapiq.OddSHAP(n=N_PLAYERS, sampler=sampler, random_state=42)
approximator.approximate(50, game_fun)
iv = approximator.approximate(100, game_fun)
print(f"{len(known)} different coalitions in both runs")
print(iv)

# %%
# Visualize the result
# --------------------

iv.plot_force(feature_names=feature_names)
