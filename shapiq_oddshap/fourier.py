"""The parity (Fourier) basis of set functions and its closed-form Shapley values.

A *term* is a set of players T with the basis function χ_T(S) = (-1)^|S ∩ T|. Terms are boolean
rows of shape ``(n_terms, n)``, which may be sparse; signs are +1 for absent and -1 for present
players.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from scipy import sparse

__all__ = [
    "Terms",
    "pair_indices",
    "pairwise_interactions",
    "parities",
    "shapley_values",
    "singletons",
    "sparse_singletons",
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


def pair_indices(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the players of all pairs in the order of ``itertools.combinations``.

    Args:
        n: Number of players.

    Returns:
        The first and the second players, two arrays of shape ``(n (n - 1) / 2,)``.
    """
    first, second = np.triu_indices(n, 1)
    return first, second


def pairwise_interactions(coefficients: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """Read pairwise Shapley interactions off: SII_ij = 4 Σ_{T∋i,j, |T| even} β_T / (|T| - 1).

    Odd terms carry none of them (``docs/interactions.md``, equation 1) and are left out.

    Args:
        coefficients: Fourier coefficients β_T, shape ``(n_terms,)``.
        terms: Their terms as boolean rows, shape ``(n_terms, n)``.

    Returns:
        The interactions in the unit of the coefficients and the order of :func:`pair_indices`.

    Examples:
        >>> pairwise_interactions(np.array([1.0, 3.0]), np.array([[1, 1, 0], [1, 0, 1]], bool))
        array([ 4., 12.,  0.])
    """
    orders = terms.sum(axis=1)
    even = (orders % 2 == 0) & (orders > 0)
    members = terms[even].astype(float)
    table = (members.T * (4.0 * coefficients[even] / (orders[even] - 1))) @ members
    return table[pair_indices(terms.shape[1])]
