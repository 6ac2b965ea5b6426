"""Which coalitions are evaluated, and what each of them weighs in the regression.

The sizes get equally many coalitions (the leverage scores of the linear problem), drawn without
replacement. Draws are *nested*: with one seed the sample of a smaller budget is contained in that
of a larger one, so that stored evaluations serve again.
"""

from __future__ import annotations

from functools import cache
from math import comb, log2
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg.lapack
from scipy.special import gammaln

from shapiq_oddshap.shapiq_adapter import FilledCoalitionSampler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shapiq.approximator.sampling import CoalitionSampler

__all__ = [
    "PairedCoalitionSampler",
    "UnpairedCoalitionSampler",
    "distinct_rows",
    "row_keys",
    "row_weights",
    "size_weights",
]

_LARGEST_RANK = 2**62
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
    """Fixed and equal counts per size, without replacement, nested over budgets."""

    pairing: bool

    def __init__(self, n_players: int, *, random_state: int | None = None) -> None:
        """Initialize the sampler.

        Args:
            n_players: The number of players.
            random_state: The seed; ``None`` takes fresh entropy.
        """
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
    """Complementary pairs without replacement, equally many per size (paper, Appendix C.1).

    The number drawn per size is fixed rather than random: sizes whose share reaches their
    population are enumerated, and the rest of the budget goes to the other sizes. The first
    n - 1 pairs are linearly independent of each other and of the grand coalition, so that additive
    games are determined from 2n evaluations.

    Examples:
        >>> sampler = PairedCoalitionSampler(4, random_state=0)
        >>> sampler.sample(8)
        >>> sampler.coalitions_size.tolist()
        [0, 4, 1, 1, 2, 3, 3, 2]
    """

    pairing = True

    def _draw(self, budget: int, entropy: int) -> np.ndarray:
        half = _draw_sizes(self.n, pairs_per_size, budget // 2, entropy, paired=True)
        return np.concatenate([half, ~half])


class UnpairedCoalitionSampler(_StratifiedCoalitionSampler):
    """Independent coalitions without replacement, equally many per size: the unpaired ablation.

    Examples:
        >>> sampler = UnpairedCoalitionSampler(4, random_state=0)
        >>> sampler.sample(8)
        >>> sampler.coalitions_size.tolist()
        [0, 4, 1, 1, 2, 2, 3, 3]
    """

    pairing = False

    def _draw(self, budget: int, entropy: int) -> np.ndarray:
        return _draw_sizes(self.n, coalitions_per_size, budget, entropy, paired=False)


def pairs_per_size(n: int, pairs: int) -> np.ndarray:
    """Share pairs equally over the sizes s = 1..⌊n/2⌋, capped by the populations.

    At s = n/2 a pair holds two coalitions of that size, so this size gets half the pairs. Seats
    are given one by one (Sainte-Laguë), which never takes one back when the total grows; largest
    remainders would.

    Args:
        n: Number of players.
        pairs: Number of pairs, at most ``2**(n-1) - 1``.

    Returns:
        Pairs by size, shape ``(n // 2 + 1,)``.

    Examples:
        >>> pairs_per_size(6, 14).tolist()
        [0, 6, 5, 3]
    """
    sizes = np.arange(1, n // 2 + 1)
    middle = 2 * sizes == n
    populations = [_population(n, s, paired=True) for s in sizes.tolist()]
    return _share(populations, np.where(middle, 2, 1), np.where(middle, 4, 2), pairs)


def coalitions_per_size(n: int, total: int) -> np.ndarray:
    """Share coalitions equally over the sizes s = 1..n-1, capped by the populations.

    Args:
        n: Number of players.
        total: Number of coalitions, at most ``2**n - 2``.

    Returns:
        Coalitions by size, shape ``(n,)``.

    Examples:
        >>> coalitions_per_size(4, 9).tolist()
        [0, 3, 3, 3]
    """
    ones = np.ones(max(n - 1, 0), dtype=int)
    return _share([_binomial(n, s) for s in range(1, n)], ones, ones, total)


def _share(populations: list[int], first: np.ndarray, step: np.ndarray, total: int) -> np.ndarray:
    """Give ``total`` seats in order of rank, where seat j of a size has rank first + j * step.

    Ties go to sizes in a fixed order that is spread over all of them.
    """
    caps = np.array([min(population, total) for population in populations], dtype=np.int64)

    def seats(rank: int) -> np.ndarray:
        return np.clip((rank - first) // step + 1, 0, caps)

    low, high = 0, 4 * total + 4
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if seats(middle).sum() <= total else (low, middle)
    counts = seats(low)
    open_sizes = np.flatnonzero(seats(high) > counts)
    spread = np.argsort((_GOLDEN_RATIO * open_sizes) % 1.0, kind="stable")
    counts[open_sizes[spread[: total - counts.sum()]]] += 1
    return np.concatenate([[0], counts])


def _draw_sizes(
    n: int, share: Callable[[int, int], np.ndarray], total: int, entropy: int, *, paired: bool
) -> np.ndarray:
    """Draw ``total`` coalitions as ``share`` tells, the independent ones of each size first.

    The first n - 1 of them, fewer if fewer are drawn, are independent: cost follows ``total``.
    """
    leading = min(total, n - 1)
    counts, heads = share(n, total).tolist(), share(n, leading).tolist()
    none = np.zeros((0, n), dtype=bool)

    def draw(size: int, count: int) -> np.ndarray:
        return _draw_size(n, size, count, entropy, none, paired=paired) if count else none

    def whole(size: int) -> bool:
        return counts[size] == _population(n, size, paired=paired)

    drawn = [draw(size, count) for size, count in enumerate(counts)]
    # a whole population comes in another order than its random sequence
    first = [
        draw(size, head) if head and whole(size) else drawn[size][:head]
        for size, head in enumerate(heads)
    ]
    if not _independent(first):
        seats = [share(n, seat + 1) - share(n, seat) for seat in range(leading)]
        chosen = _independent_heads(
            n, [int(np.argmax(seat)) for seat in seats], draw, paired=paired
        )
        drawn = [
            _draw_size(n, size, count, entropy, chosen.get(size, none), paired=paired)
            if count
            else none
            for size, count in enumerate(counts)
        ]
    return np.concatenate(drawn)


def _draw_size(
    n: int, size: int, count: int, entropy: int, head: np.ndarray, *, paired: bool
) -> np.ndarray:
    """Return the first ``count`` coalitions of the size's own random sequence, after ``head``.

    The sequence depends on ``entropy`` and ``size`` alone, never on ``count``: samples are nested.
    Paired draws at size n/2 keep to the half with the last player in it.
    """
    if 2 * size == n and paired:
        inner = _draw_size(n - 1, size - 1, count, entropy, head[:, :-1], paired=False)
        return np.pad(inner, ((0, 0), (0, 1)), constant_values=True)
    if 2 * size > n:
        return ~_draw_size(n, n - size, count, entropy + size, ~head, paired=False)
    population = _binomial(n, size)
    if count == population:
        return _unrank(np.arange(population), n, size)
    draw = _stream(n, size, population, np.random.default_rng([entropy, size]))
    rows = head
    while len(rows) < count:
        # at least a quarter of what is there: near a full population most draws are repeats
        rows = np.concatenate([rows, draw(max(count - len(rows), len(rows) // 4))])
        rows = distinct_rows(rows)
    return rows[:count]


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
    """Return whether coalitions, n - 1 at most, are linearly independent with the grand one."""
    rows = np.concatenate(heads)
    signs = 1.0 - 2.0 * np.concatenate([np.ones((1, rows.shape[1]), dtype=bool), rows])
    lu, _, _ = scipy.linalg.lapack.dgetrf(signs.T)
    return bool(np.abs(np.diag(lu)).min() > 1e-8)


def _independent_heads(
    n: int, sizes: list[int], draw: Callable[[int, int], np.ndarray], *, paired: bool
) -> dict[int, np.ndarray]:
    """Return by size coalitions that are independent of each other and of the grand one.

    Random draws mostly are; where they are not, the coalition that adds nothing gives way to the
    next of its size that does. One always exists, since each size spans the whole space. Taken in
    the order in which they are drawn, the choice does not depend on how many follow.

    Args:
        n: Number of players.
        sizes: The size of each, at most n - 1 of them.
        draw: The first coalitions of a size's random sequence, by size and count.
        paired: Whether coalitions stand for pairs.
    """
    candidates = {size: _in_turn(n, size, draw, paired=paired) for size in set(sizes)}
    chosen: dict[int, list[np.ndarray]] = {size: [] for size in candidates}
    basis = np.full((1, n), n**-0.5)
    for size in sizes:
        for row in candidates[size]:
            rest = 1.0 - 2.0 * row
            for _ in range(2):  # twice is enough for orthogonality to rounding
                rest = rest - basis.T @ (basis @ rest)
            length = np.linalg.norm(rest)
            if length > 1e-6:
                basis = np.vstack([basis, rest / length])
                chosen[size].append(row)
                break
    return {size: np.array(rows, dtype=bool) for size, rows in chosen.items()}


def _in_turn(
    n: int, size: int, draw: Callable[[int, int], np.ndarray], *, paired: bool
) -> Iterator[np.ndarray]:
    """Yield the coalitions of a size in their random sequence, in the end all there are."""
    population, seen, reach = _population(n, size, paired=paired), 0, 4
    while reach < population:
        yield from draw(size, reach)[seen:]
        seen, reach = reach, 2 * reach
    yield from draw(size, population)  # a whole population comes in another order


@cache
def _binomial(n: int, k: int) -> int:
    """Return C(n, k), or a lower bound of 2^64 where it is larger: nobody draws as many.

    At 10,000 players it has up to ten thousand bits and takes milliseconds.
    """
    few = min(k, n - k)
    if few > 0 and few * log2(n / few) > 64:  # C(n, k) >= (n/k)^k
        return 2**64
    return comb(n, k)


def _population(n: int, size: int, *, paired: bool) -> int:
    """Return how many coalitions, or pairs, of a size there are."""
    return _binomial(n, size) // (2 if paired and 2 * size == n else 1)
