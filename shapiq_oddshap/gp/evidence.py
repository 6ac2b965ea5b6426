"""The marginal likelihood and its maximisation (``docs/odd-gp.md``, equations 5 to 7)."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy.linalg import blas, lapack, qr
from scipy.optimize import minimize

from shapiq_oddshap.gp.observations import EFFICIENCY_NOISE
from shapiq_oddshap.gp.parts import OnRows, Terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scipy.optimize import OptimizeResult

    from shapiq_oddshap.gp.kernel import Kernel
    from shapiq_oddshap.gp.observations import Observations
    from shapiq_oddshap.gp.parts import Part

__all__ = [
    "Evidence",
    "SearchOptions",
    "climb",
    "maximise_evidence",
    "search_alone",
    "search_hyperparameters",
    "without_idle_parts",
]

_MOST_NOISE = 10.0

_TO_THE_END = 1e-9
"""The tolerance of a search that its iterations alone end."""


@dataclass(frozen=True)
class SearchOptions:
    """How the hyperparameters are looked for.

    Attributes:
        pairs: Pairs of the random subsample on which the evidence is maximised at last, at least:
            a third of all where that is more, since the time of all that follows grows with them.
        most_pairs: So many at most.
        iterations: Upper bound on the quasi-Newton iterations there.
        first_pairs: So many of them make the start at most, since a step costs the cube of the pairs,
            and a quarter of that at least. In between it is half of all, or all but half of that.
        first_iterations: Upper bound on the iterations on those, from the kernel without the parts of
            the size.
        sized_iterations: The same, from the kernel with them; where there is little noise half of it,
            from where the others have been found.
        little_noise: Up to this noise, relative to the targets, the first search goes on for as
            long again, and so does that of one of several outputs: where there is none, the optimum
            is far away on a flat way, and parts of the size would be taken that are not needed.
        shrinkage: Precision of the hyperprior that pulls ``log a_i`` to their mean: Student's, since
            a few players may stand far out.
        freedom: Its degrees of freedom.
        usual_noise: Centre of the hyperprior of the noise. Small samples do not tell noise from
            interactions; large ones of a noise-free game overrule it by hundreds of nats.
        noise_shrinkage: Precision of that hyperprior, on the logarithm.
        noise_floor: Smallest noise, relative to the variance of the targets.
        least_worth: Nats that a part of the size with rates of its own has to be worth at the start to
            be searched on.
        own_iterations: Upper bound on the iterations of one of several outputs from the joint
            maximum on.
        last_iterations: The same on all of its pairs, if it has gained; without noise ``iterations``.
        own_precision: Precision of the hyperprior that pulls its logarithms to that.
        quiet_precision: The same where the joint maximum has little noise: outputs without noise show
            what they do not have in common.
        tolerance: A search ends where an iteration lowers the value by less than this share of it:
            past some fifteen iterations the rest is hundredths of nats, unless there is no noise.
        give_up: Noise after the first search above which that is the end of it.
        least_gain: Nats that the evidence of an output has to gain for a kernel of its own.
    """

    pairs: int = 900
    most_pairs: int = 1300
    iterations: int = 10
    first_pairs: int = 400
    first_iterations: int = 30
    sized_iterations: int = 20
    little_noise: float = 1e-4
    shrinkage: float = 2.0
    freedom: float = 3.0
    usual_noise: float = 1e-2
    noise_shrinkage: float = 0.05
    noise_floor: float = 1e-10
    least_worth: float = 0.1
    own_iterations: int = 8
    last_iterations: int = 3
    own_precision: float = 1.0
    quiet_precision: float = 0.3
    give_up: float = inf
    least_gain: float = 5.0
    tolerance: float = 1e-4

    def count(self, pairs: int) -> int:
        """Return how many of so many pairs are searched."""
        return min(max(self.pairs, pairs // 3), self.most_pairs, pairs)

    def first(self, data: Observations) -> Observations:
        """Return those that make the start."""
        most, pairs = self.first_pairs, data.pairs
        return data.first(min(max(most // 4, pairs // 2, pairs - most // 2), most))


class Evidence:
    """Minus the log marginal likelihood as a function of all hyperparameters' logarithms.

    The vector ``theta`` holds the shapes of all parts, then their variances, then the noise. Of
    several outputs it is the sum of their log marginal likelihoods.
    """

    def __init__(self, kernel: Kernel, data: Observations) -> None:
        """Prepare what does not change from step to step.

        Args:
            kernel: Which parts there are; :meth:`start` is where it stands.
            data: The observations; their targets are of shape ``(m + 1,)`` or ``(m + 1, k)``.
        """
        x = data.x
        self._kernel = kernel
        self._outputs = 1 if data.targets.ndim == 1 else data.targets.shape[1]
        self._targets = _square(data.targets)
        self._exact = data.exact
        self._share = 1.0 if self._outputs == 1 else _independent(self._targets) / self._outputs
        on_rows = [part.on(x) for part in kernel.parts]
        # parts of one matrix are added up, and meet the weights, by one product
        fixed = np.array([type(rows) is OnRows for rows in on_rows])
        self._fixed, others = np.flatnonzero(fixed), np.flatnonzero(~fixed).tolist()
        self._matrices = np.array([on_rows[k].matrix for k in self._fixed])
        self._matrices = self._matrices.reshape(len(self._fixed), len(x) ** 2)
        self._others = [(k, on_rows[k]) for k in others]
        ends = np.cumsum([len(part.shape) for part in kernel.parts])
        self._shapes = [
            slice(end - len(part.shape), end)
            for part, end in zip(kernel.parts, ends.tolist(), strict=True)
        ]
        self._variances = slice(ends[-1], ends[-1] + len(kernel.parts))

    @property
    def start(self) -> np.ndarray:
        """The logarithms of the kernel's own hyperparameters."""
        parts = self._kernel.parts
        shapes, variances = [part.shape for part in parts], [part.variance for part in parts]
        return np.log(np.concatenate([*shapes, variances, [self._kernel.noise]]))

    def shape_of(self, kind: type[Part]) -> slice:
        """Return where in ``theta`` the shape of the part of a kind is."""
        kinds = [type(part) for part in self._kernel.parts]
        return self._shapes[kinds.index(kind)]

    def bounds(self, noise_floor: float) -> list[tuple[float, float]]:
        """Return the bounds of ``theta``."""
        parts = self._kernel.parts
        bounds = [part.shape_bounds for part in parts for _ in part.shape]
        bounds += [*(part.bounds for part in parts), (noise_floor, _MOST_NOISE)]
        return [(log(low), log(high)) for low, high in bounds]

    def kernel(self, theta: np.ndarray) -> Kernel:
        """Return the kernel with these hyperparameters."""
        values = np.exp(theta)
        variances = values[self._variances]
        parts = [
            part.tuned(variance, values[shape])
            for part, variance, shape in zip(
                self._kernel.parts, variances, self._shapes, strict=True
            )
        ]
        return type(self._kernel)(self._kernel.n, tuple(parts), float(values[-1]))

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return minus the log marginal likelihood and its gradient (eq. 5 and 6).

        The value is huge where the matrix is not definite.
        """
        values = np.exp(theta)
        variances, noise = values[self._variances], values[-1]
        m = len(self._targets)
        matrix = (variances[self._fixed] @ self._matrices).reshape(m, m)
        for k, rows in self._others:
            rows.add(matrix, variances[k], values[self._shapes[k]])
        matrix.flat[:: m + 1] += noise
        matrix.flat[: self._exact * m : m + 1] += EFFICIENCY_NOISE - noise
        # the transpose has LAPACK's order, and of the symmetric matrix the lower triangle is there
        factor, failed = lapack.dpotrf(matrix.T, lower=0, clean=1, overwrite_a=1)
        if failed:
            return 1e25, np.zeros_like(theta)
        alpha, _ = lapack.dpotrs(factor, self._targets, lower=0)
        log_root = float(np.log(np.diag(factor)).sum())
        value = 0.5 * float(np.vdot(self._targets, alpha)) + self._outputs * log_root
        # W of eq. 6 as a triangle that holds both halves: it meets symmetric matrices only
        inverse, _ = lapack.dpotri(factor, lower=0, overwrite_c=1)
        dual = alpha.reshape(m, -1)
        weights = blas.dsyrk(-1.0, dual, self._outputs, inverse, lower=0, overwrite_c=1).T
        weights.flat[:: m + 1] *= 0.5
        gradient = np.empty_like(theta)
        by_variance = gradient[self._variances]
        by_variance[self._fixed] = variances[self._fixed] * (self._matrices @ weights.ravel())
        for k, rows in self._others:
            shape = self._shapes[k]
            by_variance[k], gradient[shape] = rows.gradient(weights, variances[k], values[shape])
        gradient[-1] = noise * float(np.diag(weights)[self._exact :].sum())
        return value, gradient

    def penalised(self, theta: np.ndarray, options: SearchOptions) -> tuple[float, np.ndarray]:
        """Return value and gradient with the hyperpriors of shapes and noise (eq. 7).

        Several outputs count for as many as they are independent.
        """
        value, gradient = self(theta)
        value, gradient = value * self._share, gradient * self._share
        for shape in self._shapes:
            if shape.start < shape.stop:
                spread = theta[shape] - theta[shape].mean()
                tails = 1.0 + options.shrinkage / options.freedom * spread**2
                pull = (1.0 + 1.0 / options.freedom) * options.shrinkage * spread / tails
                gradient[shape] += pull - pull.mean()
                value += 0.5 * (options.freedom + 1.0) * float(np.log(tails).sum())
        excess = theta[-1] - log(options.usual_noise)
        gradient[-1] += options.noise_shrinkage * excess
        return value + 0.5 * options.noise_shrinkage * excess**2, gradient


def _independent(targets: np.ndarray) -> float:
    """Return how many independent outputs several are worth: ``(sum l)^2 / sum l^2``.

    Here l are the eigenvalues of their products. Rows of one model are alike, so that the sum of
    their evidences would overrule the hyperpriors too easily.
    """
    gram = targets.T @ targets
    return float(np.trace(gram) ** 2 / np.sum(gram**2))


def _square(targets: np.ndarray) -> np.ndarray:
    """Return targets of no more columns than rows, which have the same products of rows."""
    if targets.ndim == 1 or len(targets) >= targets.shape[1]:
        return targets
    upper: np.ndarray = qr(targets.T, mode="r", check_finite=False)[0][: len(targets)]
    return upper.T


def search_hyperparameters(
    starts: Sequence[Kernel],
    data: Observations,
    options: SearchOptions,
    most_noise: float = inf,
) -> Kernel:
    """Maximise the evidence, with hyperpriors on the spread of the rates and the noise (eq. 7).

    Args:
        starts: The kernels to start from, that of fewest parts first; the one of the largest
            evidence on the first pairs is searched on.
        data: The observations of the subsample.
        options: Options of the search.
        most_noise: Where the start has more noise, the last search is without the proxy's terms.

    Returns:
        The kernel found.
    """
    first = options.first(data)

    def search(start: Kernel, data: Observations, iterations: int) -> tuple[Kernel, float]:
        return maximise_evidence(start, data, options, iterations, options.tolerance)

    plain, *sized = starts
    found = [search(plain, first, options.first_iterations)]
    if found[0][0].noise > options.give_up:
        return found[0][0]
    iterations = options.sized_iterations
    if found[0][0].noise <= options.little_noise:
        # the way on is long and flat, and a game of few terms is recovered from its end alone
        found = [maximise_evidence(found[0][0], first, options, options.first_iterations)]
        sized = [start.with_parts_of(found[0][0]) for start in sized]
        iterations //= 2
    found += [search(start, first, iterations) for start in sized]
    kernel, _ = min(found, key=lambda pair: pair[1])
    if first is not data:
        plain = kernel.without(Terms)
        if kernel.noise > most_noise and plain.parts:
            kernel = plain
        kernel = without_idle_parts(kernel, first, options.least_worth)
        kernel, _ = search(kernel, data, options.iterations)
    return kernel


def without_idle_parts(kernel: Kernel, data: Observations, least_worth: float) -> Kernel:
    """Leave out the parts of the size with rates of their own without which the evidence is the same.

    They take most of the time of a step, and of the read-out.

    Args:
        kernel: The kernel.
        data: The observations.
        least_worth: Nats that the evidence has to lose without such a part for it to stay.
    """

    def cost(kernel: Kernel) -> float:
        evidence = Evidence(kernel, data)
        return evidence(evidence.start)[0]

    idle = [part for part in kernel.parts if len(part.shape) and not part.independent_terms]
    lowest = cost(kernel) if idle else 0.0
    for part in idle:
        other = kernel.without(type(part))
        without = cost(other)
        if without < lowest + least_worth:
            kernel, lowest = other, without
    return kernel


def search_alone(joint: Kernel, data: Observations, options: SearchOptions) -> Kernel:
    """Search near the maximum of several outputs' evidence for that of one of them.

    A Gaussian hyperprior pulls the logarithms to the joint maximum.

    Args:
        joint: The kernel of the joint maximum.
        data: The observations of the output.
        options: Options of the search.

    Returns:
        The kernel found; ``joint`` itself if the evidence gains less than ``options.least_gain``.
    """
    if options.own_iterations == 0:
        return joint
    quiet = joint.noise <= options.little_noise
    precision = options.quiet_precision if quiet else options.own_precision
    first = options.first(data)
    evidence = Evidence(joint, first)
    centre = evidence.start
    at_joint, slope = evidence(centre)
    # a convex evidence could gain no more than this against the hyperprior's curvature
    if float(slope @ slope) < 2.0 * precision * options.least_gain:
        return joint

    def anchored(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = evidence(theta)
        step = theta - centre
        return (
            value + 0.5 * precision * float(step @ step),
            gradient + precision * step,
        )

    def searched(start: np.ndarray, iterations: int, tolerance: float) -> OptimizeResult:
        return minimize(
            anchored,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=evidence.bounds(options.noise_floor),
            options={"maxiter": iterations, "ftol": tolerance},
        )

    found = searched(centre, options.own_iterations, options.tolerance)
    noise_free = exp(found.x[-1]) <= options.little_noise
    if noise_free:
        found = searched(found.x, options.first_iterations, _TO_THE_END)
    if at_joint - found.fun < options.least_gain:
        return joint
    kernel = evidence.kernel(found.x)
    if first is not data:
        iterations = options.iterations if noise_free else options.last_iterations
        kernel, _ = maximise_evidence(kernel, data, options, iterations, options.tolerance)
    return kernel


class Penalised(Protocol):
    """An evidence with its hyperpriors, as a function of hyperparameters' logarithms."""

    @property
    def start(self) -> np.ndarray:
        """Where to start."""

    def bounds(self, noise_floor: float) -> list[tuple[float, float]]:
        """Return the bounds."""

    def penalised(self, theta: np.ndarray, options: SearchOptions) -> tuple[float, np.ndarray]:
        """Return value and gradient."""


def climb(
    evidence: Penalised, options: SearchOptions, iterations: int, tolerance: float
) -> OptimizeResult:
    """Search for the largest evidence near where it starts; see :func:`maximise_evidence`."""
    return minimize(
        evidence.penalised,
        evidence.start,
        args=(options,),
        jac=True,
        method="L-BFGS-B",
        bounds=evidence.bounds(options.noise_floor),
        options={"maxiter": iterations, "ftol": tolerance},
    )


def maximise_evidence(
    kernel: Kernel,
    data: Observations,
    options: SearchOptions,
    iterations: int,
    tolerance: float = _TO_THE_END,
) -> tuple[Kernel, float]:
    """Return the kernel of the largest evidence near one, and minus its logarithm.

    Args:
        kernel: Where to start.
        data: The observations.
        options: The hyperpriors.
        iterations: Upper bound on the quasi-Newton iterations.
        tolerance: See ``SearchOptions``; the default lets ``iterations`` alone end it.
    """
    evidence = Evidence(kernel, data)
    found = climb(evidence, options, iterations, tolerance)
    return evidence.kernel(found.x), float(found.fun)
