"""
A screener of your own
======================

A screener says which interactions the regression should hold. Knowing the game helps: here the
players are pixels in a row, and only neighbours interact. The strategy is one short class.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

from shapiq_oddshap import OddSHAP, Screener

N = 40


@dataclass(frozen=True)
class Neighbours(Screener):
    """All triples of players that stand side by side."""

    name = "neighbours"

    def screen(self, sample, max_terms, rng, *, parity):
        """Return the terms as boolean rows, shape ``(k, n)`` with ``k <= max_terms``."""
        count = min(sample.n - 2, max_terms)
        terms = np.zeros((count, sample.n), dtype=bool)
        for offset in range(3):
            terms[np.arange(count), np.arange(count) + offset] = True
        return terms


# %%
# The game: random effects of single players and of triples of neighbours. Its Shapley values are
# known, since a triple shares its effect evenly.
generator = np.random.default_rng(0)
single, triple = generator.normal(size=N), 5 * generator.normal(size=N - 2)


def game(coalitions):
    """Return the values of coalitions of shape ``(m, 40)``."""
    together = coalitions[:, :-2] & coalitions[:, 1:-1] & coalitions[:, 2:]
    return coalitions @ single + together @ triple


exact = single + sum(np.pad(triple / 3, (offset, 2 - offset)) for offset in range(3))

# %%
# 800 evaluations leave room for 80 terms: 40 players and 38 triples of neighbours fit exactly. The
# default strategy has to find the triples in the data first.
strategies = {"none": "none", "proxyspex (default)": "proxyspex", "neighbours": Neighbours()}
errors = {}
for name, screener in strategies.items():
    approximator = OddSHAP(N, screener=screener, random_state=0)
    phi = approximator.approximate(800, game).get_n_order_values(1)
    errors[name] = np.mean((phi - exact) ** 2)
    print(f"{name:20s} mean squared error {errors[name]:.1e}")

figure, axes = plt.subplots(figsize=(6, 2.4), layout="constrained")
axes.barh(list(errors), np.maximum(list(errors.values()), 1e-16), color="#1e88e5")
axes.set_xscale("log")
axes.set_xlabel("mean squared error")
