"""Sparse Fourier recovery from structured coalitions: the one place that uses ``sparse-transform``.

A random n x b matrix M over GF(2) sends the term T to bin MᵀT. The b-dimensional transform of the
values at the 2^b coalitions Mu + d adds up the coefficients of each bin, with signs (-1)^<d, T> that
tell by the delays d which T it is, if it is alone. What is found is subtracted from the bins of all
rounds, which lays further terms bare (peeling; Amrollahi et al., 2019; Kang et al., 2025).
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sparse_transform.qsft.qsft import transform
from sparse_transform.qsft.signals.input_signal_subsampled import SubsampledSignal
from sparse_transform.qsft.utils.general import gwht, qary_ints
from sparse_transform.qsft.utils.query import get_D

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["HashedDesign", "recover"]


@dataclass(frozen=True)
class HashedDesign:
    """Structured coalitions of a sparse transform: bases, and their n single-player shifts.

    Attributes:
        hashes: M by round, 0/1, shape ``(rounds, n, b)``.
    """

    hashes: np.ndarray

    @classmethod
    def draw(cls, n: int, bits: int, rounds: int, rng: np.random.Generator) -> HashedDesign:
        """Draw the hashes at random.

        Args:
            n: Number of players.
            bits: b, for 2^b bins a round.
            rounds: Number of independent hashes.
            rng: The generator.
        """
        return cls(rng.integers(2, size=(rounds, n, bits)))

    @property
    def n(self) -> int:
        """Number of players."""
        return int(self.hashes.shape[1])

    @property
    def bits(self) -> int:
        """The logarithm b of the number of bins."""
        return int(self.hashes.shape[2])

    @property
    def delays(self) -> np.ndarray:
        """The shifts d, 0/1, the empty one first, shape ``(n + 1, n)``."""
        return np.asarray(get_D(self.n, q=2, delays_method_source="identity")[0])

    def coalitions(self) -> np.ndarray:
        """Return Mu + d for all u as boolean rows, shape ``(rounds, n + 1, 2**b, n)``."""
        bases = np.moveaxis(self.hashes @ qary_ints(self.bits, 2), 1, 2)
        return (bases[:, None] % 2 == 1) ^ (self.delays[:, None] == 1)


def recover(
    design: HashedDesign, values: np.ndarray, *, strict: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Recover the terms of a function from its values at the coalitions of a design.

    Args:
        design: The design.
        values: Values at its coalitions, shape ``(rounds, n + 1, 2**b)``.
        strict: Whether to peel only what explains its bin up to rounding, which is exact for sparse
            functions and finds nothing of dense ones; otherwise what explains a tenth of it.

    Returns:
        Terms as boolean rows, shape ``(k, n)``, and their coefficients, shape ``(k,)``.
    """
    scale = np.abs(values).max(initial=0.0)
    if scale == 0:
        return np.zeros((0, design.n), dtype=bool), np.zeros(0)
    with _root_logger_untouched():
        found = transform(
            _EvaluatedSignal(design, values / scale),
            reconstruct_method_source="identity",
            reconstruct_method_channel="identity",
            b=design.bits,
            num_subsample=len(design.hashes),
            num_repeat=1,
            peeling_method="single-detect" if strict else "multi-detect",
        )
    terms = np.array(list(found), dtype=bool).reshape(-1, design.n)
    return terms, scale * np.real(np.array(list(found.values()), dtype=complex))


class _EvaluatedSignal(SubsampledSignal):  # type: ignore[misc]
    """A signal with its samples: the package's own draws its hashes from NumPy's global generator."""

    def __init__(self, design: HashedDesign, values: np.ndarray) -> None:
        """Transform the values of shape ``(rounds, n + 1, 2**b)`` bin by bin."""
        self.q, self.n = 2, design.n
        self.Ms = list(design.hashes)
        self.Ds = [[design.delays] for _ in self.Ms]
        self.Us = [[[gwht(row, 2, design.bits) for row in block]] for block in values]

    def get_MDU(self, *_: object, **__: object) -> tuple[list[np.ndarray], list[list[np.ndarray]], list[list[list[np.ndarray]]], list[float]]:  # fmt: skip
        """Return hashes, delays, transforms and (no) times by round, in their order."""
        return self.Ms, self.Ds, self.Us, [0.0]


@contextmanager
def _root_logger_untouched() -> Iterator[None]:
    """Take back the handler that ``logging.info`` installs where there is none.

    ``transform`` logs by it. A handler that stayed would make a later ``logging.basicConfig`` of the
    user do nothing.
    """
    root = logging.getLogger()
    before = list(root.handlers)
    try:
        yield
    finally:
        for handler in root.handlers[:]:
            if handler not in before and type(handler) is logging.StreamHandler:
                root.removeHandler(handler)
