"""ProxySPEX: the largest Fourier coefficients of a gradient-boosted proxy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from shapiq_oddshap.proxy import Target, TreeProxy
from shapiq_oddshap.screening.base import Screener

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from shapiq_oddshap.sample import Parity, Sample

__all__ = ["BUTLER_GRID", "ProxySPEX"]

BUTLER_GRID: dict[str, tuple[float, ...]] = {
    "max_depth": (3, 5),
    "n_estimators": (500, 1000),
    "learning_rate": (0.01, 0.1),
}
"""The parameters among which Butler et al. (2025) choose by cross-validation."""

SMALL_TREES: dict[str, Any] = {"num_iterations": 200, "num_leaves": 16, "min_data_in_leaf": 3}
"""LightGBM's own 100 trees of 31 leaves of 20 coalitions miss the weaker ones of many terms."""


@dataclass(frozen=True)
class ProxySPEX(Screener):
    """Fit trees on the sample and take the terms of their largest |β_T| (Butler et al., 2025).

    The trees are fitted to what the regression on singletons leaves; the paper's are fitted to the
    values themselves, which ``target="values"`` does. Where odd terms are looked for in the rest, there
    are more and smaller trees, ``SMALL_TREES``.

    Attributes:
        params: LightGBM parameters that replace these and the paper's (``max_depth=10``, else defaults).
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
    target: Target = "rest"
    name = "proxyspex"

    def __post_init__(self) -> None:
        """Let the proxy check the options."""
        _ = self.proxy

    @property
    def proxy(self) -> TreeProxy:
        """The trees; see :class:`Screener`."""
        return TreeProxy(self.params, self.model, self.grid, self.target)

    def with_proxy_params(self, params: Mapping[str, Any]) -> ProxySPEX:
        """Take parameters of LightGBM where none are set; see :class:`Screener`."""
        open_ = self.params is None and self.model is None
        return replace(self, params=params) if open_ else self

    def screen(
        self, sample: Sample, max_terms: int, rng: np.random.Generator, *, parity: Parity
    ) -> np.ndarray:
        """Return the proxy's largest terms; see :class:`Screener`."""
        proxy = self.proxy
        if self.model is None and self.grid is None and self.target == "rest" and parity != "even":
            proxy = replace(proxy, params=SMALL_TREES | dict(self.params or {}))
        spectrum = proxy.interactions(sample, int(rng.integers(2**31)), parity=parity)
        return spectrum.largest(max_terms, min_order=2)[0]
