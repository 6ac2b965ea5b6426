"""A sequential design: the pairs that tell the most about the Shapley values, batch by batch.

Of every size it takes as many pairs as :class:`~shapiq_oddshap.PairedCoalitionSampler` would; which
ones, it chooses among the first of that sampler's own random sequences; the first before any value
is known. So all that holds of drawn pairs by size, as the correction of the residuals, goes on to
hold nearly (``docs/odd-gp.md``).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.gp.choice import choose
from shapiq_oddshap.gp.evidence import SearchOptions, maximise_evidence, search_alone
from shapiq_oddshap.gp.kernel import Kernel
from shapiq_oddshap.gp.observations import Observations
from shapiq_oddshap.gp.parts import (
    ChangingEffects,
    Hints,
    LearningCurve,
    MainEffects,
    Product,
    SizeSteps,
)
from shapiq_oddshap.gp.posterior import Posterior
from shapiq_oddshap.null_players import PAIRS_PER_PLAYER, relevant_players
from shapiq_oddshap.sampling import (
    PairSequences,
    distinct_rows,
    drawn_pairs,
    pairs_per_size,
    player_codes,
    row_keys,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from shapiq_oddshap.gp.parts import Part

__all__ = [
    "ChoiceOptions",
    "chosen_pairs",
    "next_drawn",
    "smaller_members",
    "spread",
    "without",
]

_CANDIDATES = 5000
"""Candidates of a size at most, beside the pairs that there are: a large batch asks for more."""

_MOST_ROWS = 15_000
"""Candidates of smaller games, at most: of two games in any case, and else of those of fewest players."""

_OWN_SEARCH = SearchOptions(least_gain=0.0, little_noise=0.0)
"""How an output's own kernel is looked for: a few steps, whatever they gain and whatever noise there is."""

_BATCH_SECONDS = 2e-3
"""What a choice takes beside arithmetic."""

_SPEED = 5e9
"""Operations per second of the rest, on one thread."""


@dataclass(frozen=True)
class ChoiceOptions:
    """How pairs are chosen, and until when.

    Attributes:
        start: Pairs per player that are spread out before any value is known.
        share: A batch is such a share of the pairs that are known.
        least_batch: So many pairs a batch has at least, such as half the number of workers.
        candidates: Candidates of a size, beside ``per_seat`` for each pair of that size.
        per_seat: See ``candidates``.
        iterations: Quasi-Newton iterations of the evidence at the first choice.
        growth: The evidence is searched again where there are so many times the pairs of the last time.
        more_iterations: Iterations then, from the last optimum on.
        parts: The parts of the kernel that the choice is made by.
        size_parts: Parts of the size, which join them with many players.
        many_players: Players from which on they do.
        per_player: Pairs per player at most; later ones are drawn.
        price: Seconds that an evaluation is taken to cost at least: a batch is drawn if its choice
            takes longer than it takes to evaluate.
        most_pairs: Pairs at most; the time of a choice grows with their cube.
        few_outputs: Up to so many outputs each has a kernel of its own, near the one of all.
    """

    start: float = 0.5
    share: float = 0.2
    least_batch: int = 3
    candidates: int = 100
    per_seat: int = 20
    iterations: int = 10
    growth: float = 1.4
    more_iterations: int = 3
    parts: tuple[type[Part], ...] = (MainEffects, Product)
    size_parts: tuple[type[Part], ...] = (SizeSteps, LearningCurve, ChangingEffects)
    many_players: int = 32
    per_player: float = 5.0
    price: float = 5e-3
    most_pairs: int = 1000
    few_outputs: int = 4

    @classmethod
    def throughout(cls) -> ChoiceOptions:
        """Return options that choose as long as the matrices fit: evaluations are dear."""
        return cls(per_player=inf, price=inf)

    def kernel(self, n: int) -> Kernel:
        """Return the kernel from which the search starts."""
        more = self.size_parts if n >= self.many_players else ()
        return Kernel.start(Hints.none(n), (*self.parts, *more))

    def first_candidates(self, n: int, seats: np.ndarray) -> np.ndarray:
        """Return how many candidates of every size the first pairs are chosen of."""
        # with many players there are many sizes, and few pairs of each
        more = 0 if n >= self.many_players else self.candidates
        enough: np.ndarray = (more + self.per_seat * seats) * (seats > 0)
        return enough

    def goes_on(self, n: int, known: int, kernels: int = 1) -> bool:
        """Tell whether the pairs after so many are to be chosen, by so many kernels."""
        if known >= min(self.per_player * n, self.most_pairs):
            return False
        seats = self.batch(known)
        sizes = min(seats, n // 2)
        candidates = sizes * (self.candidates + 2 * self.per_seat * (known + seats) / n)
        search = self.more_iterations * known**2 * (known + 4 * n + 40)
        choice = candidates * ((known + seats) * (known + n) + 10 * n * min(n, 40))
        took = _BATCH_SECONDS + (search + choice) / _SPEED
        return kernels * took < 2 * seats * self.price

    def batch(self, known: int) -> int:
        """Return the number of pairs of the batch after so many."""
        return min(max(int(self.share * known), self.least_batch), self.most_pairs - known)


def chosen_pairs(
    n: int, budget: int, entropy: int, options: ChoiceOptions
) -> Generator[np.ndarray, np.ndarray, int]:
    """Ask for pairs: some that are spread out, then those that tell most, then drawn ones.

    Nothing but how many are asked for depends on the budget: with one seed the coalitions of a smaller
    budget are those that a larger one starts with.

    Args:
        n: Number of players.
        budget: Evaluations, with those of the empty and the grand coalition.
        entropy: The seed of the sizes' random sequences.
        options: How pairs are chosen.

    Yields:
        Coalitions, shape ``(2 m, n)``: pairs, a member and its complement in turn. It is sent their
        values, shape ``(2 m,)``, or ``(2 m, k)`` of several outputs.

    Returns:
        How many pairs were chosen, the first ones included.
    """
    most = 2 ** (n - 1) - 1
    wanted, start = min(budget // 2 - 1, most), min(max(int(options.start * n), 1), most)
    sequences = PairSequences(n, entropy)
    if wanted == 0 or not options.goes_on(n, start):
        pairs = drawn_pairs(n, min(wanted, PAIRS_PER_PLAYER * n), entropy)
        values = yield _with_ends(pairs)
        yield from _next_pairs(pairs, values, wanted, sequences)
        return 0
    kernel, iterations, searched = options.kernel(n), options.iterations, 0
    drawn = _Candidates(sequences)
    counts = pairs_per_size(n, start)
    first = drawn.of_sizes(options.first_candidates(n, counts))
    # all players are equal yet: of equal gains the first wins, and whole sizes come in order
    first = np.random.default_rng(entropy).permutation(first)
    pairs = spread(kernel, np.zeros((0, n), dtype=bool), first, counts)[:wanted]
    values = yield _with_ends(pairs)
    half_total = 0.5 * (values[1] - values[0])
    while len(pairs) < wanted and options.goes_on(n, len(pairs)):
        data = Observations.of(pairs, _odd(values[2:]), half_total)
        # rounded, so that the same game in other units, whose last bits differ, has the same choices
        data = replace(data, targets=_in_own_units(data.targets)).rounded()
        if data.targets.size == 0:
            break  # zeros tell nothing of what to ask next
        if len(pairs) >= options.growth * searched:
            kernel = maximise_evidence(kernel, data, SearchOptions(), iterations)[0]
            iterations, searched = options.more_iterations, len(pairs)
            kernels = _own_kernels(kernel, data, options)
        after = pairs_per_size(n, min(len(pairs) + options.batch(len(pairs)), most))
        enough = np.minimum(options.candidates + options.per_seat * after, _CANDIDATES + after)
        candidates = without(drawn.of_sizes(enough * (after > counts)), pairs)
        posteriors = [Posterior.of(each, data) for each in kernels]
        new = candidates[choose(posteriors, candidates, after - counts, wanted - len(pairs))]
        values = np.concatenate([values, (yield _members(new))])
        pairs, counts = np.concatenate([pairs, new]), after
    yield from _next_pairs(pairs, values, wanted, sequences)
    return len(pairs)


def _own_kernels(shared: Kernel, data: Observations, options: ChoiceOptions) -> list[Kernel]:
    """Return the kernels that a choice is made by: of few outputs one each, else the shared one."""
    columns = _distinct(data.targets)
    count = len(columns)
    if not 1 < count <= options.few_outputs or not options.goes_on(shared.n, data.pairs, count):
        return [shared]
    return [search_alone(shared, replace(data, targets=column), _OWN_SEARCH) for column in columns]


def _distinct(targets: np.ndarray) -> np.ndarray:
    """Return the outputs as rows, copies and negatives of each other once, ``(<= k, m)``."""
    columns = targets.reshape(len(targets), -1).T
    largest = np.abs(columns).argmax(axis=1)[:, None]
    return np.unique(columns * np.sign(np.take_along_axis(columns, largest, axis=1)), axis=0)


def _next_pairs(
    pairs: np.ndarray, values: np.ndarray, wanted: int, sequences: PairSequences
) -> Generator[np.ndarray, np.ndarray, None]:
    """Ask for drawn pairs, and for those of fewer players as soon as others are proven to be null.

    That is asked whenever the pairs have doubled. Once all coalitions of the others are known, pairs of
    all players go on to put it to the test. Where the outputs' null players differ, each pair is new to
    as many of their smaller games as can be.

    Args:
        pairs: What was asked for so far, shape ``(m, n)``.
        values: The values of ∅, of [n], and of their members.
        wanted: How many pairs there are to be.
        sequences: The sizes' random sequences.
    """
    n = pairs.shape[1]
    everyone, next_proof = np.ones(n, dtype=bool), PAIRS_PER_PLAYER * n
    while len(pairs) < wanted:
        games = []
        if len(pairs) >= next_proof:
            while next_proof <= len(pairs):  # far more may have been chosen
                next_proof *= 2
            games = _smaller_games(relevant_players(_with_ends(pairs), values))
        if len(games) > 1:
            # up to the next proof whatever is wanted: samples are nested
            new = _pairs_for_all(games, pairs, next_proof - len(pairs), sequences)
            new = new[: wanted - len(pairs)]
        elif games:
            new = _pairs_among(games[0], pairs, wanted - len(pairs), sequences)
        else:
            new = _pairs_among(everyone, pairs, min(wanted, next_proof) - len(pairs), sequences)
        if len(new):
            values = np.concatenate([values, (yield _members(new))])
            pairs = np.concatenate([pairs, new])


def _smaller_games(relevant: np.ndarray) -> list[np.ndarray]:
    """Return the players of every game that lacks some, those of fewest players first.

    Args:
        relevant: Who matters, shape ``(n,)``, or ``(k, n)`` of several outputs.
    """
    games = np.unique(np.atleast_2d(relevant), axis=0)
    order = np.argsort(games.sum(axis=1), kind="stable")
    return [players for players in games[order] if not players.all()]


def _pairs_for_all(
    games: list[np.ndarray], pairs: np.ndarray, count: int, sequences: PairSequences
) -> np.ndarray:
    """Return pairs that are new to as many games as can be, one by one.

    Args:
        games: The players of each, shape ``(n,)``.
        pairs: The pairs that are known, shape ``(m, n)``.
        count: Pairs that are wanted.
        sequences: The sizes' random sequences.

    Returns:
        So many pairs, or fewer that leave nothing unknown of any game.
    """
    games = games[: max(_MOST_ROWS // count, 2)]
    rows = distinct_rows(
        np.concatenate([_pairs_among(players, pairs, count, sequences) for players in games])
    )
    keys = np.array([_keys_among(players, rows) for players in games])
    unknown, worth = np.ones(keys.shape, dtype=bool), np.zeros(len(games))
    for game, players in enumerate(games):
        known = np.unique(_keys_among(players, pairs))
        unknown[game] = (keys[game] != 0) & ~np.isin(keys[game], known)
        # what a game lacks least of weighs most: it is the first to be known whole
        worth[game] = 1.0 / max(2 ** (int(players.sum()) - 1) - 1 - np.count_nonzero(known), 1)
    chosen: list[int] = []
    while len(chosen) < count and unknown.any():
        best = int(np.argmax(worth @ unknown))
        chosen.append(best)
        unknown &= keys != keys[:, best, None]
    return rows[chosen]


def _keys_among(players: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Return a key per pair, equal where some players' part of it is, zero where that is ∅ or all."""
    codes = player_codes(len(players)) * players
    keys = pairs @ codes
    return np.minimum(keys, codes.sum() - keys)


def _pairs_among(
    players: np.ndarray, pairs: np.ndarray, count: int, sequences: PairSequences
) -> np.ndarray:
    """Return pairs of some players that are not known yet: those that would be drawn next.

    Which of the others are there is random, the same for the same pair.

    Args:
        players: A boolean per player, shape ``(n,)``.
        pairs: The pairs that are known, shape ``(m, n)``.
        count: Pairs that are wanted.
        sequences: The random sequences of the sizes among all players.

    Returns:
        So many pairs, or all that there are if those are fewer.
    """
    n = int(players.sum())
    known = smaller_members(pairs[:, players])
    known = distinct_rows(known[known.any(axis=1)])
    counts = np.bincount(known.sum(axis=1), minlength=n // 2 + 1)
    count = min(count, 2 ** (n - 1) - 1 - len(known))
    new = np.zeros((count, len(players)), dtype=bool)
    if count == 0:
        return new
    wanted = len(known) + count

    def at_least(total: int) -> np.ndarray:
        return np.maximum(pairs_per_size(n, total), counts)

    after = at_least(wanted)
    if after.sum() > wanted:  # of some sizes there are more already
        fewer = bisect_left(range(wanted), wanted, key=lambda total: at_least(total).sum())
        after = at_least(fewer)
    new[:, players] = next_drawn(known, counts, after, sequences.among(n))
    # the high bit of an odd multiple of a sum of random numbers
    rng = np.random.default_rng([sequences.entropy, n])
    codes, factors = (rng.integers(2**64, size=len(players), dtype=np.uint64) | 1 for _ in range(2))
    others = (new @ codes)[:, None] * factors[~players]
    new[:, ~players] = others >> np.uint64(63) == 1
    return new


def smaller_members(pairs: np.ndarray) -> np.ndarray:
    """Return the smaller member of each pair, of equal ones that with the last player in it.

    So are those that are drawn.
    """
    n, sizes = pairs.shape[1], pairs.sum(axis=1)
    other = (2 * sizes > n) | ((2 * sizes == n) & ~pairs[:, -1])
    return pairs ^ other[:, None]


def spread(
    kernel: Kernel, known: np.ndarray, candidates: np.ndarray, seats: np.ndarray
) -> np.ndarray:
    """Return the candidates that tell most beside known pairs, whatever their values, in that order."""
    data = Observations.of(known, np.zeros(len(known)), 0.0)
    best: np.ndarray = candidates[
        choose([Posterior.of(kernel, data)], candidates, seats, int(seats.sum()))
    ]
    return best


class _Candidates:
    """Those of the sizes' random sequences; of a size there are more only when many more are wanted."""

    def __init__(self, sequences: PairSequences) -> None:
        """Start with none."""
        self._sequences, self._reach = sequences, dict[int, int]()

    def of_sizes(self, counts: np.ndarray) -> np.ndarray:
        """Return pairs of every size with a count, so many at least if there are, ``(m, n)``."""
        sizes = np.flatnonzero(counts).tolist()
        for size in sizes:
            if self._reach.get(size, 0) < counts[size]:
                self._reach[size] = int(1.5 * counts[size])
        return np.concatenate([self._sequences.first(size, self._reach[size]) for size in sizes])


def next_drawn(
    pairs: np.ndarray, counts: np.ndarray, after: np.ndarray, sequences: PairSequences
) -> np.ndarray:
    """Return what the sequences have next, so that there are ``after`` pairs by size."""
    found = []
    for size in np.flatnonzero(after > counts).tolist():
        # as many of these are known as there are pairs of this size at most
        rows = without(sequences.first(size, int(after[size])), pairs)
        found.append(rows[: after[size] - counts[size]])
    return np.concatenate(found)


def _members(pairs: np.ndarray) -> np.ndarray:
    """Return both members of every pair, ``(2 m, n)``."""
    return np.stack([pairs, ~pairs], axis=1).reshape(-1, pairs.shape[1])


def _with_ends(pairs: np.ndarray) -> np.ndarray:
    """Return the empty and the grand coalition, and both members of every pair, ``(2 m + 2, n)``."""
    n = pairs.shape[1]
    return np.concatenate([[[False] * n, [True] * n], _members(pairs)])


def _odd(values: np.ndarray) -> np.ndarray:
    """Return the odd component from the values of pairs, shape ``(m,)`` or ``(m, k)``."""
    return 0.5 * (values[::2] - values[1::2])


def _in_own_units(targets: np.ndarray) -> np.ndarray:
    """Return the targets of every output over their root mean square, zero ones left out."""
    largest = np.abs(targets).max(axis=0)
    if targets.ndim > 1:
        targets, largest = targets[:, largest > 0], largest[largest > 0]
        if targets.shape[1] == 1:
            targets, largest = targets[:, 0], largest[0]
    if not np.all(largest > 0):
        return np.zeros(0)
    # the maximum first: squares of huge or tiny values would leave the range of a double
    targets = targets / largest
    scaled: np.ndarray = targets / np.sqrt(np.mean(targets**2, axis=0))
    return scaled


def without(rows: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the rows that are not known."""
    if len(known) == 0:
        return rows
    keys, sorted_keys = row_keys(rows), np.sort(row_keys(known))
    place = np.minimum(np.searchsorted(sorted_keys, keys), len(known) - 1)
    return rows[sorted_keys[place] != keys]
