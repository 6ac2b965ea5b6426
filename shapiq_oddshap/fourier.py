"""The parity (Fourier) basis of set functions and its closed-form Shapley values.

A *term* is a set of players T with the basis function χ_T(S) = (-1)^|S ∩ T|. Terms are boolean
rows of shape ``(n_terms, n)``, which may be sparse; signs are +1 for absent and -1 for present
players.
"""

from __future__ import annotations

from itertools import chain, combinations
from typing import TypeAlias

import numpy as np
from scipy import sparse

__all__ = [
    "Terms",
    "carrying_terms",
    "interactions",
    "parities",
    "shapley_values",
    "singletons",
    "sparse_singletons",
    "subsets",
    "sums_of_products",
]

Terms: TypeAlias = np.ndarray | sparse.csr_array
"""Terms as boolean rows, shape ``(n_terms, n)``."""


def singletons(n: int) -> np.ndarray:
    """Return the ``n`` terms of order one as boolean rows of shape ``(n, n)``."""
    return np.eye(n, dtype=bool)


def sparse_singletons(n: int) -> sparse.csr_array:
    """Return :func:`singletons` without the n² entries, for more players than evaluations."""
    return sparse.csr_array(sparse.eye(n, dtype=bool, format="csr"))


def _members(terms: Terms) -> tuple[np.ndarray, np.ndarray]:
    """Return the order of every term, and their players, one term after the other."""
    if isinstance(terms, np.ndarray):
        rows, players = np.nonzero(terms)
        return np.bincount(rows, minlength=len(terms)), players
    return np.diff(terms.indptr), terms.indices


def parities(terms: Terms, coalitions: np.ndarray) -> np.ndarray:
    """Evaluate the basis functions χ_T(S) = (-1)^|S ∩ T| (paper, Section 3.2).

    Args:
        terms: Terms as boolean rows, shape ``(n_terms, n)``.
        coalitions: Coalitions as boolean rows, shape ``(m, n)``.

    Returns:
        The values ±1 as ``int8``, shape ``(n_terms, m)``: one contiguous row per term.

    Examples:
        >>> parities(np.array([[1, 1, 0]], bool), np.array([[0, 0, 1], [1, 0, 0]], bool))
        array([[ 1, -1]], dtype=int8)
    """
    signs = np.ascontiguousarray(1 - 2 * coalitions.T.astype(np.int8))
    orders, members = _members(terms)
    columns = np.ones((len(orders), len(coalitions)), dtype=np.int8)
    starts = np.cumsum(orders) - orders
    for order in np.unique(orders[orders > 0]):
        rows = np.flatnonzero(orders == order)
        product = signs[members[starts[rows]]]
        for position in range(1, order):
            product *= signs[members[starts[rows] + position]]
        columns[rows] = product
    return columns


def shapley_values(coefficients: np.ndarray, terms: Terms) -> np.ndarray:
    """Read Shapley values off Fourier coefficients: φ_i = -2 Σ_{T∋i, |T| odd} β_T / |T|.

    Even terms carry no Shapley value (paper, Observation 3.1) and are left out.

    Args:
        coefficients: Fourier coefficients β_T, shape ``(n_terms,)``.
        terms: Their terms as boolean rows, shape ``(n_terms, n)``.

    Returns:
        The Shapley values in the unit of the coefficients, shape ``(n,)``.

    Examples:
        >>> shapley_values(np.array([3.0]), np.array([[True, True, False, True]]))
        array([-2., -2.,  0., -2.])
    """
    orders, players = _members(terms)
    shares = np.where(orders % 2 == 1, coefficients / np.maximum(orders, 1), 0.0)
    # the zero turns minus zeros into zeros
    return 0.0 - 2.0 * np.bincount(players, np.repeat(shares, orders), minlength=terms.shape[1])


def subsets(n: int, order: int) -> tuple[np.ndarray, ...]:
    """Return the players of all sets of an order, in the order of ``itertools.combinations``.

    Args:
        n: Number of players.
        order: How many players a set has.

    Returns:
        The first players, the second ones and so on, ``order`` arrays of shape ``(p,)``.

    Examples:
        >>> [players.tolist() for players in subsets(3, 2)]
        [[0, 0, 1], [1, 2, 2]]
    """
    flat = np.fromiter(chain.from_iterable(combinations(range(n), order)), dtype=np.intp)
    return tuple(np.ascontiguousarray(flat.reshape(-1, order).T))


def sums_of_products(weights: np.ndarray, factors: np.ndarray, order: int) -> np.ndarray:
    """Return ``sum_j w_j F_ja F_jb ...`` for all a, b, ...: one matrix product, or n of order three.

    Args:
        weights: Weights of the rows, shape ``(m,)``.
        factors: F, shape ``(m, n)``.
        order: How many factors a product has.

    Returns:
        The sums, an array of so many axes of length n.
    """
    if order == 0:
        return np.array(weights.sum())
    if order == 1:
        return np.asarray(weights @ factors)
    if order == 2:
        return np.asarray((factors * weights[:, None]).T @ factors)
    return np.stack([sums_of_products(weights * f, factors, order - 1) for f in factors.T])


def interactions(coefficients: np.ndarray, terms: np.ndarray, order: int) -> np.ndarray:
    """Read Shapley interactions off: SII_A = (-2)^k Σ_{T⊇A} β_T / (|T| - k + 1), |A| = k.

    Terms of the other parity carry none of them (``docs/interactions.md``, equation 1) and are left
    out.

    Args:
        coefficients: Fourier coefficients β_T, shape ``(n_terms,)``.
        terms: Their terms as boolean rows, shape ``(n_terms, n)``.
        order: k.

    Returns:
        The interactions in the unit of the coefficients and the order of :func:`subsets`.

    Examples:
        >>> interactions(np.array([1.0, 3.0]), np.array([[1, 1, 0], [1, 0, 1]], bool), 2)
        array([ 4., 12.,  0.])
    """
    carrying, divisors = carrying_terms(terms, order)
    shares = (-2.0) ** order * coefficients[carrying] / divisors
    sums = sums_of_products(shares, terms[carrying].astype(float), order)
    return np.asarray(sums[subsets(terms.shape[1], order)])


def carrying_terms(terms: np.ndarray, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which terms carry interactions of an order k, and ``|T| - k + 1`` of those.

    Args:
        terms: Terms as boolean rows, shape ``(n_terms, n)``.
        order: The order.

    Returns:
        A mask of shape ``(n_terms,)``, and a divisor for every term in it.
    """
    orders = terms.sum(axis=1)
    carrying = (orders % 2 == order % 2) & (orders >= order)
    return carrying, orders[carrying] - order + 1
