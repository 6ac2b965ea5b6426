"""The parts of the kernel: adding one takes its file and a line here."""

from shapiq_oddshap.gp.parts.base import Hints, OnRows, Part
from shapiq_oddshap.gp.parts.changing_interactions import ChangingInteractions
from shapiq_oddshap.gp.parts.constant import Constant
from shapiq_oddshap.gp.parts.main_effects import MainEffects
from shapiq_oddshap.gp.parts.product import Product
from shapiq_oddshap.gp.parts.sizes import ChangingEffects, Jump, LearningCurve, SizeSteps
from shapiq_oddshap.gp.parts.terms import Terms

__all__ = [
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
    "Part",
    "Product",
    "SizeSteps",
    "Terms",
]

PARTS: tuple[type[Part], ...] = (MainEffects, Product, Terms)
"""The parts of every kernel, in the order in which they are added up."""

SIZE_PARTS: tuple[type[Part], ...] = (
    SizeSteps,
    LearningCurve,
    Jump,
    ChangingEffects,
    ChangingInteractions,
)
"""Further parts, which join where the evidence asks for them."""
