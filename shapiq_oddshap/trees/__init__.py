"""Tree ensembles on coalitions: fitting, reading, and what their leaves tell exactly."""

from shapiq_oddshap.trees.fitting import (
    checked_params,
    fit_model,
    fit_proxy,
    import_lightgbm,
    proxy_regressor,
)
from shapiq_oddshap.trees.leaves import Leaves, predict, shapley_values
from shapiq_oddshap.trees.readers import leaves_of_booster, leaves_of_model
from shapiq_oddshap.trees.spectrum import Spectrum, fourier_spectrum

__all__ = [
    "Leaves",
    "Spectrum",
    "checked_params",
    "fit_model",
    "fit_proxy",
    "fourier_spectrum",
    "import_lightgbm",
    "leaves_of_booster",
    "leaves_of_model",
    "predict",
    "proxy_regressor",
    "shapley_values",
]
