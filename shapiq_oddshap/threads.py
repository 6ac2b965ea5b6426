"""One BLAS thread while we compute: results then have the same bits in every thread and process.

Matrix products and factorisations round differently with the number of BLAS threads, which differs
between a program and the workers of a process pool.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["one_blas_thread"]

_lock = threading.Lock()
_inside = 0
_before: list[int] = []


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread until the last thread inside has left.

    Most libraries have one limit for the whole process, which threads share by count: whoever comes
    first sets it, and whoever leaves last restores what was, unless somebody else has changed it
    meanwhile. OpenBLAS on OpenMP has a limit for each thread, which is set and restored there.
    """
    own = [(library, library.get_num_threads()) for library in _libraries(per_thread=True)]
    for library, _ in own:
        library.set_num_threads(1)
    _enter()
    try:
        yield
    finally:
        _leave()
        for library, number in own:
            library.set_num_threads(number)


def _enter() -> None:
    """Set the limits of the process if this thread is the first inside."""
    global _inside, _before  # noqa: PLW0603
    with _lock:
        if _inside == 0:
            _before = [library.get_num_threads() for library in _libraries(per_thread=False)]
            for library in _libraries(per_thread=False):
                _set(library, 1)
        _inside += 1


def _leave() -> None:
    """Restore the limits of the process if this thread is the last inside."""
    global _inside  # noqa: PLW0603
    with _lock:
        _inside -= 1
        if _inside == 0:
            for library, number in zip(_libraries(per_thread=False), _before, strict=True):
                if library.get_num_threads() == 1:
                    _set(library, number)


@cache
def _libraries(*, per_thread: bool) -> list[Any]:
    """Return the BLAS libraries that are loaded, by the reach of their limits."""
    return [
        library
        for library in ThreadpoolController().lib_controllers
        if library.user_api == "blas"
        and per_thread
        == (library.internal_api == "openblas" and library.threading_layer == "openmp")
    ]


def _set(library: Any, number: int) -> None:  # noqa: ANN401
    """Set the number of threads of a library, whichever Python thread this is.

    From version 3.8 on threadpoolctl lets one Python thread set the limit of OpenBLAS, and silently
    ignores all others; the threads that share our limit by count must be able to take turns.
    """
    getattr(library, "_real_set_num_threads", library.set_num_threads)(number)
