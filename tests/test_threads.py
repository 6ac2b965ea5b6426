"""One BLAS thread while we compute, in a process of its own where BLAS has two."""

import os
import subprocess
import sys

import pytest

PRELUDE = """
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits
from shapiq_oddshap import OddGP
from shapiq_oddshap.threads import one_blas_thread

def blas():
    return {i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"}

W = np.random.default_rng(0).normal(size=(5, 30))

def game(coalitions):  # no BLAS in here
    return sum(np.sin((coalitions * w).sum(axis=1)) for w in W)

def bits(seed):
    return OddGP(n=30, random_state=seed).approximate(130, game).values.tobytes()

before = blas()
if before != {2}:
    print("BLAS takes", before)
    raise SystemExit(77)
"""


def run(code):
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    environment["MKL_NUM_THREADS"] = "2"
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + code], env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip(f"two BLAS threads are not to be had here: {done.stdout}")
    assert done.returncode == 0, done.stderr


def test_worker_threads_give_the_bits_of_the_main_thread():
    run("""
here = [bits(seed) for seed in range(2)]
with ThreadPoolExecutor(1) as pool:
    assert list(pool.map(bits, range(2))) == here
with ThreadPoolExecutor(4) as pool:
    assert list(pool.map(bits, [0, 1] * 3)) == here * 3
""")


def test_the_process_has_its_threads_back_whoever_leaves_first():
    run("""
with ThreadPoolExecutor(4) as pool:
    list(pool.map(bits, range(6)))
assert blas() == before, blas()
entered, leave = threading.Event(), threading.Event()

def hold():
    with one_blas_thread():
        entered.set()
        leave.wait()

other = threading.Thread(target=hold)
with one_blas_thread():
    other.start()
    entered.wait()
assert blas() == {1}, blas()
leave.set()
other.join()
assert blas() == before, blas()
bits(0)
assert blas() == before, blas()
""")


def test_limits_of_the_user_are_kept_and_do_not_change_the_bits():
    run("""
expected = bits(0)
with threadpool_limits(2, user_api="blas"):
    assert bits(0) == expected
    with ThreadPoolExecutor(1) as pool:
        assert list(pool.map(bits, [0])) == [expected]
    assert blas() == {2}
with one_blas_thread():
    outside = threadpool_limits(2, user_api="blas")
assert blas() == {2}
outside.restore_original_limits()
""")


def test_an_error_inside_restores_too():
    run("""
try:
    with one_blas_thread():
        raise KeyError
except KeyError:
    pass
assert blas() == before
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks a process")
@pytest.mark.parametrize("held", ["limit", "lock"])
def test_a_forked_process_neither_hangs_nor_stays_limited_for_threads_it_does_not_have(held):
    run(f"""
from shapiq_oddshap import threads
entered, leave = threading.Event(), threading.Event()

def hold():
    with one_blas_thread() if {held == "limit"} else threads._lock:
        entered.set()
        leave.wait()

other = threading.Thread(target=hold)
other.start()
entered.wait()
child = os.fork()
if child == 0:
    signal.alarm(60)  # kills a child that hangs
    with one_blas_thread():
        inside = blas()
    os._exit(0 if (inside, blas()) == ({{1}}, before) else 1)
status = os.waitpid(child, 0)[1]
leave.set()
other.join()
assert status == 0, status
assert blas() == before
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks a process")
def test_a_process_forked_inside_leaves_like_its_parent():
    run("""
with one_blas_thread():
    child = os.fork()
    inside = blas()
if child == 0:
    os._exit(0 if (inside, blas()) == ({1}, before) else 1)
assert os.waitpid(child, 0)[1] == 0
assert blas() == before
""")
