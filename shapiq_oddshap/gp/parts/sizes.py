"""Functions of the size alone, and main effects that change with the size.

Dense in the parity basis, with energy in every order, but trivial to read off: a function of the
size gives every player the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from shapiq_oddshap.gp.parts.base import Part

if TYPE_CHECKING:
    from typing import Self

    from shapiq_oddshap.gp.parts.base import Hints, Players
    from shapiq_oddshap.sample import Parity

__all__ = ["ChangingEffects", "Jump", "LearningCurve", "SizeSteps", "half_correlation", "sizes_of"]

_START = 0.05
"""Variance at the start: games without such effects are not to be kept from what they need."""


def sizes_of(x: np.ndarray) -> np.ndarray:
    """Return the sizes of the coalitions of sign rows, shape ``(m,)``."""
    n = x.shape[1]
    return np.rint((n - x.sum(axis=1)) / 2).astype(np.intp)


def half_correlation(n: int, length: float, parity: Parity) -> np.ndarray:
    """Return the odd or even half under ``s -> n - s`` of ``exp(-|s - s'| / length)``."""
    return _half(_correlation(n, length), parity)


def _correlation(n: int, length: float) -> np.ndarray:
    """Return ``exp(-|s - s'| / length)`` over the sizes 0 to n, shape ``(n + 1, n + 1)``."""
    s = np.arange(n + 1.0)
    return np.exp(-np.abs(s[:, None] - s) / length)


def _half(whole: np.ndarray, parity: Parity) -> np.ndarray:
    """Return the half of a covariance over sizes that is odd or even under ``s -> n - s``."""
    if parity == "both":
        return whole
    return (whole - whole[:, ::-1] if parity == "odd" else whole + whole[:, ::-1]) / 2.0


@dataclass(frozen=True, eq=False)
class _SizeFunction(Part):
    """A function of the size; an odd one has ``g(n - s) = -g(s)``."""

    @classmethod
    def start(cls, hints: Hints, parity: Parity = "odd") -> Self:
        """Start with a small variance."""
        del hints
        return cls(_START, parity=parity)

    def whole(self, n: int) -> np.ndarray:
        """Return the covariance of both halves of ``g`` over the sizes, ``(n + 1, n + 1)``."""
        raise NotImplementedError

    def covariance(self, n: int) -> np.ndarray:
        """Return the covariance of ``g`` at unit variance over the sizes, ``(n + 1, n + 1)``."""
        return _half(self.whole(n), self.parity)

    def matrix(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Look the covariance up by size; see :class:`Part`."""
        covariance = self.covariance(left.shape[1]).astype(left.dtype)
        return covariance[np.ix_(sizes_of(left), sizes_of(right))]

    def add_functionals(self, out: np.ndarray, x: np.ndarray) -> None:
        """Add ``(g(n) - g(0)) / n`` for every player; see :class:`Part`."""
        n = x.shape[1]
        covariance = self.covariance(n)
        gain = (covariance[n] - covariance[0])[sizes_of(x)]
        out += (self.variance / n) * gain[:, None]

    def add_prior_variances(self, out: np.ndarray) -> None:
        """Add the variance of ``(g(n) - g(0)) / n``; see :class:`Part`."""
        n = len(out)
        ends = self.covariance(n)[np.ix_([0, n], [0, n])]
        out += self.variance * (ends.trace() - 2.0 * ends[0, 1]) / n**2

    def add_pair_functionals(self, out: np.ndarray, x: np.ndarray, players: Players) -> None:
        """Add ``(g(n) - g(n - 1) - g(1) + g(0)) / (n - 1)`` for every pair; see :class:`Part`."""
        del players
        curvature = _curvature(x.shape[1]) @ self.covariance(x.shape[1])
        out += self.variance * curvature[sizes_of(x)][:, None]

    def add_pair_prior_variances(self, out: np.ndarray) -> None:
        """Add the variance of that; see :class:`Part`."""
        weights = _curvature(len(out))
        out += self.variance * (weights @ self.covariance(len(out)) @ weights)


@dataclass(frozen=True, eq=False)
class SizeSteps(_SizeFunction):
    """Rough functions of the size: neighbouring sizes are correlated by ``1/e``."""

    def whole(self, n: int) -> np.ndarray:
        """Return ``exp(-|s - s'|)``."""
        return _correlation(n, 1.0)


@dataclass(frozen=True, eq=False)
class LearningCurve(_SizeFunction):
    """Smooth functions of the size, correlated over a quarter of the players."""

    def whole(self, n: int) -> np.ndarray:
        """Return ``exp(-|s - s'| / (n / 4))``."""
        return _correlation(n, n / 4.0)


@dataclass(frozen=True, eq=False)
class Jump(_SizeFunction):
    """What the empty and the grand coalition have of their own; its share is spread evenly."""

    def whole(self, n: int) -> np.ndarray:
        """Return independent values of the empty and of the grand coalition."""
        ends = np.zeros(n + 1)
        ends[[0, n]] = 1.0
        return np.diag(ends)


@dataclass(frozen=True, eq=False)
class ChangingEffects(Part):
    """Main effects that change with the size: ``x_i h_i(s)``; odd ones have ``h_i(n - s) = h_i(s)``.

    Each ``h_i`` is a smooth function of its own, correlated over ``length`` of the players.
    """

    length: ClassVar[float] = 0.25

    @classmethod
    def start(cls, hints: Hints, parity: Parity = "odd") -> ChangingEffects:
        """Start with a small variance."""
        del hints
        return cls(_START, parity=parity)

    def covariance(self, n: int) -> np.ndarray:
        """Return the covariance of every ``h_i`` at unit variance, ``(n + 1, n + 1)``."""
        twin: dict[Parity, Parity] = {"odd": "even", "even": "odd", "both": "both"}
        return half_correlation(n, self.length * n, twin[self.parity])

    def matrix(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return ``(x . x' / n) kappa(s, s')``; see :class:`Part`."""
        n = left.shape[1]
        covariance = self.covariance(n).astype(left.dtype)
        return (left @ right.T / n) * covariance[np.ix_(sizes_of(left), sizes_of(right))]

    def add_functionals(self, out: np.ndarray, x: np.ndarray) -> None:
        """Add what a player gets of its own effect and of all others'; see :class:`Part`."""
        n = x.shape[1]
        own, other = _shares(n) @ self.covariance(n)[:, sizes_of(x)]
        rest = x.sum(axis=1, keepdims=True) - x
        out += (self.variance / n) * (x * own[:, None] + rest * other[:, None])

    def add_prior_variances(self, out: np.ndarray) -> None:
        """Add the variances of own and other effects, which are independent; see :class:`Part`."""
        n = len(out)
        shares = _shares(n)
        own, other = np.einsum("ks,st,kt->k", shares, self.covariance(n), shares)
        out += (self.variance / n) * (own + (n - 1) * other)

    def add_pair_functionals(self, out: np.ndarray, x: np.ndarray, players: Players) -> None:
        """Add what a pair gets of its two players' effects and of all others'; see :class:`Part`."""
        n = x.shape[1]
        own, other = _pair_shares(n) @ self.covariance(n)[:, sizes_of(x)]
        both = x[:, players[0]] + x[:, players[1]]
        rest = x.sum(axis=1, keepdims=True) - both
        out += (self.variance / n) * (both * own[:, None] + rest * other[:, None])

    def add_pair_prior_variances(self, out: np.ndarray) -> None:
        """Add the variances of own and other effects, which are independent; see :class:`Part`."""
        n = len(out)
        shares = _pair_shares(n)
        own, other = np.einsum("ks,st,kt->k", shares, self.covariance(n), shares)
        out += (self.variance / n) * (2.0 * own + (n - 2) * other)


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


def _curvature(n: int) -> np.ndarray:
    """Return the interaction of any pair in a function of the size as weights, ``(n + 1,)``.

    The mean over ``t`` of ``g(t + 2) - 2 g(t + 1) + g(t)`` telescopes to the sizes next to the ends.
    """
    weights = np.zeros(n + 1)
    np.add.at(weights, [0, 1, n - 1, n], [1.0, -1.0, -1.0, 1.0])
    return weights / (n - 1)


def _pair_shares(n: int) -> np.ndarray:
    """Return the interactions of ``x_i h(s)`` as weights of ``h(0) .. h(n)``, ``(2, n + 1)``.

    A pair with player i gets ``h(0) + h(1) - h(n - 1) - h(n)``, one without it
    ``h(0) - h(n) - (h(1) - h(n - 1)) n / (n - 2)``, each divided by ``n - 1``.
    """
    shares = np.zeros((2, n + 1))
    np.add.at(shares[0], [0, 1, n - 1, n], [1.0, 1.0, -1.0, -1.0])
    if n > 2:
        slope = n / (n - 2)
        np.add.at(shares[1], [0, 1, n - 1, n], [1.0, -slope, slope, -1.0])
    return shares / (n - 1)
