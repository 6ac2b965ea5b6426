"""Contract, options: what an instance says of itself is what its runs do."""

import copy
import pickle

import numpy as np
import pytest

from shapiq_oddshap import NoInteractions, OddSHAP, PairedCoalitionSampler, ProxySPEX
from shapiq_oddshap.approximators import APPROXIMATORS
from shapiq_oddshap.gp import OddGPRecipe

N = 6
OTHERS = {
    "n": 7,
    "random_state": 1,
    "interaction_factor": 5.0,
    "max_interactions": 3,
    "screener": "none",
    "low_budget": "linear",
    "size_effects": "none",
    "sizes": "paper",
    "proxy_params": {"max_depth": 3},
    "sampler": PairedCoalitionSampler(N),
    "efficiency_shift": True,
    "rounds": 3,
    "recipe": OddGPRecipe(correction=False),
    "design": "paired",
    "batch_size": 8,
}
"""A value other than the default for every option that has one; a new option joins here."""
FIXED = {"index", "max_order"}
EVERY_OPTION = [
    pytest.param(cls, name, id=f"{key}-{name}")
    for key, cls in APPROXIMATORS.items()
    for name in cls(N).options()
]


def build(cls, name, value):
    return cls(**({"n": N, "random_state": 0} | {name: value}))


@pytest.mark.parametrize(("cls", "name"), EVERY_OPTION)
def test_options_are_read_only(cls, name):
    instance = cls(N, random_state=0)
    before = instance.options()
    remedy = "set_random_state" if name == "random_state" else f"construct another {cls.__name__}"
    with pytest.raises(AttributeError, match=f"Received {name}=.*read-only.*{remedy}"):
        setattr(instance, name, OTHERS.get(name))
    assert instance.options() == before


@pytest.mark.parametrize(("cls", "name"), EVERY_OPTION)
def test_options_are_seen_by_repr_equality_and_hash(cls, name):
    if name in FIXED:
        assert name in repr(cls(N))
        return
    plain, other = cls(N, random_state=0), build(cls, name, OTHERS[name])
    assert plain != other
    assert other == build(cls, name, OTHERS[name])
    assert hash(other) == hash(build(cls, name, OTHERS[name]))
    assert f"{name}={OTHERS[name]!r}" in repr(other)
    if name != "proxy_params":  # a mapping has no hash
        assert hash(plain) != hash(other)
        assert plain.approximator_id != other.approximator_id


@pytest.mark.parametrize(("cls", "name"), EVERY_OPTION)
def test_options_survive_copies_and_reseeding(cls, name):
    instance = build(cls, name, OTHERS[name]) if name not in FIXED else cls(N, random_state=0)
    for twin in (
        copy.copy(instance),
        copy.deepcopy(instance),
        pickle.loads(pickle.dumps(instance)),
    ):
        if name == "sampler":  # shapiq's samplers are equal only to themselves
            assert twin.sampler.n == N
            continue
        assert twin == instance
        twin.set_random_state(99)
        assert twin != instance
        twin.set_random_state(instance.random_state)
        assert twin == instance
        with pytest.raises(AttributeError, match="read-only"):
            twin.n = 9


def test_hash_of_unhashable_options():
    hash(OddSHAP(N, screener=ProxySPEX({"max_depth": 3}), proxy_params={"max_depth": 2}))
    assert hash(OddSHAP(N, max_interactions=np.int64(3))) == hash(OddSHAP(N, max_interactions=3))


def test_subclasses_set_their_options_once():
    class Flat(OddSHAP):
        def __init__(self, n, *, flavour="sweet", **options):
            super().__init__(n, screener=NoInteractions(), **options)
            self.flavour = flavour

    instance = Flat(N, flavour="sour")
    assert instance.options()["flavour"] == "sour"
    with pytest.raises(AttributeError, match="construct another Flat"):
        instance.flavour = "bitter"
    instance.remark = "attributes that are no options may be set"
    instance.remark = "and set again"
