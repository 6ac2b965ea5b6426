"""The parts of the kernel, a file each: adding one takes its file and a line here."""

from shapiq_oddshap.gp.parts.base import Hints, OnRows, Part
from shapiq_oddshap.gp.parts.main_effects import MainEffects
from shapiq_oddshap.gp.parts.product import Product
from shapiq_oddshap.gp.parts.terms import Terms

__all__ = ["PARTS", "Hints", "MainEffects", "OnRows", "Part", "Product", "Terms"]

PARTS: tuple[type[Part], ...] = (MainEffects, Product, Terms)
"""The parts of the default kernel, in the order in which they are added up."""
