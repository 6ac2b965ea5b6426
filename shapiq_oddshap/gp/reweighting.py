"""Variances of their own for single interactions (``docs/odd-gp.md``, equation 13)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, comb
from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.gp.parts import PairEffects, Product, Terms
from shapiq_oddshap.gp.parts.terms import term_precision
from shapiq_oddshap.gp.posterior import Posterior
from shapiq_oddshap.gp.signs import characters

if TYPE_CHECKING:
    from shapiq_oddshap.gp.kernel import Kernel
    from shapiq_oddshap.gp.observations import Observations
    from shapiq_oddshap.sample import Parity

__all__ = [
    "ReweightingOptions",
    "TermPosterior",
    "all_combinations",
    "expectation_maximisation",
    "explicit_terms",
    "posterior_of_terms",
    "reweight",
    "scanned_terms",
    "term_posterior",
    "term_sums",
    "with_terms",
]

_SINGLE_PRECISION_PAIRS = 1500
"""From more pairs on the rounds, which only rank and weigh terms, are in single precision."""

_NEGLIGIBLE = 1e-12
"""Smaller variances, relative to the largest, are not kept."""


_SCANNED: dict[Parity, tuple[int, ...]] = {"odd": (3,), "even": (4, 2)}
"""Orders of the terms that are scanned."""


@dataclass(frozen=True)
class ReweightingOptions:
    """How single interactions get variances of their own (eq. 13).

    Attributes:
        part_rounds: Rounds of expectation maximisation over the variances of single terms on a part
            of the pairs.
        rounds: Rounds on all pairs after those.
        product_share: What the product part (and that of pairs) keeps of its variance in the first
            round on the part.
        terms_per_pair: Explicit terms kept, per pair.
        most_noise: Above this noise, relative to the targets, there are no rounds, and the proxy's
            terms are taken out: there the
            coefficients are not sparse, and variances of their own only follow the noise.
        pairs_per_player: With fewer pairs there are none: they would follow the sample.
        part_pairs: Pairs of the part, or ``pairs_per_player`` times the players if that is more.
        most_scanned: Triples are scanned among the players of the largest rates, as many as make
            no more triples than this; so are the quadruples and pairs of an even component.
    """

    part_rounds: int = 2
    rounds: int = 2
    product_share: float = 0.7
    terms_per_pair: float = 0.35
    most_noise: float = 1e-3
    pairs_per_player: float = 8.0
    part_pairs: int = 1000
    most_scanned: int = 180_000

    def allow(self, kernel: Kernel, data: Observations) -> bool:
        """Return whether the data may tell single interactions from noise."""
        enough = data.pairs >= self.pairs_per_player * kernel.n
        scanned = kernel.find(Product) is not None
        rounds = self.part_rounds + self.rounds > 0
        return rounds and scanned and enough and kernel.noise <= self.most_noise

    def part(self, data: Observations) -> Observations:
        """Return the part of the pairs that the first rounds see."""
        return data.part(max(self.part_pairs, ceil(self.pairs_per_player * data.x.shape[1])))


def scanned_terms(kernel: Kernel, most: int) -> np.ndarray:
    """Return the terms that are scanned: all of some orders among the players of the largest rates.

    Triples of an odd component, quadruples and pairs of an even one.

    Args:
        kernel: The prior.
        most: So many of an order at most; players are left out until there are no more.

    Returns:
        The players of each term, increasing, padded with ``n``, shape ``(t, order)``.
    """
    product = _product(kernel)
    orders = _SCANNED[product.parity]
    found = [_combinations_of_largest(product.rates, order, most) for order in orders]
    width = max(orders)
    padded = [
        np.pad(terms, ((0, 0), (0, width - terms.shape[1])), constant_values=kernel.n)
        for terms in found
    ]
    return np.concatenate(padded)


def _combinations_of_largest(rates: np.ndarray, order: int, most: int) -> np.ndarray:
    """Return the combinations of the players of the largest rates, as many as are allowed."""
    count = len(rates)
    while comb(count, order) > most:
        count -= 1
    return all_combinations(np.sort(np.argsort(-rates, kind="stable")[:count]), order)


def all_combinations(players: np.ndarray, order: int) -> np.ndarray:
    """Return all combinations of some sorted players, sorted, shape ``(t, order)``."""
    count = len(players)
    rows = np.arange(count)[:, None]
    for _ in range(order - 1):
        # every row goes on with each of the players after its last
        repeats = count - 1 - rows[:, -1]
        starts = np.repeat(np.cumsum(repeats) - repeats, repeats)
        rows = np.repeat(rows, repeats, axis=0)
        after = np.arange(len(rows)) - starts + rows[:, -1] + 1
        rows = np.column_stack([rows, after])
    return players[rows]


def term_sums(x: np.ndarray, alpha: np.ndarray, players: np.ndarray) -> np.ndarray:
    """Return ``sum_j alpha_j chi_T(x_j)`` of terms of two and more players, padded as scanned.

    Args:
        x: Sign rows, shape ``(m, n)``.
        alpha: Weights, shape ``(m,)``.
        players: See :func:`scanned_terms`; those of an order are sorted.
    """
    out = np.empty(len(players))
    orders = np.sum(players < x.shape[1], axis=1)
    weights = alpha.astype(x.dtype, copy=False)
    for order in np.unique(orders).tolist():
        rows = orders == order
        there, place = np.unique(players[rows, :order], return_inverse=True)
        columns = np.ascontiguousarray(x[:, there])
        out[rows] = _sums_of_order(columns, weights, place.reshape(-1, order))
    return out


def _sums_of_order(x: np.ndarray, alpha: np.ndarray, players: np.ndarray) -> np.ndarray:
    """Return the sums of sorted terms of one order, of all pairs of last players by one product."""
    if players.shape[1] == 2:
        table = (x * alpha[:, None]).T @ x
        pairs: np.ndarray = table[players[:, 0], players[:, 1]]
        return pairs
    out = np.empty(len(players))
    stops = np.searchsorted(players[:, 0], np.arange(x.shape[1] + 1))
    for player in range(x.shape[1]):
        rows = slice(stops[player], stops[player + 1])
        if rows.start < rows.stop:
            later = player + 1  # the players of a term increase
            others = players[rows, 1:] - later
            out[rows] = _sums_of_order(x[:, later:], alpha * x[:, player], others)
    return out


@dataclass(frozen=True)
class TermPosterior:
    """Posterior of single coefficients: all scanned terms, then the other explicit ones.

    Attributes:
        scanned: Players of the scanned terms, see :func:`scanned_terms`, shape ``(t, order)``.
        others: The explicit terms that are not among them, shape ``(u, n)``.
        means: Posterior means, shape ``(t + u,)``.
        variances: Posterior variances, shape ``(t + u,)``.
        smooth_variances: What the other parts give to their prior variances, ``(t + u,)``.
    """

    scanned: np.ndarray
    others: np.ndarray
    means: np.ndarray
    variances: np.ndarray
    smooth_variances: np.ndarray

    def terms(self, index: np.ndarray) -> np.ndarray:
        """Return some of the terms as boolean rows, shape ``(len(index), n)``."""
        n = self.others.shape[1]
        rows = np.zeros((len(index), n + 1), dtype=bool)
        scanned = np.flatnonzero(index < len(self.scanned))
        rows[scanned[:, None], self.scanned[index[scanned]]] = True
        rest = np.flatnonzero(index >= len(self.scanned))
        rows[rest, :n] = self.others[index[rest] - len(self.scanned)]
        return rows[:, :n]

    def largest(self, sizes: np.ndarray, count: int) -> np.ndarray:
        """Return the index of the ``count`` terms of the largest sizes, without negligible ones."""
        keep = np.argsort(-sizes, kind="stable")[:count]
        return keep[sizes[keep] > _NEGLIGIBLE * sizes.max(initial=0.0)]


def term_posterior(
    kernel: Kernel, data: Observations, scanned: np.ndarray, alpha: np.ndarray, precision: float
) -> TermPosterior:
    """Return the posterior of every scanned and every explicit term (eq. 13).

    With prior variance ``nu_T`` from all parts of the kernel, the posterior mean is
    ``nu_T sum_j alpha_j chi_T(x_j)`` and the variance ``nu_T (1 - nu_T chi_T' K^-1 chi_T)``.

    Args:
        kernel: The prior.
        data: The observations.
        scanned: The terms that are scanned, see :func:`scanned_terms`, shape ``(t, order)``.
        alpha: Dual weights of the posterior mean, one per observation.
        precision: ``chi_T' K^-1 chi_T``, taken to be the same for all terms.
    """
    explicit = explicit_terms(kernel)
    place = _row_index(explicit.terms, scanned)
    others = explicit.terms[place < 0]
    smooth = np.concatenate([_smooth_variances(kernel, scanned), _smooth_of_rows(kernel, others)])
    own = np.concatenate([np.zeros(len(scanned)), explicit.variances[place < 0]])
    own[place[place >= 0]] += explicit.variances[place >= 0]
    variances = smooth + own
    columns = data.x.astype(term_precision(len(data.x), np.float64), copy=False)
    sums = [term_sums(columns, alpha, scanned), characters(data.x, others).T @ alpha]
    shrink = np.maximum(1.0 - variances * precision, 0.0)
    means = variances * np.concatenate(sums)
    return TermPosterior(scanned, others, means, variances * shrink, smooth)


def _smooth_variances(kernel: Kernel, players: np.ndarray) -> np.ndarray:
    """Return what the parts without terms of their own give to scanned terms, shape ``(t,)``."""
    variances = _product(kernel).variances_by_players(players)
    pairs = kernel.find(PairEffects)
    if pairs is not None:
        variances[np.sum(players < kernel.n, axis=1) == 2] += pairs.each(kernel.n)
    return variances


def _smooth_of_rows(kernel: Kernel, terms: np.ndarray) -> np.ndarray:
    """Return the same of terms as boolean rows, shape ``(t,)``."""
    pairs = kernel.find(PairEffects)
    variances = _product(kernel).term_variances(terms)
    return variances if pairs is None else variances + pairs.term_variances(terms)


def posterior_of_terms(kernel: Kernel, data: Observations, scanned: np.ndarray) -> TermPosterior:
    """Condition on observations, in single precision where that saves time; see above."""
    dtype = np.float32 if data.pairs > _SINGLE_PRECISION_PAIRS else np.float64
    posterior = Posterior.of(kernel, data, dtype)
    # characters look like random signs, so the trace of K^-1 stands for all chi' K^-1 chi
    precision = posterior.inverse_trace()
    return term_posterior(kernel, data, scanned, posterior.alpha, precision)


def with_terms(kernel: Kernel, terms: np.ndarray, variances: np.ndarray, share: float) -> Kernel:
    """Return the kernel with other explicit terms, the smooth parts keeping a share of their own."""
    for part in (_product(kernel), kernel.find(PairEffects)):
        if part is not None:
            kernel = kernel.with_part(replace(part, variance=part.variance * share))
    return kernel.with_part(Terms.of(terms, variances))


def expectation_maximisation(
    kernel: Kernel, posterior: TermPosterior, count: int, share: float
) -> Kernel:
    """Set the prior variances of terms to their posterior second moments (eq. 13).

    The smooth parts keep ``share`` of their variance, and the ``count`` terms that exceed this
    the most become explicit.
    """
    second_moments = posterior.means**2 + posterior.variances
    excess = second_moments - share * posterior.smooth_variances
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
        share: What the smooth parts keep of their variance in the first of them.
    """
    scanned = scanned_terms(kernel, options.most_scanned)
    count = int(options.terms_per_pair * data.pairs)
    for _ in range(rounds):
        posterior = posterior_of_terms(kernel, data, scanned)
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


def _row_index(terms: np.ndarray, scanned: np.ndarray) -> np.ndarray:
    """Return the position of every term among the scanned ones, -1 where it is not there."""
    index = np.full(len(terms), -1)
    n, width = terms.shape[1], scanned.shape[1]
    if len(terms) == 0 or len(scanned) == 0:
        return index
    base = float(n + 1) ** np.arange(width)[::-1]
    keys = scanned @ base
    sorter = np.argsort(keys, kind="stable")
    for order in np.unique(np.sum(scanned < n, axis=1)).tolist():
        rows = np.flatnonzero(terms.sum(axis=1) == order)
        players = np.full((len(rows), width), n)
        players[:, :order] = np.nonzero(terms[rows])[1].reshape(-1, order)
        wanted = players @ base
        place = sorter[np.minimum(np.searchsorted(keys, wanted, sorter=sorter), len(keys) - 1)]
        index[rows] = np.where(keys[place] == wanted, place, -1)
    return index
