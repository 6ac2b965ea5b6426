"""Variances of their own for single interactions (``docs/odd-gp.md``, equation 13)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, comb
from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.gp.parts import Product, Terms
from shapiq_oddshap.gp.parts.terms import term_precision
from shapiq_oddshap.gp.posterior import Posterior
from shapiq_oddshap.gp.signs import characters

if TYPE_CHECKING:
    from shapiq_oddshap.gp.kernel import Kernel
    from shapiq_oddshap.gp.observations import Observations

__all__ = [
    "ReweightingOptions",
    "TermPosterior",
    "all_triples",
    "expectation_maximisation",
    "explicit_terms",
    "posterior_of_terms",
    "reweight",
    "scanned_triples",
    "term_posterior",
    "triple_sums",
    "with_terms",
]

_SINGLE_PRECISION_PAIRS = 1500
"""From more pairs on the rounds, which only rank and weigh terms, are in single precision."""

_NEGLIGIBLE = 1e-12
"""Smaller variances, relative to the largest, are not kept."""


@dataclass(frozen=True)
class ReweightingOptions:
    """How single interactions get variances of their own (eq. 13).

    Attributes:
        part_rounds: Rounds of expectation maximisation over the variances of single terms on a part
            of the pairs.
        rounds: Rounds on all pairs after those.
        product_share: What the product part keeps of its variance in the first round on the part.
        terms_per_pair: Explicit terms kept, per pair.
        most_noise: Above this noise, relative to the targets, there are no rounds: there the
            coefficients are not sparse, and variances of their own only follow the noise.
        pairs_per_player: With fewer pairs there are none: they would follow the sample.
        part_pairs: Pairs of the part, or ``pairs_per_player`` times the players if that is more.
        max_triples: Triples are scanned among the players of the largest rates, as many as make
            no more triples than this.
    """

    part_rounds: int = 2
    rounds: int = 2
    product_share: float = 0.7
    terms_per_pair: float = 0.35
    most_noise: float = 1e-3
    pairs_per_player: float = 8.0
    part_pairs: int = 1000
    max_triples: int = 180_000

    def allow(self, kernel: Kernel, data: Observations) -> bool:
        """Return whether the data may tell single interactions from noise."""
        enough = data.pairs >= self.pairs_per_player * kernel.n
        scanned = kernel.find(Product) is not None
        rounds = self.part_rounds + self.rounds > 0
        return rounds and scanned and enough and kernel.noise <= self.most_noise

    def part(self, data: Observations) -> Observations:
        """Return the part of the pairs that the first rounds see."""
        return data.part(max(self.part_pairs, ceil(self.pairs_per_player * data.x.shape[1])))


def scanned_triples(kernel: Kernel, max_triples: int) -> np.ndarray:
    """Return all triples of the players of the largest rates, shape ``(t, 3)``."""
    rates = _product(kernel).rates
    count = len(rates)
    while comb(count, 3) > max_triples:
        count -= 1
    return all_triples(np.sort(np.argsort(-rates, kind="stable")[:count]))


def all_triples(players: np.ndarray) -> np.ndarray:
    """Return all triples of some sorted players, sorted, shape ``(t, 3)``."""
    count = len(players)
    if count < 3:
        return np.zeros((0, 3), dtype=np.intp)
    first, second = np.triu_indices(count, 1)
    repeats = count - 1 - second
    third = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    first, second = np.repeat(first, repeats), np.repeat(second, repeats)
    return players[np.column_stack([first, second, third + second + 1])]


def triple_sums(x: np.ndarray, alpha: np.ndarray, triples: np.ndarray) -> np.ndarray:
    """Return ``sum_j alpha_j x_ji x_jk x_jl`` of every triple, by one product per first player.

    Args:
        x: Sign rows, shape ``(m, n)``.
        alpha: Weights, shape ``(m,)``.
        triples: Rows of increasing players, sorted by their first one, shape ``(t, 3)``.
    """
    out = np.empty(len(triples))
    alpha = alpha.astype(x.dtype, copy=False)
    stops = np.searchsorted(triples[:, 0], np.arange(x.shape[1] + 1))
    for player in range(x.shape[1]):
        rows = slice(stops[player], stops[player + 1])
        if rows.start < rows.stop:
            table = (x * (alpha * x[:, player])[:, None]).T @ x
            out[rows] = table[triples[rows, 1], triples[rows, 2]]
    return out


@dataclass(frozen=True)
class TermPosterior:
    """Posterior of single coefficients: all scanned triples, then the other explicit terms.

    Attributes:
        triples: Players of the scanned triples, shape ``(t, 3)``.
        others: The explicit terms that are not among them, shape ``(u, n)``.
        means: Posterior means, shape ``(t + u,)``.
        variances: Posterior variances, shape ``(t + u,)``.
        product_variances: What the product part gives to their prior variances, ``(t + u,)``.
    """

    triples: np.ndarray
    others: np.ndarray
    means: np.ndarray
    variances: np.ndarray
    product_variances: np.ndarray

    def terms(self, index: np.ndarray) -> np.ndarray:
        """Return some of the terms as boolean rows, shape ``(len(index), n)``."""
        rows = np.zeros((len(index), self.others.shape[1]), dtype=bool)
        scanned = np.flatnonzero(index < len(self.triples))
        rows[scanned[:, None], self.triples[index[scanned]]] = True
        rest = np.flatnonzero(index >= len(self.triples))
        rows[rest] = self.others[index[rest] - len(self.triples)]
        return rows

    def largest(self, sizes: np.ndarray, count: int) -> np.ndarray:
        """Return the index of the ``count`` terms of the largest sizes, without negligible ones."""
        keep = np.argsort(-sizes, kind="stable")[:count]
        return keep[sizes[keep] > _NEGLIGIBLE * sizes.max(initial=0.0)]


def term_posterior(
    kernel: Kernel, data: Observations, triples: np.ndarray, alpha: np.ndarray, precision: float
) -> TermPosterior:
    """Return the posterior of every scanned and every explicit term (eq. 13).

    With prior variance ``nu_T`` from both parts of the kernel, the posterior mean is
    ``nu_T sum_j alpha_j chi_T(x_j)`` and the variance ``nu_T (1 - nu_T chi_T' K^-1 chi_T)``.

    Args:
        kernel: The prior.
        data: The observations.
        triples: The triples that are scanned, see :func:`all_triples`, shape ``(t, 3)``.
        alpha: Dual weights of the posterior mean, one per observation.
        precision: ``chi_T' K^-1 chi_T``, taken to be the same for all terms.
    """
    product, explicit = _product(kernel), explicit_terms(kernel)
    place = _row_index(explicit.terms, triples)
    others = explicit.terms[place < 0]
    smooth = np.concatenate([product.triple_variances(triples), product.term_variances(others)])
    own = np.concatenate([np.zeros(len(triples)), explicit.variances[place < 0]])
    own[place[place >= 0]] += explicit.variances[place >= 0]
    variances = smooth + own
    columns = data.x.astype(term_precision(len(data.x), np.float64), copy=False)
    sums = [triple_sums(columns, alpha, triples), characters(data.x, others).T @ alpha]
    shrink = np.maximum(1.0 - variances * precision, 0.0)
    means = variances * np.concatenate(sums)
    return TermPosterior(triples, others, means, variances * shrink, smooth)


def posterior_of_terms(kernel: Kernel, data: Observations, triples: np.ndarray) -> TermPosterior:
    """Condition on observations, in single precision where that saves time; see above."""
    dtype = np.float32 if data.pairs > _SINGLE_PRECISION_PAIRS else np.float64
    posterior = Posterior.of(kernel, data, dtype)
    # characters look like random signs, so the trace of K^-1 stands for all chi' K^-1 chi
    precision = posterior.inverse_trace()
    return term_posterior(kernel, data, triples, posterior.alpha, precision)


def with_terms(kernel: Kernel, terms: np.ndarray, variances: np.ndarray, share: float) -> Kernel:
    """Return the kernel with other explicit terms, the product part keeping a share of its own."""
    product = _product(kernel)
    kernel = kernel.with_part(replace(product, variance=product.variance * share))
    return kernel.with_part(Terms.of(terms, variances))


def expectation_maximisation(
    kernel: Kernel, posterior: TermPosterior, count: int, share: float
) -> Kernel:
    """Set the prior variances of terms to their posterior second moments (eq. 13).

    The product part keeps ``share`` of its variance, and the ``count`` terms that exceed this
    the most become explicit.
    """
    second_moments = posterior.means**2 + posterior.variances
    excess = second_moments - share * posterior.product_variances
    keep = posterior.largest(excess, count)
    return with_terms(kernel, posterior.terms(keep), excess[keep], share)


def reweight(
    kernel: Kernel,
    data: Observations,
    options: ReweightingOptions,
    rounds: int,
    share: float = 1.0,
) -> Kernel:
    """Give single interactions variances of their own, by expectation maximisation (eq. 13).

    Args:
        kernel: The prior.
        data: The observations.
        options: The options.
        rounds: How many rounds to make.
        share: What the product part keeps of its variance in the first of them.
    """
    triples = scanned_triples(kernel, options.max_triples)
    count = int(options.terms_per_pair * data.pairs)
    for _ in range(rounds):
        posterior = posterior_of_terms(kernel, data, triples)
        kernel = expectation_maximisation(kernel, posterior, count, share)
        share = 1.0
    return kernel


def _product(kernel: Kernel) -> Product:
    """Return the product part, without which there is nothing to reweight."""
    product = kernel.find(Product)
    if product is None:
        msg = "Terms get variances of their own from a product part, but the kernel has none."
        raise ValueError(msg)
    return product


def explicit_terms(kernel: Kernel) -> Terms:
    """Return the explicit terms, none if the kernel has no such part."""
    none = np.zeros((0, kernel.n), dtype=bool)
    return kernel.find(Terms) or Terms.of(none, np.zeros(0))


def _row_index(terms: np.ndarray, triples: np.ndarray) -> np.ndarray:
    """Return the position of every term among the sorted triples, -1 where it is not there."""
    index = np.full(len(terms), -1)
    rows = np.flatnonzero(terms.sum(axis=1) == 3)
    if len(rows) == 0 or len(triples) == 0:
        return index
    n = terms.shape[1]
    base = np.array([n * n, n, 1])
    keys, wanted = triples @ base, np.nonzero(terms[rows])[1].reshape(-1, 3) @ base
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    index[rows] = np.where(keys[place] == wanted, place, -1)
    return index
