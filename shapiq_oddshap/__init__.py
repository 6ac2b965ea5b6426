"""The most accurate Shapley values per model evaluation, for everyone who uses shapiq.

Importing the package registers its approximators with shapiq's explainers, so that
``shapiq.TabularExplainer(model, data, approximator="oddshap", index="SV", max_order=1)`` works.
"""

from shapiq_oddshap.approximators import (
    APPROXIMATORS,
    FFDRD,
    FFDRDCorrected,
    FourierSHAP,
    OddGP,
    OddSHAP,
    PairedAllSHAP,
    UnpairedAllSHAP,
    UnpairedOddSHAP,
)
from shapiq_oddshap.diagnostics import Diagnostics, Estimate
from shapiq_oddshap.evaluated_game import (
    EvaluatedGame,
    EvaluationError,
    EvaluationReport,
    evaluated,
)
from shapiq_oddshap.evaluation import GameValueError
from shapiq_oddshap.explaining import explain
from shapiq_oddshap.refit import RefitGame
from shapiq_oddshap.registration import register, unregister
from shapiq_oddshap.sampling import PairedCoalitionSampler, UnpairedCoalitionSampler
from shapiq_oddshap.screening import (
    SCREENERS,
    SPEX,
    FixedOrder,
    GivenTerms,
    NoInteractions,
    ProxySPEX,
    RandomTerms,
    Screener,
    TermUnion,
)
from shapiq_oddshap.spreading import SpreadPairSampler
from shapiq_oddshap.store import Store, StoreError
from shapiq_oddshap.summary import Summary

__all__ = [
    "APPROXIMATORS",
    "FFDRD",
    "SCREENERS",
    "SPEX",
    "Diagnostics",
    "Estimate",
    "EvaluatedGame",
    "EvaluationError",
    "EvaluationReport",
    "FFDRDCorrected",
    "FixedOrder",
    "FourierSHAP",
    "GameValueError",
    "GivenTerms",
    "NoInteractions",
    "OddGP",
    "OddSHAP",
    "PairedAllSHAP",
    "PairedCoalitionSampler",
    "ProxySPEX",
    "RandomTerms",
    "RefitGame",
    "Screener",
    "SpreadPairSampler",
    "Store",
    "StoreError",
    "Summary",
    "TermUnion",
    "UnpairedAllSHAP",
    "UnpairedCoalitionSampler",
    "UnpairedOddSHAP",
    "evaluated",
    "explain",
    "register",
    "unregister",
]
__version__ = "0.1.0"

register()
