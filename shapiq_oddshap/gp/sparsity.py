"""Variances of their own for single interactions (``docs/odd-gp.md``, equations 13 and 14)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, comb

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular
from scipy.special import ndtri, stdtrit

from shapiq_oddshap.fourier import shapley_values
from shapiq_oddshap.gp.kernel import (
    FLOAT32_PAIRS,
    OddKernel,
    characters,
    empty_log_variance,
    product_variances,
    signs,
    term_dtype,
)
from shapiq_oddshap.gp.posterior import factorise, inverse_trace, solve

__all__ = [
    "SPARSE_TOLERANCE",
    "Observations",
    "SparseOptions",
    "TermPosterior",
    "all_triples",
    "expectation_maximisation",
    "penalised",
    "pursue",
    "reweight",
    "scanned_players",
    "sharpen",
    "sparse_fit",
    "term_posterior",
    "triple_sums",
]


@dataclass(frozen=True)
class SparseOptions:
    """How single interactions get variances of their own (eq. 13 and 14).

    Attributes:
        part_rounds: Rounds of expectation maximisation over the variances of single terms on a part
            of the pairs.
        rounds: Rounds on all pairs after those.
        product_share: What the product part keeps of its variance in the first round on the part.
        terms_per_pair: Explicit terms kept, per pair.
        most_noise: Above this noise, relative to the targets, there are neither rounds nor a
            search: there the coefficients are not sparse, and variances of their own only follow
            the noise.
        pairs_per_player: With fewer pairs there are neither: they would follow the sample.
        part_pairs: Pairs of the part, or ``pairs_per_player`` times the players if that is more.
        powers: Penalties of the search for an exactly sparse function, see :func:`sharpen`; none
            for no search.
        few_terms: If at most so many terms carry nearly all variance, per pair of the part, it is
            the part that is searched.
        search_pairs: Otherwise all pairs, if they are no more than this: in vain, the search of
            more would take longer than all the rest.
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
    powers: tuple[float, ...] = (1.0, 1.0, 1.0, 0.7, 0.5, 0.3, 0.0)
    few_terms: float = 0.1
    search_pairs: int = 1500
    max_triples: int = 180_000

    def allow(self, kernel: OddKernel, data: Observations) -> bool:
        """Return whether the data may tell single interactions from noise."""
        enough = data.pairs >= self.pairs_per_player * data.x.shape[1]
        return self.part_rounds + self.rounds > 0 and kernel.noise <= self.most_noise and enough

    def part(self, data: Observations) -> Observations:
        """Return the part of the pairs that the first rounds see."""
        return data.part(max(self.part_pairs, ceil(self.pairs_per_player * data.x.shape[1])))

    def searched(self, kernel: OddKernel, data: Observations) -> Observations | None:
        """Return the pairs on which to search for an exactly sparse function, if on any."""
        part = self.part(data)
        if _terms_that_matter(kernel) <= self.few_terms * part.pairs:
            return part.part(self.search_pairs)
        return data if data.pairs <= self.search_pairs else None


def scanned_players(importance: np.ndarray, max_triples: int) -> np.ndarray:
    """Return the most important players, as many as ``max_triples`` allows, in their order."""
    count = len(importance)
    while comb(count, 3) > max_triples:
        count -= 1
    return np.sort(np.argsort(-importance, kind="stable")[:count])


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


def term_posterior(
    kernel: OddKernel, x: np.ndarray, alpha: np.ndarray, precision: float, triples: np.ndarray
) -> TermPosterior:
    """Return the posterior of every scanned and every explicit term (eq. 13).

    With prior variance ``nu_T`` from both parts of the kernel, the posterior mean is
    ``nu_T sum_j alpha_j chi_T(x_j)`` and the variance ``nu_T (1 - nu_T chi_T' K^-1 chi_T)``.

    Args:
        kernel: The prior.
        x: Sign rows, shape ``(m, n)``.
        alpha: Dual weights of the posterior mean, shape ``(m,)``.
        precision: ``chi_T' K^-1 chi_T``, taken to be the same for all terms.
        triples: The triples that are scanned, see :func:`all_triples`, shape ``(t, 3)``.
    """
    place = _row_index(kernel.terms, triples)
    others = kernel.terms[place < 0]
    # not product_variances: all triples as boolean rows would be the largest array of the fit
    log_ratio = np.log(np.tanh(kernel.rates))[triples].sum(axis=1)
    product = np.concatenate(
        [
            np.exp(empty_log_variance(kernel) + log_ratio),
            product_variances(kernel, others),
        ]
    )
    explicit = np.concatenate([np.zeros(len(triples)), kernel.term_variances[place < 0]])
    explicit[place[place >= 0]] += kernel.term_variances[place >= 0]
    variances = product + explicit
    columns: np.ndarray = x.astype(term_dtype(len(x), np.float64), copy=False)
    sums = np.concatenate([triple_sums(columns, alpha, triples), characters(x, others).T @ alpha])
    shrink = np.maximum(1.0 - variances * precision, 0.0)
    return TermPosterior(triples, others, variances * sums, variances * shrink, product)


def expectation_maximisation(
    kernel: OddKernel, posterior: TermPosterior, count: int, share: float
) -> OddKernel:
    """Set the prior variances of terms to their posterior second moments (eq. 13).

    The product part keeps ``share`` of its variance, and the ``count`` terms that exceed this
    the most become explicit.
    """
    second_moments = posterior.means**2 + posterior.variances
    excess = second_moments - share * posterior.product_variances
    keep = np.argsort(-excess, kind="stable")[:count]
    keep = keep[excess[keep] > _NEGLIGIBLE * excess.max(initial=0.0)]
    return replace(
        kernel,
        terms=posterior.terms(keep),
        term_variances=excess[keep],
        product=kernel.product * share,
    )


def penalised(
    kernel: OddKernel, posterior: TermPosterior, count: int, power: float, share: float
) -> OddKernel:
    """Set the prior variances to ``|beta_T|^(2 - power)``, scaled to their energy (eq. 14).

    Power one is reweighted least squares for an l1 penalty, power zero for a count of terms.
    """
    size = np.abs(posterior.means)
    keep = np.argsort(-size, kind="stable")[:count]
    keep = keep[size[keep] > _NEGLIGIBLE * size.max(initial=0.0)]
    weights = size[keep] ** (2.0 - power)
    weights *= float(size[keep] @ size[keep]) / max(float(weights.sum()), 1e-300)
    return replace(
        kernel,
        terms=posterior.terms(keep),
        term_variances=weights,
        product=kernel.product * share,
    )


_NEGLIGIBLE = 1e-12
"""Smaller variances, relative to the largest, are not kept."""


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


def sparse_fit(
    coalitions: np.ndarray, odd_values: np.ndarray, total: float, terms: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the Shapley values if main effects and the given terms are the whole game.

    Whether they are is asked of the equations that are left over: with as few more equations than
    unknowns as one, a function of another kind leaves a residual. What rounding leaves there, in
    models of single precision, gives the variances of least squares, to which those of the
    efficient values add what the total lacks.

    Args:
        coalitions: One member of each pair, shape ``(m, n)``.
        odd_values: Their odd values, shape ``(m,)``.
        total: ``f(N) - f(empty)``.
        terms: Odd terms besides the main effects, shape ``(t, n)``.

    Returns:
        The values and their variances, each of shape ``(n,)``, or ``None`` if the data contradict
        or do not determine them.
    """
    n = coalitions.shape[1]
    unknowns = np.concatenate([np.eye(n, dtype=bool), terms])
    if len(coalitions) < len(unknowns):
        return None
    rows = characters(np.vstack([np.ones((1, n)), signs(coalitions)]), unknowns)
    values = np.concatenate([[-0.5 * total], odd_values])
    scale = np.abs(values).max()
    # The normal equations only screen: they lose digits, so what passes is solved again.
    try:
        factor = cholesky(rows.T @ rows, lower=True)
    except LinAlgError:
        return None
    solution = cho_solve((factor, True), rows.T @ values)
    if np.abs(rows @ solution - values).max() > SPARSE_TOLERANCE * scale:
        return None
    solution, _, rank, _ = np.linalg.lstsq(rows, values, rcond=1e-10)
    residuals = rows @ solution - values
    if rank < len(unknowns) or np.abs(residuals).max() > SPARSE_TOLERANCE * scale:
        return None
    functionals = -2.0 / unknowns.sum(axis=1)[:, None] * unknowns
    half = solve_triangular(factor, functionals, lower=True)
    freedom = len(rows) - len(unknowns)
    # few equations that are left over tell little of the noise: Student's interval, as a normal one
    student = float(stdtrit(freedom, 0.95) / ndtri(0.95))
    noise = student**2 * (residuals @ residuals / freedom) + (_ROUNDING * scale) ** 2
    # all functionals together are -2 times the row of the total, so that this is its leverage; its
    # residual, which the values are to share evenly, is uncorrelated with what was fitted
    leverage = 0.25 * float(np.sum(half.sum(axis=1) ** 2))
    shared = 4.0 * max(1.0 - leverage, 0.0) / n**2
    return shapley_values(solution, unknowns), noise * ((half**2).sum(axis=0) + shared)


SPARSE_TOLERANCE = 5e-6
"""Relative residual that counts as none: sums of trees in single precision round at 1e-6."""

_ROUNDING = 1e-13
"""Relative rounding of the arithmetic itself, where the residual has none."""


@dataclass(frozen=True)
class Observations:
    """What the process is conditioned on: sign rows, the noise-free one first, and targets."""

    x: np.ndarray
    targets: np.ndarray

    @property
    def pairs(self) -> int:
        """Number of pairs, the noise-free row left out."""
        return len(self.targets) - 1

    def part(self, count: int) -> Observations:
        """Return the noise-free row and at most so many pairs, evenly spread over the rows."""
        if self.pairs <= count:
            return self
        rows = np.concatenate([[0], 1 + np.arange(count) * self.pairs // count])
        return Observations(self.x[rows], self.targets[rows])


def _posterior(kernel: OddKernel, data: Observations, triples: np.ndarray) -> TermPosterior:
    """Solve for the posterior of the terms, in single precision where that saves time."""
    dtype = np.float32 if data.pairs > FLOAT32_PAIRS else np.float64
    factor, _ = factorise(kernel, data.x, dtype)
    alpha = solve(factor, data.targets.astype(dtype))
    # characters look like random signs, so the trace of K^-1 stands for all chi' K^-1 chi
    precision = inverse_trace(factor)
    return term_posterior(kernel, data.x, alpha.astype(np.float64), precision, triples)


def reweight(
    kernel: OddKernel,
    data: Observations,
    options: SparseOptions,
    rounds: int,
    share: float = 1.0,
) -> OddKernel:
    """Give single interactions variances of their own, by expectation maximisation (eq. 13).

    Args:
        kernel: The prior.
        data: Sign rows and targets.
        options: The options.
        rounds: How many rounds to make.
        share: What the product part keeps of its variance in the first of them.
    """
    triples = _scanned(kernel, options)
    count = int(options.terms_per_pair * data.pairs)
    for _ in range(rounds):
        posterior = _posterior(kernel, data, triples)
        kernel = expectation_maximisation(kernel, posterior, count, share)
        share = 1.0
    return kernel


def _terms_that_matter(kernel: OddKernel) -> int:
    """Return how many explicit terms carry 0.99 of the variance of all."""
    energy = np.cumsum(np.sort(kernel.term_variances)[::-1])
    return int(np.searchsorted(energy, 0.99 * energy[-1])) + 1 if len(energy) else 0


def _scanned(kernel: OddKernel, options: SparseOptions) -> np.ndarray:
    """Return the triples whose coefficients are looked at."""
    return all_triples(scanned_players(kernel.rates, options.max_triples))


def sharpen(kernel: OddKernel, data: Observations, options: SparseOptions) -> np.ndarray | None:
    """Look for the sparsest function through the data: l1 first, then ever closer to l0 (eq. 14).

    Args:
        kernel: The kernel after rounds of :func:`reweight`.
        data: All sign rows and targets.
        options: The options.

    Returns:
        The terms that are left, at most a quarter as many as there are searched pairs and a few of
        the pursuit, shape ``(t, n)``; ``None`` if there is no search.
    """
    part = options.searched(kernel, data)
    if part is None or not options.powers:
        return None
    triples = _scanned(kernel, options)
    if len(triples) == 0:
        return None
    for step, power in enumerate(options.powers):
        if step == 3:
            kernel = _with_unions(kernel)
        posterior = _posterior(kernel, part, triples)
        kernel = penalised(kernel, posterior, 3 * part.pairs, power, _SHARPEN_SHARE)
    keep = np.argsort(-kernel.term_variances, kind="stable")[: part.pairs // 4]
    keep = keep[kernel.term_variances[keep] > 1e-7 * kernel.term_variances.max(initial=0.0)]
    return pursue(kernel.terms[keep], part, triples)


def pursue(terms: np.ndarray, data: Observations, triples: np.ndarray) -> np.ndarray:
    """Add the terms that the residuals ask for: orthogonal matching pursuit over a few steps.

    The penalties lose terms whose coefficients are a thousandth of the largest. Once the others
    are fitted, the residuals are made of these alone.

    Args:
        terms: Terms to start from, shape ``(t, n)``.
        data: Sign rows and targets.
        triples: Candidates, besides the unions of terms, shape ``(u, 3)``.
    """
    n = terms.shape[1]
    unions = _unions(terms)
    union_columns = characters(data.x, unions, np.float32)
    for _ in range(_PURSUITS):
        rows = characters(data.x, np.concatenate([np.eye(n, dtype=bool), terms]))
        solution, _, _, _ = np.linalg.lstsq(rows, data.targets, rcond=1e-10)
        residuals = data.targets - rows @ solution
        if np.abs(residuals).max() <= SPARSE_TOLERANCE:
            break
        gains = np.abs(triple_sums(data.x, residuals, triples))
        triple = np.zeros((1, n), dtype=bool)
        triple[0, triples[int(np.argmax(gains))]] = True
        union_gains = np.abs(residuals.astype(np.float32) @ union_columns)
        if union_gains.max(initial=0.0) > gains.max():
            triple = unions[[int(np.argmax(union_gains))]]
        terms = np.concatenate([terms, triple])
    return terms


_PURSUITS = 24
"""Terms that the pursuit may add."""


def _with_unions(kernel: OddKernel) -> OddKernel:
    """Add terms of order five with a small variance."""
    strong = kernel.terms[np.argsort(-kernel.term_variances, kind="stable")[:_STRONG]]
    known = {row.tobytes() for row in kernel.terms}
    unions = _unions(strong)
    unions = unions[[row.tobytes() not in known for row in unions]]
    small = 0.01 * float(np.median(kernel.term_variances)) if len(strong) else 0.0
    return replace(
        kernel,
        terms=np.concatenate([kernel.terms, unions]),
        term_variances=np.concatenate([kernel.term_variances, np.full(len(unions), small)]),
    )


def _unions(terms: np.ndarray) -> np.ndarray:
    """Return the unions of two of the first terms that have order five, each once."""
    first, second = np.triu_indices(len(terms[:_STRONG]), 1)
    unions = terms[first] | terms[second]
    return np.unique(unions[unions.sum(axis=1) == 5], axis=0)


_STRONG = 200
"""Triples whose unions are tried."""


_SHARPEN_SHARE = 0.1
"""What the product part keeps of its variance in a round of :func:`sharpen`."""
