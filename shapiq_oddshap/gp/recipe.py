"""How the odd process is fitted: every choice of the recipe, with the ones that were measured best."""

from __future__ import annotations

from dataclasses import dataclass, field

from shapiq_oddshap.gp.evidence import SearchOptions
from shapiq_oddshap.gp.parts import EVEN_PARTS, PARTS, SIZE_PARTS, Part
from shapiq_oddshap.gp.recovery import RecoveryOptions
from shapiq_oddshap.gp.reweighting import ReweightingOptions

__all__ = ["OddGPRecipe"]


@dataclass(frozen=True)
class OddGPRecipe:
    """The recipe of :class:`~shapiq_oddshap.OddGP`; ``docs/odd-gp.md`` has what each choice gives.

    Attributes:
        parts: The parts of the kernel.
        even_parts: The parts of the even kernel, from which pairwise interactions are read.
        size_parts: Parts that join them where the evidence is larger with them.
        search: How the hyperparameters are looked for.
        shared_pairs: Up to so many pairs per player the even values help to find the rates.
        reweighting: How single interactions get variances of their own.
        recovery: How an exactly sparse function is looked for.
        evaluations_per_term: The proxy proposes a term for so many evaluations, less the players.
        correction: Whether the Shapley values of the residuals are added (eq. 15).
        few_outputs: Up to so many outputs each chooses pairs by a kernel of its own, and is searched by
            itself before all together.
        max_pairs: Pairs that the process is conditioned on at most; the correction uses all.
    """

    parts: tuple[type[Part], ...] = PARTS
    even_parts: tuple[type[Part], ...] = EVEN_PARTS
    size_parts: tuple[type[Part], ...] = SIZE_PARTS
    shared_pairs: float = 5.0
    search: SearchOptions = field(default_factory=SearchOptions)
    reweighting: ReweightingOptions = field(default_factory=ReweightingOptions)
    recovery: RecoveryOptions = field(default_factory=RecoveryOptions)
    evaluations_per_term: float = 10.0
    correction: bool = True
    few_outputs: int = 4
    max_pairs: int = 8000

    def without_interactions(self, max_order: int) -> tuple[str, ...]:
        """Return the parts that the kernels would have, but that tell no interactions up to an order."""
        orders = [(2, self.even_parts, "even"), (3, self.parts, "odd")]
        kinds = [
            kind
            for order, parts, parity in orders
            for kind in (*parts, *self.size_parts)
            if order <= max_order and parity in kind.parities
        ]
        lacking = [
            kind
            for kind in kinds
            if kind.add_interactions is Part.add_interactions
            or kind.add_interaction_variances is Part.add_interaction_variances
        ]
        return tuple(dict.fromkeys(kind.__name__ for kind in lacking))
