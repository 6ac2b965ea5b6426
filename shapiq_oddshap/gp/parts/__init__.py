"""The parts of the kernel: adding one takes its file and a line here."""

from shapiq_oddshap.gp.parts.base import Hints, OnRows, Part
from shapiq_oddshap.gp.parts.changing_interactions import ChangingInteractions
from shapiq_oddshap.gp.parts.constant import Constant
from shapiq_oddshap.gp.parts.main_effects import MainEffects
from shapiq_oddshap.gp.parts.pair_effects import PairEffects
from shapiq_oddshap.gp.parts.product import Product
from shapiq_oddshap.gp.parts.sizes import ChangingEffects, Jump, LearningCurve, SizeSteps
from shapiq_oddshap.gp.parts.terms import Terms
from shapiq_oddshap.gp.parts.unanimity import Unanimity

__all__ = [
    "EVEN_PARTS",
    "PARTS",
    "SIZE_PARTS",
    "ChangingEffects",
    "ChangingInteractions",
    "Constant",
    "Hints",
    "Jump",
    "LearningCurve",
    "MainEffects",
    "OnRows",
    "PairEffects",
    "Part",
    "Product",
    "SizeSteps",
    "Terms",
    "Unanimity",
]

PARTS: tuple[type[Part], ...] = (MainEffects, Product, Terms)
"""The parts of every odd kernel, in the order in which they are added up."""

EVEN_PARTS: tuple[type[Part], ...] = (Constant, PairEffects, Product)
"""The parts of every even kernel; single terms join by their variances of their own alone."""

SIZE_PARTS: tuple[type[Part], ...] = (
    SizeSteps,
    LearningCurve,
    Jump,
    ChangingEffects,
    ChangingInteractions,
    Unanimity,
)
"""Further parts, which join where the evidence asks for them."""
