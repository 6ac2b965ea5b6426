"""The marginal likelihood and its maximisation (``docs/odd-gp.md``, equations 5 to 7)."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, lapack
from scipy.optimize import minimize

from shapiq_oddshap.gp.kernel import OddKernel, characters, log_sinh

__all__ = ["SearchOptions", "negative_log_evidence", "search_hyperparameters"]


@dataclass(frozen=True)
class SearchOptions:
    """How the hyperparameters are looked for.

    Attributes:
        pairs: Pairs of the random subsample on which the evidence is maximised at last, at least:
            a third of all where that is more, since the time of all that follows grows with them.
        most_pairs: So many at most.
        iterations: Upper bound on the quasi-Newton iterations there.
        first_pairs: So many of them make the start: a step costs the cube of the pairs.
        first_iterations: Upper bound on the iterations on those.
        shrinkage: Precision of the Gaussian hyperprior that pulls ``log a_i`` to their mean.
        usual_noise: Centre of the hyperprior of the noise. Small samples do not tell noise from
            interactions; large ones of a noise-free game overrule it by hundreds of nats.
        noise_shrinkage: Precision of that hyperprior, on the logarithm.
        start_rate: Rate of the most important player at the start.
        noise_floor: Smallest noise, relative to the variance of the targets.
    """

    pairs: int = 900
    most_pairs: int = 1300
    iterations: int = 10
    first_pairs: int = 400
    first_iterations: int = 30
    shrinkage: float = 0.5
    usual_noise: float = 1e-2
    noise_shrinkage: float = 0.05
    start_rate: float = 0.3
    noise_floor: float = 1e-10

    def count(self, pairs: int) -> int:
        """Return how many of so many pairs are searched."""
        return min(max(self.pairs, pairs // 3), self.most_pairs, pairs)


def negative_log_evidence(
    theta: np.ndarray,
    x: np.ndarray,
    targets: np.ndarray,
    linear: np.ndarray,
    explicit: np.ndarray,
) -> tuple[float, np.ndarray]:
    """Return minus the log marginal likelihood and its gradient (eq. 5 and 6).

    Args:
        theta: Logarithms of ``a_1 .. a_n``, main, product, term scale and noise; ``(n + 4,)``.
        x: Sign rows, shape ``(m, n)``.
        targets: Odd values, scaled, shape ``(m,)``.
        linear: The products of the sign rows, ``x @ x.T``, shape ``(m, m)``.
        explicit: Kernel matrix of the explicit terms at their relative variances, ``(m, m)``.

    Returns:
        The value and the gradient in ``theta``; a huge value where the matrix is not definite.
    """
    m, n = x.shape
    rates = np.exp(theta[:n])
    main, product, term_scale, noise = np.exp(theta[n:])
    scale = log(product / 2) - log_sinh(float(rates.sum()))
    # in place where it can be: at these sizes new memory takes as long as the arithmetic
    exponent = (x * rates) @ x.T
    exponent += scale
    cosh = np.exp(exponent)
    np.subtract(2.0 * scale, exponent, out=exponent)
    minus = np.exp(exponent, out=exponent)
    sinh = cosh - minus
    cosh += minus
    spare = minus
    matrix = term_scale * explicit
    matrix += sinh
    matrix += np.multiply(linear, main / n, out=spare)
    matrix.flat[:: m + 1] += noise
    try:
        # the transpose has LAPACK's order, and the matrix is symmetric
        factor = cholesky(matrix.T, lower=False, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return 1e25, np.zeros_like(theta)
    alpha = cho_solve((factor, False), targets, check_finite=False)
    value = 0.5 * float(targets @ alpha) + float(np.log(np.diag(factor)).sum())
    # W of eq. 6 as a triangle that holds both halves: it meets symmetric matrices only
    inverse, _ = lapack.dpotri(factor, lower=False, overwrite_c=True)
    outer = inverse.T
    outer.flat[:: m + 1] *= 0.5
    outer -= np.outer(0.5 * alpha, alpha, out=spare)
    by_product = float(np.vdot(outer, sinh))
    cosh *= outer
    by_rate = np.einsum("ji,ji->i", x, cosh @ x) - by_product / np.tanh(rates.sum())
    gradient = np.concatenate(
        [
            by_rate * rates,
            [
                main / n * float(np.vdot(outer, linear)),
                by_product,
                term_scale * float(np.vdot(outer, explicit)),
                noise * np.trace(outer),
            ],
        ]
    )
    return value, gradient


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
    explicit, linear = features @ features.T, x @ x.T
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

    def objective(theta: np.ndarray, count: int) -> tuple[float, np.ndarray]:
        some = slice(count)
        value, gradient = negative_log_evidence(
            theta, x[some], targets[some], linear[some, some], explicit[some, some]
        )
        spread = theta[:n] - theta[:n].mean()
        gradient[:n] += options.shrinkage * spread
        excess = theta[-1] - log(options.usual_noise)
        gradient[-1] += options.noise_shrinkage * excess
        value += 0.5 * options.shrinkage * float(spread @ spread)
        return value + 0.5 * options.noise_shrinkage * excess**2, gradient

    first = min(options.first_pairs, len(x))
    theta = start
    for count, iterations in ((first, options.first_iterations), (len(x), options.iterations)):
        if count == first and theta is not start:
            break  # all pairs were there from the first
        theta = minimize(
            objective,
            theta,
            args=(count,),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": iterations},
        ).x
    main, product, term_scale, noise = np.exp(theta[n:])
    return OddKernel(np.exp(theta[:n]), main, product, terms, term_scale * relative, noise)


_SCALE_BOUNDS = ((1e-8, 1e4), (1e-8, 1e4), (1e-8, 1e3))
"""Bounds of the scales of main effects, product part and explicit terms."""
