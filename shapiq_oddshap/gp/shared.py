"""The evidence of both components together: whoever interacts in pairs does so in triples.

Few pairs tell little of the rates. But they have two values each, and the even half of the product
prior, ``cosh(U)`` in the place of ``sinh(U)``, has the rates of the odd one (``docs/odd-gp.md``,
section 3). So the even values, of which no Shapley value is read off, help to find them. The two
components are independent under the prior: their evidences add up, and all that follows from the
odd kernel, variances too, stays as it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from shapiq_oddshap.gp.evidence import Evidence, climb
from shapiq_oddshap.gp.parts import Product

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shapiq_oddshap.gp.evidence import SearchOptions
    from shapiq_oddshap.gp.kernel import Kernel
    from shapiq_oddshap.gp.observations import Observations

__all__ = ["SharedEvidence", "maximise_shared_evidence", "search_shared_rates"]


class SharedEvidence:
    """Minus the log marginal likelihood of an odd and an even component with the same rates.

    The vector ``theta`` is that of the odd one, then that of the even one without its rates.
    """

    def __init__(self, odd: Evidence, even: Evidence) -> None:
        """Tie the rates of the product parts."""
        self.odd, self.even = odd, even
        self._rates, tied = odd.shape_of(Product), even.shape_of(Product)
        self._tied = np.zeros(len(even.start), dtype=bool)
        self._tied[tied] = True
        self._count = len(odd.start)

    @property
    def start(self) -> np.ndarray:
        """The logarithms of the kernels' own hyperparameters."""
        return np.concatenate([self.odd.start, self.even.start[~self._tied]])

    def bounds(self, noise_floor: float) -> list[tuple[float, float]]:
        """Return the bounds of ``theta``."""
        even = zip(self.even.bounds(noise_floor), self._tied.tolist(), strict=True)
        return self.odd.bounds(noise_floor) + [bound for bound, tied in even if not tied]

    def split(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the hyperparameters of the odd and of the even kernel."""
        odd, even = theta[: self._count], np.empty(len(self._tied))
        even[~self._tied] = theta[self._count :]
        even[self._tied] = odd[self._rates]
        return odd, even

    def penalised(self, theta: np.ndarray, options: SearchOptions) -> tuple[float, np.ndarray]:
        """Return value and gradient with the hyperpriors; that of the rates counts once."""
        odd, even = self.split(theta)
        value, gradient = self.odd.penalised(odd, options)
        other, slope = self.even.penalised(even, replace(options, shrinkage=0.0))
        gradient[self._rates] += slope[self._tied]
        return value + other, np.concatenate([gradient, slope[~self._tied]])


def maximise_shared_evidence(
    kernels: tuple[Kernel, Kernel],
    data: tuple[Observations, Observations],
    options: SearchOptions,
    iterations: int,
) -> tuple[tuple[Kernel, Kernel], float]:
    """Return the kernels of the largest evidence near two, and minus its logarithm.

    Args:
        kernels: Those of the odd and the even component; the rates are those of the first.
        data: The observations of the two.
        options: The hyperpriors.
        iterations: Upper bound on the quasi-Newton iterations.
    """
    odd, even = (Evidence(kernel, each) for kernel, each in zip(kernels, data, strict=True))
    evidence = SharedEvidence(odd, even)
    found = climb(evidence, options, iterations, options.tolerance)
    of_odd, of_even = evidence.split(found.x)
    return (odd.kernel(of_odd), even.kernel(of_even)), float(found.fun)


def search_shared_rates(
    starts: Sequence[Kernel],
    even: Kernel,
    data: tuple[Observations, Observations],
    options: SearchOptions,
) -> Kernel:
    """Search with what even values tell of the rates, in one stage: for few pairs.

    Args:
        starts: The odd kernels to start from, that of fewest parts first.
        even: The even kernel to start from.
        data: The observations of the odd and of the even component.
        options: Options of the search.

    Returns:
        The odd kernel found.
    """
    found = [
        maximise_shared_evidence(
            (start, even), data, options,
            options.sized_iterations if sized else options.first_iterations,
        )
        for sized, start in enumerate(starts)
    ]  # fmt: skip
    return min(found, key=lambda pair: pair[1])[0][0]
