"""Functions of the size alone, and main effects that change with the size.

Dense in the parity basis, with energy in every order, but trivial to read off: a function of the
size gives every player the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.signal import lfilter

from shapiq_oddshap.gp.parts.base import Part

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from shapiq_oddshap.gp.parts.base import Hints, Players
    from shapiq_oddshap.sample import Parity

__all__ = [
    "ChangingEffects",
    "Jump",
    "LearningCurve",
    "SizeSteps",
    "differences",
    "half_correlation",
    "sizes_of",
]

_TWIN: dict[Parity, Parity] = {"odd": "even", "even": "odd", "both": "both"}
"""The parity under ``s -> n - s`` of the functions that main effects are multiplied with."""

_START = 0.05
"""Variance at the start: games without such effects are not to be kept from what they need."""


def sizes_of(x: np.ndarray) -> np.ndarray:
    """Return the sizes of the coalitions of sign rows, shape ``(m,)``."""
    n = x.shape[1]
    return np.rint((n - x.sum(axis=1)) / 2).astype(np.intp)


def half_correlation(
    n: int, s: np.ndarray, t: np.ndarray, length: float, parity: Parity
) -> np.ndarray:
    """Return the half of ``exp(-|s - t| / length)`` that is odd or even under ``t -> n - t``.

    Args:
        n: Number of players.
        s: Sizes, shape ``(p,)``.
        t: Sizes, shape ``(q,)``.
        length: The length scale, in players.
        parity: Which half.

    Returns:
        The covariance, shape ``(p, q)``.
    """
    here, mirrored = (_correlation(s, u, length) for u in (t, n - t))
    return _half(here, mirrored, parity)


def _correlation(s: np.ndarray, t: np.ndarray, length: float) -> np.ndarray:
    """Return ``exp(-|s - t| / length)`` for all pairs of sizes, shape ``(len(s), len(t))``."""
    return np.exp(-np.abs(s[:, None] - t) / length)


def _smoothed(weights: np.ndarray, length: float) -> np.ndarray:
    """Return ``sum_t exp(-|s - t| / length) weights_t`` for all sizes s, without the square matrix.

    The exponential is a power of the distance: both one-sided sums are recursions.

    Args:
        weights: Weights of the sizes by row, shape ``(k, n + 1)``.
        length: The length scale, in players.
    """
    recursion = [1.0, -np.exp(-1.0 / length)]
    upwards = lfilter([1.0], recursion, weights)
    downwards = lfilter([1.0], recursion, weights[:, ::-1])[:, ::-1]
    smoothed: np.ndarray = upwards + downwards - weights
    return smoothed


def _half(here: np.ndarray, mirrored: np.ndarray, parity: Parity) -> np.ndarray:
    """Return the half of a covariance over sizes that is odd or even under ``t -> n - t``."""
    if parity == "both":
        return here
    return (here - mirrored if parity == "odd" else here + mirrored) / 2.0


def _by_row(
    part: _SizeFunction | ChangingEffects, left: np.ndarray, right: np.ndarray
) -> Callable[[slice, slice], np.ndarray]:
    """Return a function that gives a part's covariance over sizes for blocks of sign rows.

    Each pair of sizes is worked out once.
    """
    s, of_left = np.unique(sizes_of(left), return_inverse=True)
    t, of_right = np.unique(sizes_of(right), return_inverse=True)
    table = part.covariance(left.shape[1], s, t).astype(left.dtype)
    return lambda rows, columns: table[of_left[rows]][:, of_right[columns]]


@dataclass(frozen=True, eq=False)
class _SizeFunction(Part):
    """A function of the size; an odd one has ``g(n - s) = -g(s)``."""

    independent_terms: ClassVar[bool] = False

    @classmethod
    def start(cls, hints: Hints, parity: Parity = "odd") -> Self:
        """Start with a small variance."""
        del hints
        return cls(_START, parity=parity)

    def whole(self, n: int, s: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Return the covariance of both halves of ``g`` over sizes, ``(len(s), len(t))``."""
        raise NotImplementedError

    def covariance(self, n: int, s: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Return the covariance of ``g`` at unit variance over sizes, ``(len(s), len(t))``."""
        return _half(self.whole(n, s, t), self.whole(n, s, n - t), self.parity)

    def matrix(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Look the covariance up by size; see :class:`Part`."""
        return _by_row(self, left, right)(slice(None), slice(None))

    def between(
        self, left: np.ndarray, right: np.ndarray
    ) -> Callable[[np.ndarray, slice, slice], None]:
        """Count the rows' sizes once; see :class:`Part`."""
        covariance = _by_row(self, left, right)

        def add(out: np.ndarray, rows: slice, columns: slice) -> None:
            out += self.variance * covariance(rows, columns)

        return add

    def add_functionals(self, out: np.ndarray, x: np.ndarray) -> None:
        """Add ``(g(n) - g(0)) / n`` for every player; see :class:`Part`."""
        n = x.shape[1]
        empty, grand = self.covariance(n, np.array([0, n]), sizes_of(x))
        gain = grand - empty
        out += (self.variance / n) * gain[:, None]

    def add_prior_variances(self, out: np.ndarray) -> None:
        """Add the variance of ``(g(n) - g(0)) / n``; see :class:`Part`."""
        n = len(out)
        ends = self.covariance(n, np.array([0, n]), np.array([0, n]))
        out += self.variance * (ends.trace() - 2.0 * ends[0, 1]) / n**2

    def add_interactions(self, out: np.ndarray, x: np.ndarray, players: Players) -> None:
        """Add the mean of the k-th difference of g, the same for every set; see :class:`Part`."""
        n, order = x.shape[1], len(players)
        if self.carries(order):
            difference = _size_weights(n, order) @ _everywhere(self, n)
            out += self.variance * difference[sizes_of(x)][:, None]

    def add_interaction_variances(self, out: np.ndarray) -> None:
        """Add the variance of that; see :class:`Part`."""
        n, order = len(out), out.ndim
        if self.carries(order):
            weights = _size_weights(n, order)
            out += self.variance * (weights @ _everywhere(self, n) @ weights)


@dataclass(frozen=True, eq=False)
class SizeSteps(_SizeFunction):
    """Rough functions of the size: neighbouring sizes are correlated by ``1/e``."""

    def whole(self, n: int, s: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Return ``exp(-|s - t|)``."""
        del n
        return _correlation(s, t, 1.0)


@dataclass(frozen=True, eq=False)
class LearningCurve(_SizeFunction):
    """Smooth functions of the size, correlated over a quarter of the players."""

    def whole(self, n: int, s: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Return ``exp(-|s - t| / (n / 4))``."""
        return _correlation(s, t, n / 4.0)


@dataclass(frozen=True, eq=False)
class Jump(_SizeFunction):
    """What the empty and the grand coalition have of their own; its share is spread evenly."""

    def whole(self, n: int, s: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Return independent values of the empty and of the grand coalition."""
        return ((s[:, None] == t) & ((t == 0) | (t == n))).astype(float)


@dataclass(frozen=True, eq=False)
class ChangingEffects(Part):
    """Main effects that change with the size: ``x_i h_i(s)``; odd ones have ``h_i(n - s) = h_i(s)``.

    Each ``h_i`` is a smooth function of its own, correlated over ``length`` of the players.
    """

    independent_terms: ClassVar[bool] = False
    length: ClassVar[float] = 0.25

    @classmethod
    def start(cls, hints: Hints, parity: Parity = "odd") -> ChangingEffects:
        """Start with a small variance."""
        del hints
        return cls(_START, parity=parity)

    def covariance(self, n: int, s: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Return the covariance of every ``h_i`` at unit variance, ``(len(s), len(t))``."""
        return half_correlation(n, s, t, self.length * n, _TWIN[self.parity])

    def matrix(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return ``(x . x' / n) kappa(s, s')``; see :class:`Part`."""
        out = np.zeros((len(left), len(right)), left.dtype)
        replace(self, variance=1.0).between(left, right)(out, slice(None), slice(None))
        return out

    def between(
        self, left: np.ndarray, right: np.ndarray
    ) -> Callable[[np.ndarray, slice, slice], None]:
        """Count the rows' sizes once; see :class:`Part`."""
        covariance, scale = _by_row(self, left, right), self.variance / left.shape[1]

        def add(out: np.ndarray, rows: slice, columns: slice) -> None:
            block = covariance(rows, columns)
            block *= scale
            block *= left[rows] @ right[columns].T
            out += block

        return add

    def add_functionals(self, out: np.ndarray, x: np.ndarray) -> None:
        """Add what a player gets of its own effect and of all others'; see :class:`Part`."""
        n = x.shape[1]
        sizes, place = np.unique(sizes_of(x), return_inverse=True)
        own, other = (_shares(n) @ self.covariance(n, np.arange(n + 1), sizes))[:, place]
        rest = x.sum(axis=1, keepdims=True) - x
        out += (self.variance / n) * (x * own[:, None] + rest * other[:, None])

    def add_prior_variances(self, out: np.ndarray) -> None:
        """Add the variances of own and other effects, which are independent; see :class:`Part`."""
        n = len(out)
        shares = _shares(n)
        smooth = _smoothed(shares, self.length * n)
        own, other = (shares * _half(smooth, smooth[:, ::-1], _TWIN[self.parity])).sum(axis=1)
        out += (self.variance / n) * (own + (n - 1) * other)

    def add_interactions(self, out: np.ndarray, x: np.ndarray, players: Players) -> None:
        """Add what a set gets of its players' effects and of all others'; see :class:`Part`."""
        n, order = x.shape[1], len(players)
        if not self.carries(order):
            return
        own, other = _interaction_shares(n, order) @ _everywhere(self, n)[:, sizes_of(x)]
        inside = reduce(np.add, [x[:, each] for each in players])
        rest = x.sum(axis=1, keepdims=True) - inside
        out += (self.variance / n) * (inside * own[:, None] + rest * other[:, None])

    def add_interaction_variances(self, out: np.ndarray) -> None:
        """Add the variances of own and other effects, which are independent; see :class:`Part`."""
        n, order = len(out), out.ndim
        if not self.carries(order):
            return
        shares = _interaction_shares(n, order)
        own, other = np.einsum("ks,st,kt->k", shares, _everywhere(self, n), shares)
        out += (self.variance / n) * (order * own + (n - order) * other)


def _everywhere(part: _SizeFunction | ChangingEffects, n: int) -> np.ndarray:
    """Return a part's covariance over all sizes, ``(n + 1, n + 1)``."""
    sizes = np.arange(n + 1)
    return part.covariance(n, sizes, sizes)


def _shares(n: int) -> np.ndarray:
    """Return the Shapley values of ``x_i h(s)`` as weights of ``h(0) .. h(n)``, shape ``(2, n + 1)``.

    Player i gets ``-(1/n) sum_{t < n} (h(t) + h(t + 1))``, each of the others an equal part of the
    rest to ``-h(0) - h(n)``.
    """
    own = np.full(n + 1, -2.0 / n)
    own[[0, n]] = -1.0 / n
    total = np.zeros(n + 1)
    total[[0, n]] = -1.0
    return np.stack([own, (total - own) / max(n - 1, 1)])


def differences(n: int, order: int, members: int) -> np.ndarray:
    """Return the k-th difference of ``chi_T h(s)`` in the players of a set, as weights of h.

    In a player of T it is ``-h(s + 1) - h(s)``, in another one ``h(s + 1) - h(s)``; that of the
    others is left to multiply.

    Args:
        n: Number of players.
        order: How many players the set has, k.
        members: How many of them are in T.

    Returns:
        The weights of ``h(0) .. h(n)``, a row for every size of the coalition of the other players,
        shape ``(n - k + 1, n + 1)``.
    """
    steps = [np.array([-1.0, -1.0])] * members + [np.array([-1.0, 1.0])] * (order - members)
    weights = reduce(np.convolve, steps)
    rows = np.arange(n - order + 1)[:, None]
    out = np.zeros((len(rows), n + 1))
    out[rows, rows + np.arange(order + 1)] = weights
    return out


def _size_weights(n: int, order: int) -> np.ndarray:
    """Return the interactions of a function of the size as weights of ``g(0) .. g(n)``.

    The mean of its differences telescopes to the sizes next to the ends: for pairs it is
    ``(g(n) - g(n - 1) - g(1) + g(0)) / (n - 1)``.
    """
    return np.asarray(differences(n, order, 0).sum(axis=0) / (n - order + 1))


def _interaction_shares(n: int, order: int) -> np.ndarray:
    """Return the interactions of ``x_i h(s)`` as weights of ``h(0) .. h(n)``, ``(2, n + 1)``.

    Those of a set with player i, and of one without, where the mean of ``x_i`` over the coalitions
    of size b of the others is ``(n - k - 2 b) / (n - k)``.
    """
    rest = n - order
    own = differences(n, order, 1).sum(axis=0)
    other = (rest - 2.0 * np.arange(rest + 1)) @ differences(n, order, 0) / max(rest, 1)
    return np.stack([own, other]) / (rest + 1)
