"""The tree ensemble that stands in for the game: cheap to fit, and its interactions are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from shapiq_oddshap import trees
from shapiq_oddshap.regression import main_effects

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shapiq_oddshap.sample import Parity, Sample

__all__ = ["Target", "TreeProxy"]

Target = Literal["rest", "values"]
"""What trees that look for interactions are fitted to: what the singletons leave, or all."""

_LARGEST_EXPANSION = 2.0**26
"""Terms with repetitions, at some 25 bytes each; the default has at most 3 million."""


@dataclass(frozen=True)
class TreeProxy:
    """A recipe for trees on coalitions; nothing is kept of a fit.

    Attributes:
        params: LightGBM parameters that replace the paper's (``max_depth=10``, else defaults).
        model: A tree ensemble instead of LightGBM: XGBoost's regressor, or scikit-learn's decision
            tree, random forest, extra trees or gradient boosting. It is cloned, never fitted itself.
        grid: Candidate values by parameter of the model, among which five-fold cross-validation
            chooses.
        target: What they are fitted to where interactions are looked for; ``"values"`` is the
            paper's.

    Raises:
        ValueError: If there are both parameters and a model, or no such target.
    """

    params: Mapping[str, Any] | None = None
    model: Any = None
    grid: Mapping[str, Sequence[Any]] | None = None
    target: Target = "rest"

    def __post_init__(self) -> None:
        """Check that parameters have a model to go to, and trees something to be fitted to."""
        if self.target not in get_args(Target):
            msg = f"Received target={self.target!r}, but 'rest' or 'values' is required."
            raise ValueError(msg)
        if self.params is not None and self.model is not None:
            msg = (
                f"Received params={self.params!r} and a model, but the parameters are LightGBM's. "
                "Please set them on the model."
            )
            raise ValueError(msg)

    def fit(
        self,
        coalitions: np.ndarray,
        values: np.ndarray,
        seed: int,
        binned: dict[str, Any] | None = None,
    ) -> trees.Leaves:
        """Return the leaves of the trees fitted to values.

        Args:
            coalitions: Boolean rows, shape ``(m, n)``.
            values: Their values, shape ``(m,)``.
            seed: The trees' seed.
            binned: Where what LightGBM makes of the coalitions is kept for other values of them.
        """
        if self.model is None and self.grid is None:
            return trees.fit_proxy(coalitions, values, self.params, seed, binned)
        model = trees.proxy_regressor(self.params) if self.model is None else self.model
        return trees.fit_model(coalitions, values, model, self.grid, seed)

    def interactions(self, sample: Sample, seed: int, *, parity: Parity) -> trees.Spectrum:
        """Return the Fourier spectrum of the trees, by default of what the singletons leave.

        Main effects are in every regression anyway, and trees spend most of their splits on them:
        without them, the proxy sees interactions that are a hundred times smaller.

        Args:
            sample: The evaluated coalitions.
            seed: The trees' seed.
            parity: Which terms.

        Raises:
            ValueError: If the trees are too deep to be expanded.
        """
        known = main_effects(sample) if self.target == "rest" else 0.0
        leaves = self.fit(sample.coalitions, sample.values - known, seed, sample.binned)
        expansion = np.sum(2.0**leaves.lengths)
        if expansion > _LARGEST_EXPANSION:
            msg = (
                f"Received a proxy whose leaves expand to {expansion:.0e} Fourier terms, at most "
                f"{_LARGEST_EXPANSION:.0e} are held. Please bound the trees, e.g. max_depth=10."
            )
            raise ValueError(msg)
        spectrum = trees.fourier_spectrum(leaves, odd_only=parity == "odd")
        return spectrum.of(parity)
