"""The odd Gaussian process: its kernel, evidence, posterior and exact Shapley read-out.

Pure functions on arrays. Equation numbers refer to ``docs/odd-gp.md``.

A set function enters only through its odd component ``f_odd(S) = (f(S) - f(S^c)) / 2``, one value
per complementary pair. In signs ``x_i = -1 if i in S else +1`` it is a sum of odd characters
``chi_T(x) = prod_{i in T} x_i``, and the process gives their coefficients independent Gaussian
priors. Everything below follows from that: the kernel, the Shapley values of the posterior mean
and their posterior variances are all closed forms in the prior variances of the coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb, log
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, lapack, solve_triangular
from scipy.optimize import minimize
from scipy.special import gammaln

from shapiq_oddshap.fourier import parities, shapley_values

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "OddGPFit",
    "OddKernel",
    "SearchOptions",
    "SparseOptions",
    "Strata",
    "fit_odd_gp",
    "gram",
    "msr_correction",
    "msr_variances",
    "negative_log_evidence",
    "reweight",
    "search_hyperparameters",
    "shapley_functionals",
    "shapley_prior_variances",
    "signs",
    "sparse_fit",
]

_MAX_NODES = 40
"""Gauss-Legendre nodes of the Shapley integral; the integrand is close to a polynomial of low
degree, and from about 40 nodes on more of them change nothing at any number of players."""

_LOG_NODES = 96
"""Nodes of the prior-variance integral, whose integrand carries a logarithm."""

_BLOCK = 1024
"""Rows of the Gram matrix that are assembled at once, which bounds the temporaries."""

_EFFICIENCY_NOISE = 1e-12
"""Noise of the observation (empty, grand): none, up to rounding."""


# ------------------------------------------------------------------------------ the kernel


@dataclass(frozen=True)
class OddKernel:
    """Prior variances of the odd Fourier coefficients (eq. 3 and 4), relative to the target's.

    Attributes:
        rates: ``a_i``, how much player ``i`` takes part in interactions, shape ``(n,)``.
        main: Total variance of the main effects, spread evenly over the players.
        product: Variance of the product part ``sinh(sum_i a_i x_i x'_i) / sinh(sum_i a_i)``.
        terms: Explicit odd terms, one row each, shape ``(t, n)``.
        term_variances: Their prior variances, shape ``(t,)``.
        noise: Variance of what no smooth odd function explains, white over the pairs.
    """

    rates: np.ndarray
    main: float
    product: float
    terms: np.ndarray
    term_variances: np.ndarray
    noise: float

    @property
    def product_log_scale(self) -> float:
        """``log(product / sinh(sum a))``, the logarithm of the factor before ``sinh`` (eq. 4)."""
        return log(self.product) - _log_sinh(float(self.rates.sum()))


def _log_sinh(value: float) -> float:
    """Return ``log(sinh(value))`` for a positive value of any size."""
    return value + float(np.log(-np.expm1(-2.0 * value))) - log(2.0)


def signs(coalitions: np.ndarray, dtype: type = np.float64) -> np.ndarray:
    """Return ``x_i = -1`` for present and ``+1`` for absent players, shape ``(m, n)``."""
    return (1 - 2 * coalitions.astype(np.int8)).astype(dtype)


def characters(x: np.ndarray, terms: np.ndarray, dtype: type = np.float64) -> np.ndarray:
    """Return ``chi_T(x)`` for every row of ``x`` and every term, shape ``(m, t)`` (eq. 1)."""
    return parities(terms, x < 0).T.astype(dtype, order="C")


def gram(
    kernel: OddKernel,
    left: np.ndarray,
    right: np.ndarray,
    dtype: type = np.float64,
    *,
    lower: bool = False,
) -> np.ndarray:
    """Return the kernel matrix without noise (eq. 4), assembled in blocks of rows.

    Args:
        kernel: The prior.
        left: Sign rows of shape ``(p, n)``.
        right: Sign rows of shape ``(q, n)``.
        dtype: Precision of the result and of the work.
        lower: Leave the blocks above the diagonal zero, at half the cost.

    Returns:
        The matrix ``k(left_j, right_l)`` of shape ``(p, q)``.
    """
    n = left.shape[1]
    right = right.astype(dtype, copy=False)
    scaled = (right * kernel.rates).astype(dtype)
    scale = kernel.product_log_scale
    term_dtype = _term_dtype(len(right), dtype)
    root: np.ndarray = np.sqrt(kernel.term_variances).astype(term_dtype)
    right_terms = characters(right, kernel.terms, term_dtype) * root
    out: np.ndarray = np.zeros((len(left), len(right)), dtype)
    for start in range(0, len(left), _BLOCK):
        stop = min(start + _BLOCK, len(left))
        columns = slice(0, stop if lower else len(right))
        rows: np.ndarray = left[start:stop].astype(dtype, copy=False)
        block = out[start:stop, columns]
        exponent = rows @ scaled[columns].T
        # the two exponentials carry the scale, so neither overflows however large sum(a) is
        np.exp(scale + exponent, out=block)
        block -= np.exp(scale - exponent)
        block *= 0.5
        block += (kernel.main / n) * (rows @ right[columns].T)
        if len(root):
            left_terms = characters(rows, kernel.terms, term_dtype) * root
            block += left_terms @ right_terms[columns].T
    return out


def _term_dtype(count: int, dtype: type) -> type:
    """Return the precision of the explicit terms: they are many, and of small variance."""
    return np.float32 if count > _FLOAT32_PAIRS else dtype


# --------------------------------------------------------------- evidence and its maximisation


@dataclass(frozen=True)
class SearchOptions:
    """How the hyperparameters are looked for.

    Attributes:
        pairs: Pairs of the random subsample on which the evidence is maximised.
        iterations: Upper bound on the quasi-Newton iterations.
        shrinkage: Precision of the Gaussian hyperprior that pulls ``log a_i`` to their mean.
        usual_noise: Centre of the hyperprior of the noise. Small samples do not tell noise from
            interactions; large ones of a noise-free game overrule it by hundreds of nats.
        noise_shrinkage: Precision of that hyperprior, on the logarithm.
        start_rate: Rate of the most important player at the start.
        noise_floor: Smallest noise, relative to the variance of the targets.
    """

    pairs: int = 500
    iterations: int = 30
    shrinkage: float = 0.5
    usual_noise: float = 1e-2
    noise_shrinkage: float = 0.05
    start_rate: float = 0.3
    noise_floor: float = 1e-10


def negative_log_evidence(
    theta: np.ndarray, x: np.ndarray, targets: np.ndarray, features: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return minus the log marginal likelihood and its gradient (eq. 5 and 6).

    Args:
        theta: Logarithms of ``a_1 .. a_n``, main, product, term scale and noise; ``(n + 4,)``.
        x: Sign rows, shape ``(m, n)``.
        targets: Odd values, scaled, shape ``(m,)``.
        features: Characters of the explicit terms times the roots of their relative variances,
            shape ``(m, t)``.

    Returns:
        The value and the gradient in ``theta``; a huge value where the matrix is not definite.
    """
    m, n = x.shape
    rates = np.exp(theta[:n])
    main, product, term_scale, noise = np.exp(theta[n:])
    exponent = (x * rates) @ x.T
    scale = log(product) - _log_sinh(float(rates.sum()))
    plus, minus = np.exp(scale + exponent), np.exp(scale - exponent)
    sinh, cosh = 0.5 * (plus - minus), 0.5 * (plus + minus)
    matrix = sinh + (main / n) * (x @ x.T) + term_scale * (features @ features.T)
    matrix.flat[:: m + 1] += noise
    try:
        factor = cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return 1e25, np.zeros_like(theta)
    inverse, _ = lapack.get_lapack_funcs(("potri",), (factor,))[0](factor, lower=True)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    alpha = inverse @ targets
    outer = 0.5 * (inverse - np.outer(alpha, alpha))
    by_product = float(np.vdot(outer, sinh))
    by_rate = _quadratic(x, outer * cosh) - by_product / np.tanh(rates.sum())
    gradient = np.concatenate(
        [
            by_rate * rates,
            [
                main / n * _quadratic(x, outer).sum(),
                by_product,
                term_scale * _quadratic(features, outer).sum(),
                noise * np.trace(outer),
            ],
        ]
    )
    value = 0.5 * float(targets @ alpha) + float(np.log(np.diag(factor)).sum())
    return value, gradient


def _quadratic(columns: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Return ``c' M c`` of every column ``c``."""
    return np.einsum("ji,ji->i", columns, matrix @ columns)


def search_hyperparameters(
    x: np.ndarray,
    targets: np.ndarray,
    *,
    importance: np.ndarray,
    terms: np.ndarray,
    term_scores: np.ndarray,
    options: SearchOptions,
) -> OddKernel:
    """Maximise the evidence, with a hyperprior on the spread of the rates (eq. 7).

    Args:
        x: Sign rows of the subsample, shape ``(m, n)``.
        targets: Odd values, scaled, shape ``(m,)``.
        importance: Importance of every player in the proxy's spectrum, shape ``(n,)``.
        terms: Screened higher-order terms, shape ``(t, n)``.
        term_scores: Their coefficients in the proxy, shape ``(t,)``.
        options: Options of the search.

    Returns:
        The kernel found. Its term variances are proportional to the squared scores.
    """
    n = x.shape[1]
    relative = term_scores**2
    relative = relative / relative.sum() if relative.sum() > 0 else np.zeros(len(terms))
    features = characters(x, terms) * np.sqrt(relative)
    top = importance.max(initial=0.0)
    share = importance / top if top > 0 else np.full(n, 0.3)
    start = np.log(
        np.concatenate(
            [
                np.maximum(options.start_rate * share, 0.01 * options.start_rate),
                [0.3, 1.0, 0.05, 1e-3],
            ]
        )
    )
    bounds = [(log(1e-4), log(2.0))] * n
    bounds += [(log(low), log(high)) for low, high in _SCALE_BOUNDS]
    bounds.append((log(options.noise_floor), log(10.0)))

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = negative_log_evidence(theta, x, targets, features)
        spread = theta[:n] - theta[:n].mean()
        gradient[:n] += options.shrinkage * spread
        excess = theta[-1] - log(options.usual_noise)
        gradient[-1] += options.noise_shrinkage * excess
        value += 0.5 * options.shrinkage * float(spread @ spread)
        return value + 0.5 * options.noise_shrinkage * excess**2, gradient

    theta = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": options.iterations},
    ).x
    main, product, term_scale, noise = np.exp(theta[n:])
    return OddKernel(np.exp(theta[:n]), main, product, terms, term_scale * relative, noise)


_SCALE_BOUNDS = ((1e-8, 1e4), (1e-8, 1e4), (1e-8, 1e3))
"""Bounds of the scales of main effects, product part and explicit terms."""


# ------------------------------------------------------------------ a sparser prior


@dataclass(frozen=True)
class SparseOptions:
    """How single interactions get variances of their own (eq. 13 and 14).

    Attributes:
        rounds: Rounds of expectation maximisation over the variances of single terms.
        product_share: What the product part keeps of its variance in the first round.
        terms_per_pair: Explicit terms kept, per pair.
        most_noise: Above this noise, relative to the targets, no rounds are made: there the
            coefficients are not sparse, and variances of their own only follow the noise.
        pairs_per_player: With fewer pairs no rounds are made: they would follow the sample.
        powers: Penalties of the search for an exactly sparse function, see :func:`sharpen`.
        sharpen_pairs: That search is made up to so many pairs: past them it takes too long.
        max_triples: Triples are scanned among the players of the largest rates, as many as make
            no more triples than this.
    """

    rounds: int = 4
    product_share: float = 0.7
    terms_per_pair: float = 0.5
    most_noise: float = 1e-4
    pairs_per_player: float = 8.0
    powers: tuple[float, ...] = (1.0, 1.0, 1.0, 0.7, 0.5, 0.3, 0.0)
    sharpen_pairs: int = 1500
    max_triples: int = 180_000


def product_variances(kernel: OddKernel, terms: np.ndarray) -> np.ndarray:
    """Return the variances that the product part gives to some odd terms, ``(t,)`` (eq. 3).

    ``sinh(sum a_i x_i x'_i) = sum_{|T| odd} prod cosh(a) prod_{i in T} tanh(a_i) chi_T chi'_T``.
    """
    return np.exp(_empty_log_variance(kernel) + terms @ np.log(np.tanh(kernel.rates)))


def _empty_log_variance(kernel: OddKernel) -> float:
    """Return the logarithm of the factor that all terms of the product part share (eq. 3)."""
    log_cosh = np.logaddexp(kernel.rates, -kernel.rates) - log(2.0)
    return kernel.product_log_scale + float(log_cosh.sum())


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
            np.exp(_empty_log_variance(kernel) + log_ratio),
            product_variances(kernel, others),
        ]
    )
    explicit = np.concatenate([np.zeros(len(triples)), kernel.term_variances[place < 0]])
    explicit[place[place >= 0]] += kernel.term_variances[place >= 0]
    variances = product + explicit
    sums = np.concatenate([triple_sums(x, alpha, triples), characters(x, others).T @ alpha])
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


# ------------------------------------------------------------------------------ posterior


def factorise(
    kernel: OddKernel, x: np.ndarray, dtype: type = np.float64
) -> tuple[np.ndarray, OddKernel]:
    """Return the Cholesky factor of the noisy Gram matrix (eq. 5), row 0 being noise-free.

    The noise is raised tenfold until the matrix is definite, and returned with the kernel.
    """
    rounding = 8.0 * np.finfo(dtype).eps * (kernel.main + kernel.product)
    rounding += 8.0 * np.finfo(_term_dtype(len(x), dtype)).eps * kernel.term_variances.sum()
    noise = max(kernel.noise, float(rounding))
    while True:
        matrix = gram(kernel, x, x, dtype, lower=True)
        diagonal = matrix.reshape(-1)[:: len(x) + 1]
        diagonal[0] += max(_EFFICIENCY_NOISE, float(rounding))
        diagonal[1:] += noise
        try:
            # the transpose has LAPACK's order: factored in place, as U'U, and not copied
            factor = cholesky(matrix.T, lower=False, overwrite_a=True, check_finite=False).T
        except LinAlgError:
            noise *= 10.0
        else:
            return factor, replace(kernel, noise=noise)


def solve(factor: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve ``L L' z = right`` with the factor of :func:`factorise`."""
    # its transpose has LAPACK's order: the other way round the matrix would be copied
    return cho_solve((factor.T, False), right, check_finite=False)


def shapley_functionals(kernel: OddKernel, x: np.ndarray) -> np.ndarray:
    r"""Return the Shapley values of the kernel functions ``k(., x_j)`` (eq. 9 to 11).

    Args:
        kernel: The prior.
        x: Sign rows, shape ``(m, n)``.

    Returns:
        ``phi_i(k(., x_j))`` in row j and column i, shape ``(m, n)``. The Shapley values of a
        posterior mean are its dual weights times this matrix.
    """
    n = x.shape[1]
    out = (-2.0 * kernel.main / n) * x
    orders = kernel.terms.sum(axis=1)
    if len(orders):
        scale = -2.0 * kernel.term_variances / orders
        for start in range(0, len(x), _BLOCK):
            rows = slice(start, start + _BLOCK)
            out[rows] += (characters(x[rows], kernel.terms) * scale) @ kernel.terms.astype(float)
    rho, offset = np.tanh(kernel.rates), _empty_log_variance(kernel)
    for node, weight in _legendre(min((n + 2) // 2, _MAX_NODES)):
        along = node * rho
        shrink = np.log1p(-(along**2))
        density = np.exp(offset + 0.5 * shrink.sum() + x @ np.arctanh(along))
        slope = weight * -rho * np.exp(-shrink)
        out += (density[:, None] * (x - along)) * slope
    return out


def _legendre(count: int) -> Iterator[tuple[float, float]]:
    """Yield the nodes and weights of Gauss-Legendre quadrature on [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    yield from zip(nodes.tolist(), weights.tolist(), strict=True)


def shapley_prior_variances(kernel: OddKernel) -> np.ndarray:
    r"""Return the prior variances of the Shapley values, ``(n,)`` (eq. 12).

    ``Var phi_i = sum_{T: i in T} 4 nu_T / |T|^2``, where ``1 / |T|^2`` is the integral of
    ``-log(s) s^(|T| - 1)`` over [0, 1] and turns the sum over the product part into products.
    """
    n = len(kernel.rates)
    orders = kernel.terms.sum(axis=1)
    variances = np.full(n, 4.0 * kernel.main / n)
    variances += (4.0 * kernel.term_variances / orders**2) @ kernel.terms
    rho, offset = np.tanh(kernel.rates), _empty_log_variance(kernel)
    for node, weight in _legendre(_LOG_NODES):
        # s = u^4 flattens the logarithm at zero, where Gauss-Legendre would be slow
        u = 0.5 * (node + 1.0)
        s, jacobian = u**4, 4.0 * u**3 * 0.5 * weight
        plus, minus = np.log1p(s * rho), np.log1p(-s * rho)
        others = np.exp(offset + plus.sum() - plus) + np.exp(offset + minus.sum() - minus)
        variances += 4.0 * jacobian * -np.log(s) * rho * 0.5 * others
    return variances


def inverse_trace(factor: np.ndarray) -> float:
    """Estimate the trace of the inverse of ``L L'`` by random signs (Hutchinson)."""
    # fixed signs: the estimate is a function of the matrix, and the caller's generator is not used
    probes = np.random.default_rng(0).choice([-1.0, 1.0], (len(factor), _PROBES))
    half = solve_triangular(factor, probes.astype(factor.dtype), lower=True, check_finite=False)
    return float(np.sum(half.astype(np.float64) ** 2)) / _PROBES


_PROBES = 12
"""Random sign vectors that estimate a trace."""


def shapley_posterior_variances(
    kernel: OddKernel, factor: np.ndarray, functionals: np.ndarray
) -> np.ndarray:
    """Return the posterior variances of the Shapley values, ``(n,)`` (eq. 12).

    Args:
        kernel: The prior.
        factor: Lower Cholesky factor of the noisy Gram matrix, shape ``(m, m)``.
        functionals: Shapley values of the kernel functions, shape ``(m, n)``.
    """
    half = solve_triangular(factor, functionals, lower=True, check_finite=False)
    return np.maximum(shapley_prior_variances(kernel) - (half**2).sum(axis=0), 0.0)


# ------------------------------------------------------------------------------ corrections


@dataclass(frozen=True)
class Strata:
    """Which size each pair has, and how many there are of it.

    Attributes:
        sizes: Size of every pair's first member, shape ``(m,)``.
        drawn: Pairs drawn of the same (unordered) size, shape ``(m,)``.
        unseen: Share of the pairs of that size that were not drawn, shape ``(m,)``.
    """

    sizes: np.ndarray
    drawn: np.ndarray
    unseen: np.ndarray

    @classmethod
    def of(cls, coalitions: np.ndarray) -> Strata:
        """Count the sizes of one coalition per pair, shape ``(m, n)``."""
        n = coalitions.shape[1]
        sizes = coalitions.sum(axis=1)
        small = np.minimum(sizes, n - sizes)
        drawn = np.bincount(small, minlength=n + 1)[small]
        log_population = gammaln(n + 1.0) - gammaln(small + 1.0) - gammaln(n - small + 1.0)
        log_population -= np.where(2 * small == n, log(2.0), 0.0)
        unseen = -np.expm1(np.minimum(np.log(drawn) - log_population, 0.0))
        # log-binomials are rounded: an enumerated size must count as such
        return cls(sizes, drawn, np.where(unseen < 1e-9, 0.0, unseen))


def msr_weights(coalitions: np.ndarray, strata: Strata) -> np.ndarray:
    """Return the weights of the odd values in the Shapley values, estimated per size (eq. 15).

    ``phi_i = sum_s mean_{|S| = s} 2 f_odd(S) (1[i in S] / s - 1[i not in S] / (n - s))`` over
    one member of each pair: the mean over the pairs drawn estimates that over all of them.

    Args:
        coalitions: One member of each pair, shape ``(m, n)``.
        strata: Their sizes.

    Returns:
        The weights, shape ``(m, n)``.
    """
    n = coalitions.shape[1]
    sizes = strata.sizes[:, None]
    share = np.where(coalitions, 1.0 / sizes, -1.0 / (n - sizes))
    # at s = n/2 a pair's two members have the same size: its stratum is one mean, not two
    factor = np.where(2 * strata.sizes == n, 1.0, 2.0) / strata.drawn
    return share * factor[:, None]


def msr_correction(coalitions: np.ndarray, residuals: np.ndarray, strata: Strata) -> np.ndarray:
    """Return the Shapley values of what the model left over, shape ``(n,)`` (eq. 15)."""
    return residuals @ msr_weights(coalitions, strata)


def msr_variances(coalitions: np.ndarray, errors: np.ndarray, strata: Strata) -> np.ndarray:
    """Return the sampling variances of the correction, shape ``(n,)`` (eq. 16).

    Within a size the pairs are a simple random sample without replacement, so every one of them
    adds the square of its term, times the share of its size that was not drawn.

    Args:
        coalitions: One member of each pair, shape ``(m, n)``.
        errors: Errors of the model at pairs that it has not seen, shape ``(m,)``.
        strata: The sizes.
    """
    weights = msr_weights(coalitions, strata)
    return (errors**2 * strata.unseen) @ weights**2


def calibrated_variances(
    posterior: np.ndarray,
    residuals: np.ndarray,
    *,
    coalitions: np.ndarray,
    sub: np.ndarray,
    alpha: np.ndarray,
    noise: float,
    trace: float,
    hyperparameters: int,
) -> np.ndarray:
    """Blend the posterior variances with those of the correction (eq. 17).

    With ``c = tr K^-1 / m`` the leave-one-out residuals are about ``alpha / c``, their variances
    about ``1 / c``, and ``q = noise * c`` is the share of the data that the process leaves to
    noise. Where it interpolates (q near 0) the posterior variance holds, scaled up if the
    leave-one-out residuals are larger than it says; where it smooths (q near 1) the estimate is a
    correction of a fixed model, and the sampling variance of the correction holds.

    Args:
        posterior: Posterior variances, shape ``(n,)``.
        residuals: Residuals of the posterior mean at all pairs, shape ``(m,)``.
        coalitions: One member of each pair, shape ``(m, n)``.
        sub: Pairs that the process was conditioned on, shape ``(k,)``.
        alpha: Dual weights, the noise-free row first, shape ``(k + 1,)``.
        noise: The noise used.
        trace: ``tr K^-1``.
        hyperparameters: How many variances the prior's fit chose.
    """
    per_row = trace / len(alpha)
    share = min(noise * per_row, 1.0)
    misfit = max(float(np.mean(alpha[1:] ** 2)) / per_row, 1.0)
    # the prior was fitted to the same data, which costs it degrees of freedom
    fitted = len(sub) / max(len(sub) - hyperparameters, _FREEDOM_KEPT * len(sub))
    errors = residuals.copy()
    errors[sub] = alpha[1:] / per_row
    sampling = msr_variances(coalitions, errors, Strata.of(coalitions))
    return fitted * ((1.0 - share) * misfit * posterior + share * sampling)


_FREEDOM_KEPT = 0.25
"""Share of the degrees of freedom that is left at least, where hyperparameters outnumber pairs."""


def sparse_fit(
    coalitions: np.ndarray, odd_values: np.ndarray, total: float, terms: np.ndarray
) -> np.ndarray | None:
    """Return the Shapley values if main effects and the given terms are the whole game.

    Whether they are is asked of the equations that are left over: with as few more equations than
    unknowns as one, a function of another kind leaves a residual.

    Args:
        coalitions: One member of each pair, shape ``(m, n)``.
        odd_values: Their odd values, shape ``(m,)``.
        total: ``f(N) - f(empty)``.
        terms: Odd terms besides the main effects, shape ``(t, n)``.

    Returns:
        The values, shape ``(n,)``, or ``None`` if the data contradict or do not determine them.
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
        solution = cho_solve((cholesky(rows.T @ rows, lower=True), True), rows.T @ values)
    except LinAlgError:
        return None
    if np.abs(rows @ solution - values).max() > _SPARSE_TOLERANCE * scale:
        return None
    solution, _, rank, _ = np.linalg.lstsq(rows, values, rcond=1e-10)
    if rank < len(unknowns) or np.abs(rows @ solution - values).max() > _SPARSE_TOLERANCE * scale:
        return None
    return shapley_values(solution, unknowns)


_SPARSE_TOLERANCE = 5e-6
"""Relative residual that counts as none: sums of trees in single precision round at 1e-6."""


# ------------------------------------------------------------------------------ the estimator


@dataclass(frozen=True)
class OddGPFit:
    """Shapley values and their variances.

    Attributes:
        values: Shapley values; they sum to the total, shape ``(n,)``.
        variances: Their variances, shape ``(n,)``.
        kernel: The prior that was found, relative to ``scale**2``; ``None`` if none was needed.
        scale: Root mean square of the targets.
        model: ``"constant"``, ``"additive"``, ``"sparse"`` or ``"gp"``.
        pairs: Pairs that the process was conditioned on.
    """

    values: np.ndarray
    variances: np.ndarray
    kernel: OddKernel | None
    scale: float
    model: str
    pairs: int


def fit_odd_gp(
    coalitions: np.ndarray,
    odd_values: np.ndarray,
    total: float,
    *,
    importance: np.ndarray,
    terms: np.ndarray,
    term_scores: np.ndarray,
    rng: np.random.Generator,
    search: SearchOptions | None = None,
    sparse: SparseOptions | None = None,
    max_pairs: int = 8000,
) -> OddGPFit:
    """Estimate Shapley values by the odd Gaussian process and a correction on its residuals.

    Args:
        coalitions: One member of each complementary pair, none empty or full, ``(m, n)``.
        odd_values: ``(f(S) - f(S^c)) / 2``, shape ``(m,)``.
        total: ``f(N) - f(empty)``.
        importance: Importance of every player in the proxy's spectrum, zeros if unknown, ``(n,)``.
        terms: Odd terms of order three and more that a proxy favours, may be empty, ``(t, n)``.
        term_scores: The proxy's coefficients of those terms, ``(t,)``.
        rng: Draws the subsample of the search, and that of the process past ``max_pairs``.
        search: Options of the hyperparameter search.
        sparse: Options of the reweighting.
        max_pairs: Pairs that the process is conditioned on at most; the correction uses all.

    Returns:
        The fit.
    """
    search, sparse = search or SearchOptions(), sparse or SparseOptions()
    n = coalitions.shape[1]
    targets = np.concatenate([[-0.5 * total], odd_values])
    # the maximum first: squares of huge or tiny values would leave the range of a double
    top = float(np.abs(targets).max())
    if top == 0.0:
        return OddGPFit(np.zeros(n), np.zeros(n), None, 0.0, "constant", 0)
    if len(coalitions) == 0:
        return OddGPFit(np.full(n, total / n), np.zeros(n), None, top, "constant", 0)
    no_terms = np.zeros((0, n), dtype=bool)
    additive = sparse_fit(coalitions, odd_values / top, total / top, no_terms)
    if additive is not None:
        values = _efficient(additive * top, total)
        return OddGPFit(values, np.zeros(n), None, top, "additive", len(coalitions))
    scale = top * float(np.sqrt(np.mean((targets / top) ** 2)))
    targets = targets / scale
    order = rng.permutation(len(coalitions))
    part, sub = order[: search.pairs], np.sort(order[:max_pairs])
    prior = search_hyperparameters(
        signs(coalitions[part]),
        targets[1:][part],
        importance=importance,
        terms=terms,
        term_scores=term_scores,
        options=search,
    )
    rows = np.concatenate([[0], sub + 1])
    data = _Data(np.vstack([np.ones((1, n)), signs(coalitions[sub])]), targets[rows])
    kernel, candidate = reweight(prior, data, sparse)
    if candidate is not None:
        exact = sparse_fit(coalitions, odd_values / top, total / top, candidate)
        if exact is not None:
            values = _efficient(exact * top, total)
            variances = np.full(n, (_SPARSE_TOLERANCE * top) ** 2)
            return OddGPFit(values, variances, kernel, scale, "sparse", len(sub))
    hyperparameters = n + 4 + (0 if kernel is prior else len(kernel.terms))
    values, variances, kernel = _estimate(
        kernel, data, coalitions, targets[1:], sub=sub, hyperparameters=hyperparameters
    )
    values = _efficient(values * scale, total)
    return OddGPFit(values, variances * scale**2, kernel, scale, "gp", len(sub))


def _estimate(
    kernel: OddKernel,
    data: _Data,
    coalitions: np.ndarray,
    targets: np.ndarray,
    *,
    sub: np.ndarray,
    hyperparameters: int,
) -> tuple[np.ndarray, np.ndarray, OddKernel]:
    """Return the corrected values, their variances, and the kernel with the noise used."""
    factor, kernel = factorise(kernel, data.x)
    alpha = solve(factor, data.targets)
    functionals = shapley_functionals(kernel, data.x)
    residuals = _residuals(kernel, data.x, alpha, coalitions=coalitions, targets=targets, sub=sub)
    correction = msr_correction(coalitions, residuals, Strata.of(coalitions))
    variances = calibrated_variances(
        shapley_posterior_variances(kernel, factor, functionals),
        residuals,
        coalitions=coalitions,
        sub=sub,
        alpha=alpha,
        noise=kernel.noise,
        trace=inverse_trace(factor),
        hyperparameters=hyperparameters,
    )
    return alpha @ functionals + correction, variances, kernel


def _efficient(values: np.ndarray, total: float) -> np.ndarray:
    """Spread what is missing to the total evenly."""
    return values + (total - values.sum()) / len(values)


@dataclass(frozen=True)
class _Data:
    """What the process is conditioned on: sign rows, the noise-free one first, and targets."""

    x: np.ndarray
    targets: np.ndarray

    @property
    def pairs(self) -> int:
        return len(self.targets) - 1

    def every(self, step: int) -> _Data:
        """Return the noise-free row and every ``step``-th pair."""
        rows = np.concatenate([[0], np.arange(1, len(self.targets), step)])
        return _Data(self.x[rows], self.targets[rows])


def _posterior(kernel: OddKernel, data: _Data, triples: np.ndarray) -> TermPosterior:
    """Solve for the posterior of the terms, in single precision where that saves time."""
    dtype = np.float32 if data.pairs > _FLOAT32_PAIRS else np.float64
    factor, _ = factorise(kernel, data.x, dtype)
    alpha = solve(factor, data.targets.astype(dtype))
    # characters look like random signs, so the trace of K^-1 stands for all chi' K^-1 chi
    precision = inverse_trace(factor)
    return term_posterior(kernel, data.x, alpha.astype(np.float64), precision, triples)


_FLOAT32_PAIRS = 1500
"""Above so many pairs the reweighting, which only ranks and weighs terms, is in float32."""


def reweight(
    kernel: OddKernel, data: _Data, options: SparseOptions
) -> tuple[OddKernel, np.ndarray | None]:
    """Give single interactions variances of their own, and look for an exactly sparse function.

    Returns:
        The kernel, and the terms of a candidate for :func:`sparse_fit` or ``None``.
    """
    if options.rounds == 0 or kernel.noise > options.most_noise:
        return kernel, None
    if data.pairs < options.pairs_per_player * data.x.shape[1]:
        return kernel, None
    triples = all_triples(scanned_players(kernel.rates, options.max_triples))
    count = int(options.terms_per_pair * data.pairs)
    for done in range(options.rounds):
        # the last round sees all pairs, those before it half of many
        last = done + 1 == options.rounds
        some = data if last or data.pairs <= _FLOAT32_PAIRS else data.every(2)
        posterior = _posterior(kernel, some, triples)
        share = options.product_share if done == 0 else 1.0
        kernel = expectation_maximisation(kernel, posterior, count, share)
    if data.pairs > options.sharpen_pairs:
        return kernel, None
    return kernel, sharpen(kernel, data, triples, options)


def sharpen(
    kernel: OddKernel, data: _Data, triples: np.ndarray, options: SparseOptions
) -> np.ndarray:
    """Look for the sparsest function through the data: l1 first, then ever closer to l0 (eq. 14).

    Returns:
        The terms that are left, at most a third as many as there are pairs, shape ``(t, n)``.
    """
    for step, power in enumerate(options.powers):
        if step == 3:
            kernel = _with_unions(kernel)
        posterior = _posterior(kernel, data, triples)
        kernel = penalised(kernel, posterior, 3 * data.pairs, power, _SHARPEN_SHARE)
    keep = np.argsort(-kernel.term_variances, kind="stable")[: data.pairs // 4]
    keep = keep[kernel.term_variances[keep] > 1e-7 * kernel.term_variances.max(initial=0.0)]
    return pursue(kernel.terms[keep], data, triples)


def pursue(terms: np.ndarray, data: _Data, triples: np.ndarray) -> np.ndarray:
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
        if np.abs(residuals).max() <= _SPARSE_TOLERANCE:
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


def _residuals(
    kernel: OddKernel,
    x: np.ndarray,
    alpha: np.ndarray,
    *,
    coalitions: np.ndarray,
    targets: np.ndarray,
    sub: np.ndarray,
) -> np.ndarray:
    """Return targets minus posterior means at all pairs, conditioned on or not, ``(m,)``."""
    residuals = np.empty(len(coalitions))
    residuals[sub] = kernel.noise * alpha[1:]
    rest = np.setdiff1d(np.arange(len(coalitions)), sub, assume_unique=True)
    for start in range(0, len(rest), _BLOCK):
        rows = rest[start : start + _BLOCK]
        residuals[rows] = targets[rows] - gram(kernel, signs(coalitions[rows]), x) @ alpha
    return residuals
