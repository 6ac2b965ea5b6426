"""The methods by name: all that the package registers, and shapiq's. One line adds one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from math import comb
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import shapiq.approximator as shapiq_approximators
from lightgbm import LGBMRegressor

from shapiq_oddshap.approximators import APPROXIMATORS, OddGP, OddSHAP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shapiq.approximator.base import Approximator

    Build = Callable[..., Approximator[Any]]
    """Called with ``n``, ``random_state`` and further options."""

__all__ = [
    "METHODS",
    "PAPER_NAMES",
    "Method",
    "MethodUnavailableError",
    "is_ablation",
    "is_ours",
    "resolve_methods",
    "shapiq_builder",
]

# Terms times evaluations above which PolySHAP's dense decomposition takes minutes.
_POLYSHAP_LIMIT = 12_000_000
# Players times evaluations above which shapiq's SVARM takes minutes.
_SVARM_LIMIT = 1_200_000
# Players times evaluations above which ShaplEIG, which is fitted after every one, takes minutes.
_SHAPLEIG_LIMIT = 2_500


class MethodUnavailableError(Exception):
    """A method cannot run here or at this size; the message is the reason."""


@dataclass(frozen=True)
class Method:
    """A method of the comparison.

    Attributes:
        build: Called with ``n``, ``random_state`` and further options; returns an approximator.
        own_budget: The budget by number of players, for methods whose design fixes it.
        affordable: Whether it takes less than minutes for a number of players and a budget.
    """

    build: Build
    own_budget: Callable[[int], int] | None = None
    affordable: Callable[[int, int], bool] = lambda _n, _budget: True


def _ours(name: str) -> Method:
    """Return one of the package's own; a factorial design fixes its budget."""
    cls = APPROXIMATORS[name]
    fixed = name.startswith("ffd")
    return Method(cls, own_budget=(lambda n: cls(n).required_budget()) if fixed else None)


def shapiq_builder(name: str, **fixed: object) -> Build:
    """Return a builder of one of shapiq's approximators, which older versions may lack."""

    def build(n: int, random_state: int, **options: object) -> Approximator[Any]:
        cls = getattr(shapiq_approximators, name, None)
        if cls is None:
            msg = f"this version of shapiq has no {name}"
            raise MethodUnavailableError(msg)
        made = cls(n=n, random_state=random_state, **fixed, **options)
        return cast("Approximator[Any]", made)

    return build


def _equal_sizes(name: str, **fixed: object) -> Build:
    """Return a builder with the paper's sampling: pairs, equally many of every size."""

    def build(n: int, random_state: int, **options: object) -> Approximator[Any]:
        approximator = shapiq_builder(
            name, **fixed, pairing_trick=True, sampling_weights=np.ones(n + 1)
        )
        return approximator(n, random_state, **options)

    return build


def _lightgbm(name: str, **fixed: object) -> Build:
    """Return a builder with the paper's proxy."""

    def build(n: int, random_state: int, **options: object) -> Approximator[Any]:
        proxy = LGBMRegressor(max_depth=10, verbose=-1, n_jobs=1, random_state=random_state)
        return _equal_sizes(name, index="SV", proxy_model=proxy, **fixed)(
            n, random_state, **options
        )

    return build


def _shapleig(n: int, random_state: int, **options: object) -> Approximator[Any]:
    """Build shapiq's ShaplEIG, whose packages are the extra ``benchmarks-torch``."""
    if find_spec("botorch") is None:
        msg = "ShaplEIG needs the extra benchmarks-torch"
        raise MethodUnavailableError(msg)
    return shapiq_builder("ShaplEIG", show_progress=False)(n, random_state, **options)


def _few_terms(n: int, budget: int) -> bool:
    """Return whether all terms up to order three are few enough."""
    terms = sum(comb(n, order) for order in range(4))
    return bool(terms * min(budget, 2**n) <= _POLYSHAP_LIMIT)


METHODS: dict[str, Method] = {
    **{name: _ours(name) for name in APPROXIMATORS},
    "oddshap-paper": Method(OddSHAP.paper),
    "oddgp-paired": Method(partial(OddGP, design="paired")),
    "oddgp-active": Method(partial(OddGP, design="active")),
    "msr": Method(_equal_sizes("UnbiasedKernelSHAP")),
    "svarm": Method(_equal_sizes("SVARM"), affordable=lambda n, budget: n * budget <= _SVARM_LIMIT),
    "permutation": Method(shapiq_builder("PermutationSamplingSV")),
    "leverageshap": Method(shapiq_builder("LeverageSHAP")),
    "kernelshap": Method(shapiq_builder("KernelSHAP")),
    "polyshap-3": Method(
        shapiq_builder("PolySHAP", max_order=3, pairing_trick=True), affordable=_few_terms
    ),
    "regressionmsr": Method(_lightgbm("RegressionMSR")),
    "regressionmsr-xgboost": Method(shapiq_builder("RegressionMSR", index="SV")),
    "proxy": Method(_lightgbm("ProxySHAP", max_order=1)),
    "shapiq-oddshap": Method(shapiq_builder("OddSHAP")),
    "shapleig": Method(_shapleig, affordable=lambda n, budget: n * budget <= _SHAPLEIG_LIMIT),
}
"""Every method by the name that ``--methods`` takes; shapiq's own OddSHAP is ``shapiq-oddshap``."""

PAPER_NAMES = {
    "msr": "MSR",
    "svarm": "SVARM",
    "permutation": "PermutationSampling",
    "leverageshap": "LeverageSHAP",
    "polyshap-3": "PolySHAP-3",
    "regressionmsr": "RegressionMSR",
    "proxy": "Proxy",
    "ffd-rd": "FFD-RD",
    "ffd-rd-corrected": "FFD-RD-Corrected",
    "fouriershap": "FourierSHAP",
    "oddshap-paper": "OddSHAP",
}
"""What the paper's table 1 calls a method."""


def is_ours(name: str) -> bool:
    """Return whether a method is one of the package's."""
    return name in APPROXIMATORS or name.startswith(("oddgp-", "oddshap-"))


def is_ablation(name: str) -> bool:
    """Return whether a method is a variant of OddSHAP, which the curves leave out."""
    return name.startswith("oddshap-")


def resolve_methods(names: Sequence[str] | None, extra: Sequence[str]) -> list[str]:
    """Return the method names to run, all of ``METHODS`` for ``None``.

    Args:
        names: What was asked for.
        extra: What an experiment knows besides.

    Raises:
        MethodUnavailableError: If a name is unknown.
    """
    known = list(dict.fromkeys([*METHODS, *extra]))
    for name in names or ():
        if name not in known:
            msg = f"There is no method {name!r}. Known are {', '.join(known)}."
            raise MethodUnavailableError(msg)
    return list(METHODS if names is None else names)
