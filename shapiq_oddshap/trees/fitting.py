"""Fitting the proxy: LightGBM, by default as in the paper, or any tree ensemble of scikit-learn's protocol."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from shapiq_oddshap.trees.leaves import Leaves, no_leaves
from shapiq_oddshap.trees.readers import leaves_of_booster, leaves_of_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    import lightgbm

__all__ = ["checked_params", "fit_model", "fit_proxy", "import_lightgbm", "proxy_regressor"]

_PROXY_DEFAULTS: dict[str, Any] = {
    "objective": "regression",
    "max_depth": 10,  # the paper's only departure from LightGBM's defaults
    "num_threads": 1,
    "verbosity": -1,
    "deterministic": True,
    "force_row_wise": True,  # spares the timing of both layouts, whose winner would vary
    "enable_bundle": False,  # coalitions are dense: there is nothing to bundle
    "bin_construct_sample_cnt": 1000,  # a player's two bins are seen in far fewer rows
}

_QUANTISED = {"use_quantized_grad": True}
"""A third of the training time saved, at no loss in the terms found."""

_QUANTISED_BESIDE = {
    "lambda_l1",
    "lambda_l2",
    "learning_rate",
    "max_depth",
    "min_data_in_leaf",
    "min_gain_to_split",
    "min_sum_hessian_in_leaf",
    "num_iterations",
    "num_leaves",
    "seed",
    "verbosity",
}
"""Parameters that quantised gradients are combined with: LightGBM 4 goes wrong where they meet
subsets of rows or columns (its pull request 7397)."""

_DIGITS = 4
"""Decimals of the labels, in units of the largest."""


def import_lightgbm() -> Any:  # noqa: ANN401 - a module
    """Return LightGBM, which is imported where it is used: not every estimator needs it.

    Raises:
        ImportError: If it is not there, or cannot be loaded.
    """
    try:
        return importlib.import_module("lightgbm")
    except (ImportError, OSError) as error:  # OSError: without the OpenMP library of the system
        msg = (
            f"LightGBM, the proxy of this estimator, cannot be imported ({error}). Please install "
            "it with `pip install lightgbm`, or use screener='none' with low_budget='linear', or "
            "'ffd-rd', which do without."
        )
        raise ImportError(msg) from error


def fit_proxy(
    coalitions: np.ndarray,
    values: np.ndarray,
    params: Mapping[str, Any] | None,
    seed: int,
    binned: dict[str, lightgbm.Dataset] | None = None,
) -> Leaves:
    """Fit the LightGBM proxy on evaluated coalitions and return its leaves.

    LightGBM keeps labels in single precision, so that they are centred and scaled first, and they
    are rounded: two splits of few coalitions are often equally good, and the last bits, which differ
    for the same game in other units, must not choose. The constant is left out of the leaves, since
    it carries no odd coefficient.

    Args:
        coalitions: Boolean rows, shape ``(m, n)``.
        values: The game's values, shape ``(m,)``.
        params: LightGBM parameters (any alias) that replace the paper's.
        seed: LightGBM's seed.
        binned: Where LightGBM's bins of the same coalitions are kept from one call to the next.

    Returns:
        The leaves in units of ``values``; none if the proxy is constant.
    """
    n = coalitions.shape[1]
    centre = values.mean()
    scale = np.abs(values - centre).max()
    if scale <= 1e-12 * np.abs(values).max(initial=0.0):
        return no_leaves(n)
    merged = {"seed": seed} | _proxy_params(params)
    rounds = int(merged.pop("num_iterations", 100))
    lightgbm = import_lightgbm()
    data = _dataset(coalitions, merged, {} if binned is None else binned)
    data.set_label(np.round((values - centre) / scale, _DIGITS))
    # train() would do the same, beside what callbacks and validation sets need
    booster = lightgbm.Booster(merged, data)
    for _ in range(rounds):
        booster.update()
    leaves = leaves_of_booster(booster, n)
    return Leaves(n, leaves.players, leaves.present, leaves.lengths, leaves.values * scale)


def _dataset(
    coalitions: np.ndarray, params: dict[str, Any], binned: dict[str, lightgbm.Dataset]
) -> lightgbm.Dataset:
    """Return LightGBM's bins of coalitions, which depend on the parameters too."""
    key = repr(sorted(params.items()))
    if key not in binned:
        label = np.zeros(len(coalitions))
        dataset = import_lightgbm().Dataset
        binned[key] = dataset(coalitions.astype(np.float32), label=label, params=params)
    return binned[key]


def fit_model(
    coalitions: np.ndarray,
    values: np.ndarray,
    model: Any,  # noqa: ANN401 - any regressor of scikit-learn's protocol
    grid: Mapping[str, Sequence[Any]] | None,
    seed: int,
) -> Leaves:
    """Fit a tree ensemble of scikit-learn's protocol and return its leaves.

    The model itself is left unfitted. Where it leaves them open it gets the seed and one thread, and
    LightGBM's, which would print on stdout, silence.

    Args:
        coalitions: Boolean rows, shape ``(m, n)``.
        values: The game's values, shape ``(m,)``.
        model: The regressor.
        grid: Candidate values by parameter, chosen among by five-fold cross-validation, or ``None``.
        seed: The seed.

    Returns:
        The leaves in units of ``values``; none if the values are constant.

    Raises:
        TypeError: If the model is no tree ensemble that can be read.
    """
    from sklearn.base import clone  # noqa: PLC0415 - needed here alone
    from sklearn.model_selection import GridSearchCV, KFold  # noqa: PLC0415

    n = coalitions.shape[1]
    centre = values.mean()
    scale = np.abs(values - centre).max()
    if scale <= 1e-12 * np.abs(values).max(initial=0.0):
        return no_leaves(n)
    estimator = clone(model)
    options = estimator.get_params()
    settled = {"random_state": seed, "n_jobs": 1}
    estimator.set_params(
        **{name: value for name, value in settled.items() if options.get(name, 0) is None}
    )
    loud = any(kind.__module__.startswith("lightgbm.") for kind in type(estimator).__mro__)
    if loud and not {"verbose", "verbosity"} & options.keys():
        estimator.set_params(verbosity=-1)
    if grid is not None:
        folds = KFold(min(5, len(values)), shuffle=True, random_state=seed)
        candidates = {name: list(choices) for name, choices in grid.items()}
        estimator = GridSearchCV(estimator, candidates, cv=folds, scoring="neg_mean_squared_error")
    estimator.fit(coalitions.astype(np.float32), (values - centre) / scale)
    fitted = estimator if grid is None else estimator.best_estimator_
    leaves = leaves_of_model(fitted, n)
    return Leaves(n, leaves.players, leaves.present, leaves.lengths, leaves.values * scale)


def proxy_regressor(params: Mapping[str, Any] | None) -> lightgbm.LGBMRegressor:
    """Return the proxy of :func:`fit_proxy` as a regressor of scikit-learn's protocol.

    Args:
        params: LightGBM parameters (any alias) that replace the paper's.
    """
    merged = _proxy_params(params)
    return import_lightgbm().LGBMRegressor(n_estimators=merged.pop("num_iterations", 100), **merged)


def checked_params(params: Mapping[str, Any], n: int) -> dict[str, Any]:
    """Return LightGBM parameters by their main names, once one of the trees was grown with them.

    Args:
        params: The parameters, by any of their names.
        n: Number of players: some parameters have an entry for each.

    Raises:
        TypeError: If they are no mapping.
        ValueError: If LightGBM has no parameter of a name, or refuses them, such as
            ``objective="poisson"``, which allows no values below zero.
    """
    own = _main_names(params)
    lightgbm = import_lightgbm()
    everyone = np.arange(100) < 50
    try:
        one = own | {"num_iterations": min(1, int(own.get("num_iterations", 1)))}
        fit_proxy(np.repeat(everyone[:, None], n, axis=1), everyone * 2.0 - 1.0, one, 0)
    except (lightgbm.basic.LightGBMError, TypeError, ValueError) as error:
        msg = (
            f"Received the proxy parameters {dict(params)}, but no trees can be grown with them "
            f"({str(error).strip()}). Please give others, such as {{'max_depth': 5}}."
        )
        raise ValueError(msg) from error
    return own


def _main_names(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return LightGBM parameters by their main names, translated from any alias."""
    if not isinstance(params, Mapping):
        msg = f"Received proxy parameters {params!r}, but a mapping such as {{'max_depth': 5}} is required."
        raise TypeError(msg)
    main = _parameter_names()
    if not main:
        return dict(params)
    unknown = sorted(params.keys() - main.keys())
    if unknown:
        msg = f"Received the proxy parameters {unknown}, but LightGBM has none of these names."
        raise ValueError(msg)
    return {main[name]: value for name, value in params.items()}


@cache
def _parameter_names() -> dict[str, str]:
    """Return the main name of every LightGBM parameter by all of its names.

    LightGBM 4.5 to 4.7 keep the table in a private place. Where it is not, nothing is known, and
    names go to LightGBM as they are given.
    """
    table = getattr(import_lightgbm().basic, "_ConfigAliases", None)
    known: dict[str, list[str]] = getattr(table, "_get_all_param_aliases", dict)()
    return {alias: name for name, aliases in known.items() for alias in [name, *aliases]}


def _proxy_params(params: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the proxy's parameters, those of the user among them."""
    own = _main_names(params) if params else {}
    quantised = _QUANTISED if own.keys() <= _QUANTISED_BESIDE else {}
    return _PROXY_DEFAULTS | quantised | own
