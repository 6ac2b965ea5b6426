"""Which coalitions are evaluated, and what each of them weighs in the regression.

Coalitions are drawn without replacement, a fixed number of every size: at small budgets more of
the smallest and the largest, at large ones equally many (the leverage scores of the linear
problem). Draws are *nested*: with one seed the sample of a smaller budget is contained in that of a
larger one, so that stored evaluations serve again.
"""

from __future__ import annotations

from functools import cache, lru_cache, partial
from math import comb
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import scipy.linalg.lapack
from scipy.special import gammaln

from shapiq_oddshap.shapiq_adapter import FilledCoalitionSampler

if TYPE_CHECKING:
    from collections.abc import Callable

    from shapiq.approximator.sampling import CoalitionSampler

__all__ = [
    "PairSequences",
    "PairedCoalitionSampler",
    "Sizes",
    "UnpairedCoalitionSampler",
    "distinct_rows",
    "drawn_pairs",
    "pairs_per_size",
    "player_codes",
    "row_keys",
    "row_weights",
    "size_weights",
]

Sizes = Literal["auto", "paper"]
"""How many coalitions of each size: more of the outer ones first, or equally many throughout."""

_LARGEST_RANK = 2**62
_MOST_CHECKED_PLAYERS = 1000
"""Beyond, fewer than one sample in a hundred has dependent pairs among its first n - 1, and drawing
and factorising n of them would be most of the cost of a small budget."""
_DENSE_PAIRS = 10
"""Pairs per player up to which the outer sizes are favoured (``docs/oddshap.md``)."""
_RANKS = 2**16
"""Ranks between two coalitions of the size that is drawn most."""
_GOLDEN_RATIO = (5**0.5 - 1) / 2


def row_keys(rows: np.ndarray) -> np.ndarray:
    """Return one sortable key per boolean row, equal exactly where the rows are.

    Args:
        rows: Boolean rows, shape ``(m, n)``.

    Returns:
        Packed bits, ``uint64`` up to 64 players and raw bytes beyond, shape ``(m,)``.
    """
    packed = np.packbits(rows, axis=1)
    if packed.shape[1] <= 8:
        padded = np.zeros((len(packed), 8), dtype=np.uint8)
        padded[:, 8 - packed.shape[1] :] = packed
        return padded.view(">u8").astype(np.uint64).ravel()
    return np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1]))).ravel()


def player_codes(n: int) -> np.ndarray:
    """Return one ``uint64`` per player, whose sums tell sets of players apart, shape ``(n,)``.

    Up to 64 players these are the bits, beyond they are random: two of a million sets then share
    a sum with a probability below 1e-7.
    """
    if n <= 64:
        return np.uint64(1) << np.arange(n, dtype=np.uint64)
    return np.random.default_rng(0).integers(2**64, size=n, dtype=np.uint64)


def distinct_rows(rows: np.ndarray) -> np.ndarray:
    """Return boolean rows of shape ``(m, n)`` each once, in the order of their first appearance."""
    return rows[np.sort(np.unique(row_keys(rows), return_index=True)[1])]


def size_weights(coalitions: np.ndarray) -> np.ndarray:
    """Spread the kernel mass 1/(s(n-s)) of every size evenly over its sampled coalitions.

    Args:
        coalitions: Boolean rows, shape ``(m, n)``.

    Returns:
        Weights, zero for the empty and the grand coalition, shape ``(m,)``.
    """
    n = coalitions.shape[1]
    sizes = coalitions.sum(axis=1)
    drawn = np.bincount(sizes, minlength=n + 1)
    mass = np.zeros(n + 1)
    inner = np.arange(1, n)
    mass[1:n] = 1.0 / (inner * (n - inner) * np.maximum(drawn[1:n], 1))
    return mass[sizes]


def row_weights(sampler: CoalitionSampler) -> np.ndarray:
    """Return the regression weights of a sampler's coalitions: Shapley kernel over inclusion rate.

    The kernel is 1/(s(n-s)C(n,s)); where a size was sampled, C(n,s) cancels against the probability
    of a coalition within its size. The two are cancelled on paper, since C(n,s) overflows near
    n = 1030.

    Args:
        sampler: Any of shapiq's coalition samplers after ``sample``.

    Returns:
        Weights, zero for the empty and the grand coalition, shape ``(n_coalitions,)``.
    """
    n, sizes = sampler.n, sampler.coalitions_size
    sampled, counter = sampler.is_coalition_sampled, sampler.coalitions_counter
    weights = np.zeros(len(sizes))
    inner = (sizes > 0) & (sizes < n)
    s = sizes[inner].astype(float)
    log_weights = np.log(counter[inner]) - np.log(s) - np.log(n - s)
    log_binomial = gammaln(n + 1) - gammaln(s + 1) - gammaln(n - s + 1)
    log_draws = np.log(sampler.coalitions_size_probability[inner] * max(counter[sampled].sum(), 1))
    weights[inner] = np.exp(log_weights - np.where(sampled[inner], log_draws, log_binomial))
    return weights


class _StratifiedCoalitionSampler(FilledCoalitionSampler):
    """Fixed counts per size, without replacement, nested over budgets."""

    pairing: bool

    def __init__(
        self, n_players: int, *, sizes: Sizes = "auto", random_state: int | None = None
    ) -> None:
        """Initialize the sampler.

        Args:
            n_players: The number of players.
            sizes: ``"auto"`` draws sizes in proportion to 1/√(s(n-s)) up to 20 evaluations per
                player and fills up to equal numbers then; ``"paper"`` draws equally many throughout.
            random_state: The seed; ``None`` takes fresh entropy.

        Raises:
            ValueError: If there is no such way to choose sizes.
        """
        self.sizes = checked_sizes(sizes)
        super().__init__(n_players, pairing_trick=self.pairing, random_state=random_state)

    def sample(self, sampling_budget: int) -> None:
        """Draw coalitions and fill the public attributes of shapiq's sampler.

        Args:
            sampling_budget: Number of distinct coalitions, at least two; what exceeds ``2**n``
                is left, as is the odd one of a paired sample.

        Raises:
            ValueError: If the budget is below two.
        """
        if sampling_budget < 2:
            msg = (
                f"Received a sampling budget of {sampling_budget}, but the empty and the grand "
                "coalition need 2. Please increase the budget."
            )
            raise ValueError(msg)
        entropy = int(self._rng.integers(2**63))
        drawn = self._draw(min(sampling_budget, 2**self.n) - 2, entropy)
        boundary = np.zeros((2, self.n), dtype=bool)
        boundary[1] = True
        self.fill(np.concatenate([boundary, drawn]))

    def _draw(self, budget: int, entropy: int) -> np.ndarray:
        raise NotImplementedError


class PairedCoalitionSampler(_StratifiedCoalitionSampler):
    """Complementary pairs without replacement, of every size (paper, Appendix C.1).

    The number drawn per size is fixed rather than random, see :func:`pairs_per_size`: sizes whose
    share reaches their population are enumerated, and the rest of the budget goes to the other
    sizes. The first n - 1 pairs are linearly independent of each other and of the grand coalition,
    so that additive games are determined from 2n evaluations. Beyond 1000 players, where that would
    cost more than a small sample, independence is left to chance, which is above 99 %.

    Examples:
        >>> sampler = PairedCoalitionSampler(4, random_state=0)
        >>> sampler.sample(8)
        >>> sampler.coalitions_size.tolist()
        [0, 4, 1, 1, 2, 3, 3, 2]
    """

    pairing = True

    def _draw(self, budget: int, entropy: int) -> np.ndarray:
        half = drawn_pairs(self.n, budget // 2, entropy, self.sizes)
        return np.concatenate([half, ~half])


class UnpairedCoalitionSampler(_StratifiedCoalitionSampler):
    """Independent coalitions without replacement, of every size: the unpaired ablation.

    Examples:
        >>> sampler = UnpairedCoalitionSampler(4, random_state=0)
        >>> sampler.sample(8)
        >>> sampler.coalitions_size.tolist()
        [0, 4, 1, 1, 2, 2, 3, 3]
    """

    pairing = False

    def _draw(self, budget: int, entropy: int) -> np.ndarray:
        share = partial(coalitions_per_size, sizes=self.sizes)
        return _draw_sizes(self.n, share, budget, entropy, paired=False)


def checked_sizes(sizes: Sizes) -> Sizes:
    """Return ``sizes`` if it is a way to choose them.

    Raises:
        ValueError: If it is not.
    """
    if sizes not in get_args(Sizes):
        msg = f"Received sizes={sizes!r}, but 'auto' or 'paper' is required."
        raise ValueError(msg)
    return sizes


def pairs_per_size(n: int, pairs: int, sizes: Sizes = "auto") -> np.ndarray:
    """Share pairs over the sizes s = 1..⌊n/2⌋, capped by the populations.

    At s = n/2 a pair holds two coalitions of that size, so this size gets half the pairs. Seats
    are given one by one (Sainte-Laguë), which never takes one back when the total grows; largest
    remainders would.

    With ``"auto"`` the first 10n pairs are shared in proportion to 1/√(s(n-s)). What a good model
    leaves over looks like white noise, and then the variance of the Shapley values that are
    estimated from it is least so. Later pairs go to the sizes that have fewest: with many pairs the
    model is what counts, and the inner sizes are where there is most to learn.

    Args:
        n: Number of players.
        pairs: Number of pairs, at most ``2**(n-1) - 1``.
        sizes: ``"paper"`` for equal shares throughout.

    Returns:
        Pairs by size, shape ``(n // 2 + 1,)``.

    Examples:
        >>> pairs_per_size(12, 24).tolist()
        [0, 6, 5, 4, 4, 3, 2]
        >>> pairs_per_size(12, 24, "paper").tolist()
        [0, 5, 4, 5, 4, 4, 2]
    """
    return _per_size(n, pairs, sizes, paired=True).copy()


def drawn_pairs(n: int, pairs: int, entropy: int, sizes: Sizes = "auto") -> np.ndarray:
    """Draw a member of each of so many pairs; see :class:`PairedCoalitionSampler`, ``(pairs, n)``."""
    share = partial(pairs_per_size, sizes=sizes)
    return _draw_sizes(n, share, pairs, entropy, paired=True)


class PairSequences:
    """Every size's own random sequence of pairs, of which nothing is drawn twice.

    Args:
        n: Number of players.
        entropy: The seed of all sequences.
    """

    def __init__(self, n: int, entropy: int) -> None:
        """Start with nothing drawn."""
        self.n, self.entropy = n, entropy
        self._of_size: dict[int, Callable[[int], np.ndarray]] = {}
        self._smaller: dict[int, PairSequences] = {}

    def among(self, n: int) -> PairSequences:
        """Return the sequences of the same seed for fewer players."""
        if n == self.n:
            return self
        return self._smaller.setdefault(n, PairSequences(n, self.entropy))

    def first(self, size: int, count: int) -> np.ndarray:
        """Return the first pairs of a size's sequence, or all there are if that is fewer.

        Args:
            size: Size of the smaller member, or n/2.
            count: Number of pairs; all of a size are in an order of their own.

        Returns:
            One member of each pair, shape ``(count, n)``.
        """
        if size not in self._of_size:
            none = np.zeros((0, self.n), dtype=bool)
            self._of_size[size] = _sequence(self.n, size, self.entropy, none, paired=True)
        return self._of_size[size](min(count, _population(self.n, size, paired=True)))


def coalitions_per_size(n: int, total: int, sizes: Sizes = "auto") -> np.ndarray:
    """Share coalitions over the sizes s = 1..n-1 as :func:`pairs_per_size` does pairs.

    Args:
        n: Number of players.
        total: Number of coalitions, at most ``2**n - 2``.
        sizes: ``"paper"`` for equal shares throughout.

    Returns:
        Coalitions by size, shape ``(n,)``.

    Examples:
        >>> coalitions_per_size(4, 9, "paper").tolist()
        [0, 3, 3, 3]
    """
    return _per_size(n, total, sizes, paired=False).copy()


@lru_cache(100)
def _per_size(n: int, total: int, sizes: Sizes, *, paired: bool) -> np.ndarray:
    """Share coalitions over the sizes, or pairs over those of their smaller members."""
    s = np.arange(1, n // 2 + 1 if paired else n)
    populations = np.array(
        [min(_population(n, k, paired=paired), total) for k in s.tolist()], dtype=np.int64
    )
    gaps = np.where(paired & (2 * s == n), 4, 2)
    counts = np.zeros(len(s), dtype=np.int64)
    if sizes == "auto" and n > 1:
        spread = np.rint(_RANKS * np.sqrt(s * (n - s) / (n - 1))).astype(np.int64)
        dense = min(total, _DENSE_PAIRS * n * (1 if paired else 2))
        counts = _share(populations, spread * gaps, dense, counts)
    return np.concatenate([[0], _share(populations, gaps, total, counts)])


def _share(caps: np.ndarray, gaps: np.ndarray, total: int, least: np.ndarray) -> np.ndarray:
    """Give ``total`` seats in order of rank, where seat j of a size has rank (j - 1/2) * gap.

    Ties go to sizes in a fixed order that is spread over all of them.

    Args:
        caps: Seats that a size has at most.
        gaps: Ranks between two seats of a size.
        total: Number of seats, at most the sum of ``caps``.
        least: Seats that each size has already, whatever their ranks; part of ``total``.
    """
    if least.sum() == total:
        return least.copy()

    def seats(rank: int) -> np.ndarray:
        return np.minimum(np.maximum((2 * rank + gaps) // (2 * gaps), least), caps)

    low, high = 0, (total + 1) * int(gaps.max(initial=1))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if seats(middle).sum() <= total else (low, middle)
    counts = seats(low)
    open_sizes = np.flatnonzero(seats(high) > counts)
    spread = np.argsort((_GOLDEN_RATIO * open_sizes) % 1.0, kind="stable")
    counts[open_sizes[spread[: total - counts.sum()]]] += 1
    return counts


def _draw_sizes(
    n: int, share: Callable[[int, int], np.ndarray], total: int, entropy: int, *, paired: bool
) -> np.ndarray:
    """Draw ``total`` coalitions as ``share`` tells, the independent ones of each size first."""
    counts, none = share(n, total).tolist(), np.zeros((0, n), dtype=bool)
    checked = n <= _MOST_CHECKED_PLAYERS
    heads = share(n, n - 1).tolist() if checked else [0] * len(counts)

    def draw(size: int, count: int) -> np.ndarray:
        return _draw_size(n, size, count, entropy, none, paired=paired) if count else none

    def whole(size: int) -> bool:
        return counts[size] == _population(n, size, paired=paired)

    drawn = [draw(size, max(pair)) for size, pair in enumerate(zip(counts, heads, strict=True))]
    # a whole population comes in another order than its random sequence
    first = [
        draw(size, head) if whole(size) else drawn[size][:head] for size, head in enumerate(heads)
    ]
    if checked and not _independent(first):
        first = _independent_heads(n, heads, draw, paired=paired)
        drawn = [
            _draw_size(n, size, count, entropy, head, paired=paired) if count else none
            for size, (count, head) in enumerate(zip(counts, first, strict=True))
        ]
    return np.concatenate([rows[:count] for rows, count in zip(drawn, counts, strict=True)])


def _draw_size(
    n: int, size: int, count: int, entropy: int, head: np.ndarray, *, paired: bool
) -> np.ndarray:
    """Return the first ``count`` coalitions of the size's own random sequence, after ``head``."""
    return _sequence(n, size, entropy, head, paired=paired)(count)


def _sequence(
    n: int, size: int, entropy: int, head: np.ndarray, *, paired: bool
) -> Callable[[int], np.ndarray]:
    """Return a source of the first so many coalitions of the size's own sequence, after ``head``.

    The sequence depends on ``entropy`` and ``size`` alone, never on the count: samples are nested.
    Paired draws at size n/2 keep to the half with the last player in it.
    """
    if 2 * size == n and paired:
        inner = _sequence(n - 1, size - 1, entropy, head[:, :-1], paired=False)
        return lambda count: np.pad(inner(count), ((0, 0), (0, 1)), constant_values=True)
    if 2 * size > n:
        smaller = _sequence(n, n - size, entropy + size, ~head, paired=False)
        return lambda count: ~smaller(count)
    population = _binomial(n, size)
    draw = _stream(n, size, population, np.random.default_rng([entropy, size]))
    rows, whole = head, np.zeros((0, n), dtype=bool)

    def first(count: int) -> np.ndarray:
        nonlocal rows, whole
        if count == population:
            whole = whole if len(whole) else _unrank(np.arange(population), n, size)
            return whole
        while len(rows) < count:
            # at least a quarter of what is there: near a full population most draws are repeats
            rows = np.concatenate([rows, draw(max(count - len(rows), len(rows) // 4))])
            rows = distinct_rows(rows)
        return rows[:count]

    return first


def _stream(
    n: int, size: int, population: int, rng: np.random.Generator
) -> Callable[[int], np.ndarray]:
    """Return a source of independent coalitions of one size whose batches join seamlessly."""
    if population < _LARGEST_RANK:
        return lambda batch: _unrank(rng.integers(population, size=batch), n, size)

    def subsets(batch: int) -> np.ndarray:
        chosen = np.argpartition(rng.random((batch, n)), size - 1, axis=1)[:, :size]
        rows = np.zeros((batch, n), dtype=bool)
        np.put_along_axis(rows, chosen, values=True, axis=1)
        return rows

    return subsets


def _unrank(ranks: np.ndarray, n: int, size: int) -> np.ndarray:
    """Return the combinations with these ranks in the combinatorial number system."""
    columns = [np.ones(n + 1, dtype=np.int64)]  # columns[k][c] = C(c, k) = Σ_{j<c} C(j, k-1)
    for _ in range(size):
        columns.append(np.concatenate([[0], np.cumsum(columns[-1][:-1])]))
    rows = np.zeros((len(ranks), n), dtype=bool)
    for k in range(size, 0, -1):
        player = np.searchsorted(columns[k], ranks, side="right") - 1
        ranks = ranks - columns[k][player]
        rows[np.arange(len(rows)), player] = True
    return rows


def _independent(heads: list[np.ndarray]) -> bool:
    """Return whether coalitions, n - 1 in all, are linearly independent with the grand one."""
    rows = np.concatenate(heads)
    signs = 1.0 - 2.0 * np.concatenate([np.ones((1, rows.shape[1]), dtype=bool), rows])
    lu, _, _ = scipy.linalg.lapack.dgetrf(signs)
    return bool(np.abs(np.diag(lu)).min() > 1e-8)


def _independent_heads(
    n: int, counts: list[int], draw: Callable[[int, int], np.ndarray], *, paired: bool
) -> list[np.ndarray]:
    """Return the first coalitions of every size: n - 1 in all, independent with the grand one.

    Random draws mostly are; where they are not, the coalition that adds nothing gives way to the
    next of its size that does. One always exists, since each size spans the whole space.
    """
    heads = []
    basis = np.full((1, n), n**-0.5)
    for size, count in enumerate(counts):
        chosen: list[np.ndarray] = []
        seen = 0
        while len(chosen) < count:
            population = _population(n, size, paired=paired)
            reach = min(2 * seen + count, population)
            # a whole population comes in another order, so that nothing of it counts as seen
            for row in draw(size, reach)[0 if reach == population else seen :]:
                rest = 1.0 - 2.0 * row
                for _ in range(2):  # twice is enough for orthogonality to rounding
                    rest = rest - basis.T @ (basis @ rest)
                length = np.linalg.norm(rest)
                if length > 1e-6 and len(chosen) < count:
                    basis = np.vstack([basis, rest / length])
                    chosen.append(row)
            seen = reach
        heads.append(np.array(chosen, dtype=bool).reshape(-1, n))
    return heads


@cache
def _binomial(n: int, k: int) -> int:
    """Return C(n, k), or any number beyond what can be drawn or ranked where it is larger."""
    k = min(k, n - k)
    return comb(n, k) if k < 64 else 2**64  # C(n, k) >= (n / k)^k >= 2^k; exact it has up to n bits


def _population(n: int, size: int, *, paired: bool) -> int:
    """Return how many coalitions, or pairs, of a size there are."""
    return _binomial(n, size) // (2 if paired and 2 * size == n else 1)
