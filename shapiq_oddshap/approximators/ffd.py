"""FFD-RD: Shapley values from fractional factorial designs, exact up to interactions of order four.

Zhou, Mee, Hamers and Zheng (2025). The sum over the design of player j reduces to marginal
contributions: its rows come as *contexts* (the other players, ± a row of a Hadamard matrix) with and
without j, so that φ_j = Σ_c ω_c (f(c + j) - f(c)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.interpolate
import scipy.linalg
import scipy.stats

from shapiq_oddshap.approximators.base import Fitted, Plan, Run, ShapleyApproximator
from shapiq_oddshap.diagnostics import FitFacts
from shapiq_oddshap.sampling import row_keys

if TYPE_CHECKING:
    from shapiq_oddshap.approximators.base import Design
    from shapiq_oddshap.sample import Sample

__all__ = [
    "FFDRD",
    "FFDRDCorrected",
    "agree",
    "averages",
    "context_weights",
    "contexts",
    "contributions",
    "design",
    "key_players",
    "latin_permutations",
    "marginals",
    "prefixes",
    "required_budget",
    "smoothed",
    "toggled",
]

_SQUARES = 6
_FEW_PLAYERS = 6
_MANY_PLAYERS = 21
_NEGLIGIBLE = 1e-9
_LARGEST_FACTOR = 2
_REDRAWS = 200


def _order(n: int) -> int:
    """Return the order of the Hadamard matrix: the smallest q = 2^h >= 4 with q + 1 >= n."""
    return int(max(4, 1 << max(n - 2, 0).bit_length()))


def required_budget(n: int) -> int:
    """Return the evaluations that FFD-RD makes: exactly these from n = 13, fewer below.

    A context of n - 1 players has n + 1 distinct ways to insert a level, and there are 2q contexts.

    Args:
        n: Number of players.

    Returns:
        2q(n + 1), less than 4n² - 4, or ``2**n`` where that is smaller.

    Examples:
        >>> [required_budget(n) for n in (14, 16, 30, 60, 101)]
        [480, 544, 1984, 7808, 26112]
    """
    return int(min(2 * _order(n) * (n + 1), 2**n))


def contexts(n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the levels of the other n - 1 players: ± the rows of n - 1 random Hadamard columns.

    Args:
        n: Number of players.
        rng: Chooses and orders the columns.

    Returns:
        Boolean rows, those of H before those of -H, shape ``(2q, n - 1)``.
    """
    q = _order(n)
    present = scipy.linalg.hadamard(q, dtype=np.int8)[:, rng.permutation(q)[: n - 1]] > 0
    return np.concatenate([present, ~present])


def context_weights(n: int) -> np.ndarray:
    """Return ω_c, shape ``(2q,)``: 2(q+2)/(12q) for the two constant contexts, 4/(12q) otherwise."""
    q = _order(n)
    weights = np.full(2 * q, 4 / (12 * q))
    weights[[0, q]] = 2 * (q + 2) / (12 * q)
    return weights


def toggled(words: np.ndarray, player: int) -> np.ndarray:
    """Insert ``player`` into contexts, present and absent.

    Args:
        words: Levels of the other players in order, shape ``(k, n - 1)``.
        player: Where to insert.

    Returns:
        Boolean rows with the player, then without, shape ``(2, k, n)``.

    Examples:
        >>> toggled(np.array([[True, False]]), 1).astype(int).tolist()
        [[[1, 1, 0]], [[1, 0, 0]]]
    """
    return np.stack([np.insert(words, player, level, axis=1) for level in (True, False)])


def design(n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the designs of all players, which share their contexts.

    Columns are drawn again while two contexts meet in a coalition, so that the union has the same
    size for every seed. Below 13 players some always meet.

    Args:
        n: Number of players.
        rng: Draws the contexts.

    Returns:
        Boolean rows with the player, then without, shape ``(n, 2, 2q, n)``.
    """
    for _ in range(_REDRAWS if n >= 13 else 1):
        words = contexts(n, rng)
        rows = np.stack([toggled(words, player) for player in range(n)])
        if len(np.unique(row_keys(rows.reshape(-1, n)))) == required_budget(n):
            break
    return rows


def averages(values: np.ndarray) -> np.ndarray:
    """Return FFD-RD's values from those of the designs (Zhou et al., Algorithm 1).

    Args:
        values: The game at the rows of :func:`design`, shape ``(n, 2, 2q)``.

    Returns:
        The values, shape ``(n,)``.
    """
    present, absent = np.moveaxis(values, 1, 0)
    return np.asarray((present - absent) @ context_weights(len(values)))


def latin_permutations(n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the rows of six random Latin squares: cyclic shifts, rows and columns permuted.

    Args:
        n: Number of players.
        rng: Permutes.

    Returns:
        Permutations, shape ``(6n, n)``; within a square each player takes each place once.
    """
    squares = [
        (rng.permutation(n)[:, None] + rng.permutation(n)[None, :]) % n for _ in range(_SQUARES)
    ]
    return np.concatenate(squares)


def prefixes(permutations: np.ndarray, player: int) -> np.ndarray:
    """Return the coalitions that ``player`` completes in each permutation, and those before.

    Args:
        permutations: Orders of arrival, shape ``(k, n)``.
        player: The player.

    Returns:
        Boolean rows with the player, then without, shape ``(2, k, n)``.

    Examples:
        >>> prefixes(np.array([[2, 0, 1]]), 0).astype(int).tolist()
        [[[1, 0, 1]], [[0, 0, 1]]]
    """
    arrival = np.argsort(permutations, axis=1)
    own = arrival[:, [player]]
    return np.stack([arrival <= own, arrival < own])


def marginals(permutations: np.ndarray, players: np.ndarray) -> np.ndarray:
    """Return :func:`prefixes` of several players, shape ``(len(players), 2, k, n)``."""
    return np.stack([prefixes(permutations, player) for player in players.tolist()])


def contributions(values: np.ndarray) -> np.ndarray:
    """Return players' mean contributions from the values at :func:`marginals`."""
    present, absent = np.moveaxis(values, 1, 0)
    return np.asarray((present - absent).mean(axis=1))


def key_players(phi: np.ndarray, count: int) -> np.ndarray:
    """Return ``count`` players at evenly spaced ranks of ``phi``, each once."""
    ranks = np.linspace(0, len(phi) - 1, count).round().astype(int)
    return np.argsort(phi, kind="stable")[np.unique(ranks)]


def agree(phi: np.ndarray, estimates: np.ndarray) -> bool:
    """Tell whether the regression of ``phi`` on ``estimates`` is a line through the origin.

    That is an intercept of p > 0.05, a slope of p < 0.05 and R² > 0.75 (Zhou et al., Algorithm 2).
    An intercept that is rounding alone has no meaningful p and counts as zero.

    Args:
        phi: FFD-RD's values of the key players, shape ``(k,)``.
        estimates: Their estimates from permutations, shape ``(k,)``.
    """
    scale = max(np.abs(phi).max(), np.abs(estimates).max())
    if scale == 0 or np.ptp(estimates) <= _NEGLIGIBLE * scale:
        return False
    line = scipy.stats.linregress(estimates / scale, phi / scale)
    through_origin = abs(line.intercept) <= _NEGLIGIBLE or (
        2 * scipy.stats.t.sf(abs(line.intercept) / line.intercept_stderr, len(phi) - 2) > 0.05
    )
    return bool(through_origin and line.pvalue < 0.05 and line.rvalue**2 > 0.75)


def smoothed(phi: np.ndarray, keys: np.ndarray, estimates: np.ndarray) -> np.ndarray:
    """Map every value through a smoothing spline of the estimates, clamped to the fitted range.

    Args:
        phi: FFD-RD's values, shape ``(n,)``.
        keys: The key players, shape ``(k,)``.
        estimates: Their estimates from permutations, shape ``(k,)``.

    Returns:
        The corrected values, shape ``(n,)``.
    """
    low, span = phi[keys].min(), np.ptp(phi[keys]) or 1.0
    # Players of equal value, but for rounding, are one point: the spline needs increasing abscissae.
    knots, index = np.unique(((phi[keys] - low) / span).round(6), return_inverse=True)
    heights = np.bincount(index, estimates) / np.bincount(index)
    positions = np.clip((phi - low) / span, knots[0], knots[-1])
    if len(knots) < 5:  # too few for a cubic with a penalty
        return np.interp(positions, knots, heights)
    scale = np.abs(heights).max() or 1.0
    spline = scipy.interpolate.make_smoothing_spline(knots, heights / scale)
    return scale * spline(positions)


class FFDRD(ShapleyApproximator):
    """FFD-RD: a recursive fractional factorial design, exact for interactions of order ≤ 4.

    Algorithm 1 of Zhou, Mee, Hamers and Zheng (2025). Every player's marginal contribution is
    averaged over the same 2q contexts, ± the rows of a Hadamard matrix of order q, with weights that
    integrate all interactions of order four and less exactly.

    Note:
        The budget is fixed by the number of players, see :meth:`required_budget`: more is left
        unspent. The values are not efficient unless the game has no term of order five and more;
        ``efficiency_shift`` spreads what they miss evenly, as other estimators do.

    Examples:
        >>> import numpy as np
        >>> game = lambda coalitions: coalitions[:, :4].all(axis=1) * 8.0
        >>> values = FFDRD(n=10, random_state=42).approximate(budget=400, game=game)
        >>> values.get_n_order_values(1)[:5].round(9).tolist()
        [2.0, 2.0, 2.0, 2.0, 0.0]

    See Also:
        - :class:`~shapiq_oddshap.FFDRDCorrected`: with the correction by permutation sampling.
        - :class:`~shapiq_oddshap.OddSHAP`: takes any budget and interactions of any order.
    """

    def __init__(
        self,
        n: int,
        *,
        efficiency_shift: bool = False,
        max_order: int = 1,
        index: str = "SV",
        random_state: int | None = None,
    ) -> None:
        """Initialize the approximator.

        Args:
            n: The number of players.
            efficiency_shift: Whether to add the same amount to all values so that they sum to
                f([n]) - f(∅).
            max_order: 1; shapiq's explainers pass it.
            index: ``"SV"``; shapiq's explainers pass it.
            random_state: The seed; ``None`` takes fresh entropy for every run.

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If an argument is out of its range.
        """
        super().__init__(n, max_order=max_order, index=index, random_state=random_state)
        self.efficiency_shift = self.efficient = efficiency_shift

    def required_budget(self) -> int:
        """Return the smallest budget that ``approximate`` takes, see :func:`required_budget`."""
        return required_budget(self.n)

    def _design(self, run: Run) -> Design:
        """Ask for the union of all players' designs."""
        rows = design(self.n, run.rng)
        yield rows
        return Plan(notes=rows)

    def _fit(self, sample: Sample, notes: np.ndarray, run: Run) -> Fitted:
        """Average marginal contributions."""
        del run
        return self._shifted(sample, averages(sample.at(notes)), "design")

    def _shifted(self, sample: Sample, phi: np.ndarray, path: str) -> Fitted:
        """Return the values, made efficient if that was asked for."""
        if self.efficiency_shift:
            phi = phi + (sample.total - phi.sum()) / self.n
        return Fitted(phi, FitFacts(path=path))


class FFDRDCorrected(FFDRD):
    """FFD-RD, corrected by the permutation estimates of a few key players.

    Algorithm 2 of Zhou, Mee, Hamers and Zheng (2025):

    1. Estimate by FFD-RD.
    2. Estimate six players at evenly spaced ranks again, by the permutations of six Latin squares.
    3. If the two agree up to a factor, scale all values to sum to f([n]) - f(∅).
    4. Otherwise estimate 21 players and map all values through a spline of these estimates.

    Note:
        Both steps share their permutations, and the six players are among the 21, so that the
        second adds what the first has not evaluated. The empty prefix is worth f(∅). A departure:
        values are scaled by a factor from 1/2 to 2 or not at all. Where positive and negative values
        nearly cancel, the sum says nothing about their scale, and the factor may even be negative.

    Examples:
        >>> import numpy as np
        >>> game = lambda coalitions: coalitions @ np.arange(12.0)
        >>> approximator = FFDRDCorrected(n=12, random_state=42)
        >>> values = approximator.approximate(approximator.required_budget(), game)
        >>> np.allclose(values.get_n_order_values(1), np.arange(12))
        True

    See Also:
        - :class:`~shapiq_oddshap.FFDRD`: without the correction.
    """

    adaptive = True

    def required_budget(self) -> int:
        """Return the smallest budget that ``approximate`` takes.

        To the design come at most the inner prefixes of 6n permutations, two per key player.
        """
        inner = min(2 * _MANY_PLAYERS, self.n - 1)
        return int(min(required_budget(self.n) + _SQUARES * self.n * inner, 2**self.n))

    def _design(self, run: Run) -> Design:
        """Ask for the designs, for six players' prefixes, and for those of more if need be."""
        rows = design(self.n, run.rng)
        boundary = np.array([[False] * self.n, [True] * self.n])
        values = yield np.concatenate([boundary, rows.reshape(-1, self.n)])
        phi = averages(values[2:].reshape(rows.shape[:-1]))
        permutations = latin_permutations(self.n, run.rng)
        factor = _factor(phi, values[1] - values[0])
        scaled = False
        if 1 / _LARGEST_FACTOR <= factor <= _LARGEST_FACTOR:
            few = key_players(phi, _FEW_PLAYERS)
            scaled = agree(phi[few], contributions((yield marginals(permutations, few))))
        if not scaled:
            yield marginals(permutations, key_players(phi, _MANY_PLAYERS))
        return Plan(notes=(rows, permutations, scaled))

    def _fit(self, sample: Sample, notes: Any, run: Run) -> Fitted:  # noqa: ANN401
        """Scale or smooth (Zhou et al., Algorithm 2)."""
        del run
        rows, permutations, scaled = notes
        phi = averages(sample.at(rows))
        if scaled:
            return self._shifted(sample, phi * _factor(phi, sample.total), "design, scaled")
        many = key_players(phi, _MANY_PLAYERS)
        estimates = contributions(sample.at(marginals(permutations, many)))
        return self._shifted(sample, smoothed(phi, many, estimates), "design, smoothed")


def _factor(phi: np.ndarray, total: float) -> float:
    """Return what makes the values sum to the total, zero if they sum to none."""
    return float(total / (phi.sum() or np.inf))
