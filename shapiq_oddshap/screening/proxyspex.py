"""ProxySPEX: the largest Fourier coefficients of a gradient-boosted proxy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from shapiq_oddshap.regression import main_effects
from shapiq_oddshap.screening.base import Screener
from shapiq_oddshap.trees import fit_model, fit_proxy, fourier_spectrum, proxy_regressor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shapiq_oddshap.sample import Parity, Sample
    from shapiq_oddshap.trees import Spectrum

__all__ = ["BUTLER_GRID", "ProxySPEX"]

BUTLER_GRID: dict[str, tuple[float, ...]] = {
    "max_depth": (3, 5),
    "n_estimators": (500, 1000),
    "learning_rate": (0.01, 0.1),
}
"""The parameters among which Butler et al. (2025) choose by cross-validation."""

_Target = Literal["rest", "values"]
_LARGEST_EXPANSION = 2.0**26
"""Terms with repetitions, at some 25 bytes each; the default has at most 3 million."""


@dataclass(frozen=True)
class ProxySPEX(Screener):
    """Fit trees on the sample and take the terms of their largest |β_T| (Butler et al., 2025).

    The trees are fitted to what the regression on singletons leaves; the paper's are fitted to the
    values themselves, which ``target="values"`` does.

    Attributes:
        params: LightGBM parameters that replace the paper's (``max_depth=10``, else defaults).
        model: A tree ensemble instead of LightGBM: XGBoost's regressor, or scikit-learn's decision
            tree, random forest, extra trees or gradient boosting. It is cloned, never fitted itself.
        grid: Candidate values by parameter of the model, such as ``BUTLER_GRID``, among which
            five-fold cross-validation chooses.
        target: What the trees are fitted to: ``"rest"`` or ``"values"``.

    Examples:
        >>> from sklearn.ensemble import GradientBoostingRegressor
        >>> from shapiq_oddshap import OddSHAP
        >>> game = lambda coalitions: 8.0 * coalitions[:, :3].all(axis=1)
        >>> screener = ProxySPEX(model=GradientBoostingRegressor(max_depth=4))
        >>> approximator = OddSHAP(n=12, screener=screener, random_state=42)
        >>> approximator.approximate(budget=600, game=game).get_n_order_values(1)[:3].round(3)
        array([2.667, 2.667, 2.667])
    """

    params: Mapping[str, Any] | None = None
    model: Any = None
    grid: Mapping[str, Sequence[Any]] | None = None
    target: _Target = "rest"
    name = "proxyspex"

    def __post_init__(self) -> None:
        """Check that parameters have a model to go to, and the model something to fit."""
        if self.target not in get_args(_Target):
            msg = f"Received target={self.target!r}, but 'rest' or 'values' is required."
            raise ValueError(msg)
        if self.params is not None and self.model is not None:
            msg = (
                f"Received params={self.params!r} and a model, but the parameters are LightGBM's. "
                "Please set them on the model."
            )
            raise ValueError(msg)

    def screen(
        self, sample: Sample, max_terms: int, rng: np.random.Generator, *, parity: Parity
    ) -> np.ndarray:
        """Return the proxy's largest terms; see :class:`Screener`."""
        spectrum = self.spectrum(sample, int(rng.integers(2**31)), odd_only=parity == "odd")
        return spectrum.largest(max_terms, min_order=2)[0]

    def spectrum(self, sample: Sample, seed: int, *, odd_only: bool) -> Spectrum:
        """Return the Fourier spectrum of the proxy, by default of what the singletons leave.

        Main effects are in the regression anyway, and trees spend most of their splits on them:
        without them, the proxy sees interactions that are a hundred times smaller.

        Args:
            sample: The evaluated coalitions.
            seed: The proxy's seed.
            odd_only: Whether to leave out the terms of even order.
        """
        rest = sample.values if self.target == "values" else sample.values - main_effects(sample)
        if self.model is None and self.grid is None:
            leaves = fit_proxy(sample.coalitions, rest, self.params, seed)
        else:
            model = proxy_regressor(self.params) if self.model is None else self.model
            leaves = fit_model(sample.coalitions, rest, model, self.grid, seed)
        expansion = np.sum(2.0**leaves.lengths)
        if expansion > _LARGEST_EXPANSION:
            msg = (
                f"Received a proxy whose leaves expand to {expansion:.0e} Fourier terms, at most "
                f"{_LARGEST_EXPANSION:.0e} are held. Please bound the trees, e.g. max_depth=10."
            )
            raise ValueError(msg)
        return fourier_spectrum(leaves, odd_only=odd_only)
