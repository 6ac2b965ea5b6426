"""The approximators: subclasses of shapiq's ``Approximator`` for Shapley values."""

from shapiq_oddshap.approximators.ablations import PairedAllSHAP, UnpairedAllSHAP, UnpairedOddSHAP
from shapiq_oddshap.approximators.ffd import FFDRD, FFDRDCorrected
from shapiq_oddshap.approximators.fouriershap import FourierSHAP
from shapiq_oddshap.approximators.oddgp import OddGP
from shapiq_oddshap.approximators.oddshap import OddSHAP

__all__ = [
    "APPROXIMATORS",
    "FFDRD",
    "FFDRDCorrected",
    "FourierSHAP",
    "OddGP",
    "OddSHAP",
    "PairedAllSHAP",
    "UnpairedAllSHAP",
    "UnpairedOddSHAP",
]

APPROXIMATORS = {
    "oddshap": OddSHAP,
    "oddshap-paired-all": PairedAllSHAP,
    "oddshap-unpaired-odd": UnpairedOddSHAP,
    "oddshap-unpaired-all": UnpairedAllSHAP,
    "ffd-rd": FFDRD,
    "ffd-rd-corrected": FFDRDCorrected,
    "fouriershap": FourierSHAP,
    "oddgp": OddGP,
}
