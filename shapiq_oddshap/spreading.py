"""Pairs that are spread out: chosen before anything is evaluated, whatever the game.

A prior in which all players are alike tells which pairs determine the Shapley values best, and no
values are needed for it (``docs/oddshap.md``). So all outputs of a game share the pairs, they are
asked for at once, and the choice is made once for every number of players: a run has it with its
players in an order of its own.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from shapiq_oddshap.choosing import next_drawn, smaller_members, spread, without
from shapiq_oddshap.gp.kernel import Kernel
from shapiq_oddshap.gp.parts import MainEffects, Product
from shapiq_oddshap.sampling import (
    PairedCoalitionSampler,
    PairSequences,
    drawn_pairs,
    pairs_per_size,
)

__all__ = ["SpreadPairSampler", "spread_pairs"]

_PER_PLAYER, _MOST_PAIRS = 10, 200
"""Pairs per player, and in all, that are chosen; later ones are drawn. The time of the choice grows with
the cube of their number."""

_MOST_PLAYERS = 100
"""Of more players all pairs are drawn, since most are nearly orthogonal to each other anyway."""

_CANDIDATES, _PER_SEAT = 50, 10
"""Candidates of a size, and for every pair of that size besides."""

_MAIN_EFFECTS, _RATE, _NOISE = 0.3, 0.3, 1e-3
"""The prior: the variance of main effects, over that of interactions; their rate; what is noise."""

_UNLIKE = 1e-2
"""By so much the rates of players differ: between equal ones, rounding would have the choice."""

_SEED = 0


class SpreadPairSampler(PairedCoalitionSampler):
    """Complementary pairs without replacement, the first of them chosen to be spread out.

    Of each size there are as many as :class:`PairedCoalitionSampler` draws whenever the number of pairs
    is a power of two, and past the chosen ones; in between, pairs that tell more come first. Samples are
    nested, and additive games are determined from 2n evaluations. The first 10n pairs (of more than 20
    players the first 200) are those that lower the posterior variance of the Shapley values most,
    under a prior in which all players are alike; which player is which is random. Of more than 100
    players all pairs are drawn.

    Examples:
        >>> sampler = SpreadPairSampler(4, random_state=0)
        >>> sampler.sample(8)
        >>> sorted(sampler.coalitions_size.tolist())
        [0, 1, 1, 2, 2, 3, 3, 4]
    """

    def _draw(self, budget: int, entropy: int) -> np.ndarray:
        if self.sizes != "auto":
            return super()._draw(budget, entropy)
        half = spread_pairs(self.n, budget // 2, entropy)
        return np.concatenate([half, ~half])


def spread_pairs(n: int, pairs: int, entropy: int) -> np.ndarray:
    """Return a member of each of so many pairs, those of a smaller number first.

    Args:
        n: Number of players.
        pairs: Number of pairs, at most ``2**(n-1) - 1``.
        entropy: The seed of the order of the players, and of the pairs that are drawn.

    Returns:
        Boolean rows, shape ``(pairs, n)``.
    """
    if n > _MOST_PLAYERS or pairs == 0:
        return drawn_pairs(n, pairs, entropy)
    stage, most = 0, _most(n)
    while _length(n, stage) < min(pairs, most):
        stage += 1
    order = np.random.default_rng([entropy, n]).permutation(n)
    chosen = smaller_members(_stage(n, stage)[:pairs, order])
    if pairs <= most:
        return chosen
    counts, after = (pairs_per_size(n, count) for count in (most, pairs))
    return np.concatenate([chosen, next_drawn(chosen, counts, after, PairSequences(n, entropy))])


def _most(n: int) -> int:
    """Return how many pairs are chosen at most."""
    return min(_PER_PLAYER * n, _MOST_PAIRS, 2 ** (n - 1) - 1)


def _length(n: int, stage: int) -> int:
    """Return how many pairs there are after a stage: each doubles them."""
    return min(2**stage, _most(n))


@cache
def _stage(n: int, stage: int) -> np.ndarray:
    """Return the pairs after a stage, shape ``(_length(n, stage), n)``."""
    if stage == 0:
        return drawn_pairs(n, 1, _SEED)
    known = _stage(n, stage - 1)
    before, after = (pairs_per_size(n, _length(n, each)) for each in (stage - 1, stage))
    seats = after - before
    sizes = np.flatnonzero(seats).tolist()
    enough = _CANDIDATES + _PER_SEAT * after
    sequences = PairSequences(n, _SEED)
    candidates = [sequences.first(size, int(enough[size])) for size in sizes]
    open_ = without(np.concatenate(candidates), known)
    return np.concatenate([known, spread(_prior(n), known, open_, seats)])


def _prior(n: int) -> Kernel:
    """Return the prior, in which players are almost alike."""
    rates = _RATE * (1.0 + _UNLIKE * np.arange(n) / n)
    return Kernel(n, (MainEffects(_MAIN_EFFECTS), Product(1.0, rates)), _NOISE)
