"""Contract, randomness and state: one seed, one answer, wherever it is computed."""

import copy
import os
import pickle
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
import shapiq
from threadpoolctl import threadpool_limits

from tests.helpers import phi_of, smooth_game

N = 10
GAME = smooth_game(N)


def answer(instance, least=300):
    budget = max(least, min(instance.required_budget(), 2**N))
    return phi_of(instance.approximate(budget, GAME)).tobytes()


@pytest.mark.parametrize("least", [30, 300])
def test_same_seed_same_bits(approximator, least):
    instance = approximator(N, random_state=7)
    expected = answer(instance, least)
    assert answer(instance, least) == expected
    assert answer(approximator(N, random_state=7), least) == expected
    assert answer(copy.deepcopy(instance), least) == expected
    assert answer(pickle.loads(pickle.dumps(instance)), least) == expected
    reseeded = approximator(N, random_state=1)
    reseeded.set_random_state(7)
    assert answer(reseeded, least) == expected
    assert reseeded == instance


def test_eight_threads_share_an_instance(approximator):
    instance = approximator(N, random_state=3)
    expected = answer(instance)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: answer(instance), range(16))) == {expected}


def test_nothing_about_a_run_is_kept(approximator):
    instance = approximator(N, random_state=3)
    before = pickle.dumps(instance)
    answer(instance)
    assert pickle.dumps(instance) == before


def explain(instance):
    return phi_of(
        instance.approximate(max(300, min(instance.required_budget(), 2**N)), smooth_game(N))
    )


def test_processes_give_the_same_bits(approximator):
    instance = approximator(N, random_state=5)
    expected = explain(instance).tobytes()
    for phi in joblib.Parallel(n_jobs=2)(joblib.delayed(explain)(instance) for _ in range(2)):
        assert phi.tobytes() == expected


def test_threads_of_blas_leave_the_bits_alone(approximator):
    n = 16
    instance = approximator(n, random_state=5)
    budget = max(1200, instance.required_budget())
    answers = set()
    for limit in (1, 2):
        with threadpool_limits(limit, user_api="blas"):
            answers.add(phi_of(instance.approximate(budget, smooth_game(n))).tobytes())
    assert len(answers) == 1


def test_explain_x_in_parallel_equals_serial(approximator):
    data = np.random.default_rng(0).normal(size=(40, 6))
    explainer = shapiq.TabularExplainer(
        lambda x: np.tanh(x.astype(float) @ np.arange(6)) * x[:, 0],
        data,
        imputer="baseline",
        approximator=approximator(6),
        index="SV",
        max_order=1,
    )
    budget = max(40, min(approximator(6).required_budget(), 2**6))
    serial, parallel = (
        explainer.explain_X(data[:4], budget=budget, n_jobs=jobs, random_state=2)
        for jobs in (None, 2)
    )
    for one, other in zip(serial, parallel, strict=True):
        assert one.values.tobytes() == other.values.tobytes()


def test_global_generators_are_untouched(approximator):
    state, python_state = np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    answer(approximator(N))
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert random.getstate() == python_state


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_does_not_hang():
    code = f"""
import os, signal, numpy as np
from tests.contract.test_state import answer
from shapiq_oddshap.approximators import APPROXIMATORS
for name, approximator in APPROXIMATORS.items():
    instance = approximator({N}, random_state=0)
    first = answer(instance)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if answer(instance) == first else 3)
    assert os.waitpid(child, 0)[1] == 0, name
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=300)


def test_options_make_instances_unequal(approximator):
    assert approximator(5, random_state=0) == approximator(5, random_state=0)
    assert hash(approximator(5, random_state=0)) == hash(approximator(5, random_state=0))
    assert approximator(5, random_state=0) != approximator(5, random_state=1)
    assert approximator(5) != approximator(6)
    assert approximator(5) != "something else"
    assert repr(approximator(5)).startswith(f"{approximator.__name__}(n=5")
