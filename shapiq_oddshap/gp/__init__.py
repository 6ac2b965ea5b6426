"""The odd Gaussian process: its kernel, evidence, posterior and exact Shapley read-out.

Pure functions on arrays. Equation numbers refer to ``docs/odd-gp.md``.

A set function enters only through its odd component ``f_odd(S) = (f(S) - f(S^c)) / 2``, one value
per complementary pair. In signs ``x_i = -1 if i in S else +1`` it is a sum of odd characters
``chi_T(x) = prod_{i in T} x_i``, and the process gives their coefficients independent Gaussian
priors. Everything below follows from that: the kernel, the Shapley values of the posterior mean
and their posterior variances are all closed forms in the prior variances of the coefficients.
"""

from shapiq_oddshap.gp.evidence import SearchOptions
from shapiq_oddshap.gp.fit import OddGPFit, Pairs, fit_odd_gp
from shapiq_oddshap.gp.joint import fit_outputs, pooled
from shapiq_oddshap.gp.parts import Hints
from shapiq_oddshap.gp.recipe import OddGPRecipe
from shapiq_oddshap.gp.recovery import RecoveryOptions
from shapiq_oddshap.gp.reweighting import ReweightingOptions

__all__ = [
    "Hints",
    "OddGPFit",
    "OddGPRecipe",
    "Pairs",
    "RecoveryOptions",
    "ReweightingOptions",
    "SearchOptions",
    "fit_odd_gp",
    "fit_outputs",
    "pooled",
]
