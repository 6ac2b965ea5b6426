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


def test_any_thread_gives_the_same_bits_and_the_process_has_its_threads_back():
    """In one process: each starts from what the one before has to have left."""
    run("""
# worker threads give the bits of the main thread
here = [bits(seed) for seed in range(2)]
with ThreadPoolExecutor(1) as pool:
    assert list(pool.map(bits, range(2))) == here
with ThreadPoolExecutor(4) as pool:
    assert list(pool.map(bits, [0, 1] * 3)) == here * 3
assert blas() == before, blas()

# an error inside restores too
try:
    with one_blas_thread():
        raise KeyError
except KeyError:
    pass
assert blas() == before, blas()

# whoever leaves first
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

# limits of the user are kept and do not change the bits
with threadpool_limits(1, user_api="blas"):
    assert bits(0) == here[0]
    with ThreadPoolExecutor(1) as pool:
        assert list(pool.map(bits, [0])) == here[:1]
    assert blas() == {1}
with one_blas_thread():
    outside = threadpool_limits(2, user_api="blas")
assert blas() == {2}
outside.restore_original_limits()
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks a process")
def test_a_forked_process_neither_hangs_nor_stays_limited():
    """Neither for what threads that it does not have hold, nor forked inside."""
    run("""
from shapiq_oddshap import threads

def hold(held, entered, leave):
    with one_blas_thread() if held == "limit" else threads._lock:
        entered.set()
        leave.wait()

for held in ("limit", "lock"):
    entered, leave = threading.Event(), threading.Event()
    other = threading.Thread(target=hold, args=(held, entered, leave))
    other.start()
    entered.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # kills a child that hangs
        with one_blas_thread():
            inside = blas()
        os._exit(0 if (inside, blas()) == ({1}, before) else 1)
    status = os.waitpid(child, 0)[1]
    leave.set()
    other.join()
    assert status == 0, (held, status)
    assert blas() == before

with one_blas_thread():
    child = os.fork()
    inside = blas()
if child == 0:
    os._exit(0 if (inside, blas()) == ({1}, before) else 1)
assert os.waitpid(child, 0)[1] == 0
assert blas() == before
""")
