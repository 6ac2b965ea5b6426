"""One BLAS thread while we compute: results then have the same bits in every thread and process.

Matrix products and factorisations round differently with the number of BLAS threads, which differs
between a program and the workers of a process pool.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import cache
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any

from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["one_blas_thread"]

_lock = Lock()
_inside: dict[object, int] = {}  # who is inside, and in which Python thread
_before: list[int] = []


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread until the last thread inside has left.

    Most libraries have one limit for the whole process, which threads share by count: whoever comes
    first sets it, and whoever leaves last restores what was, unless somebody else has changed it
    meanwhile. OpenBLAS on OpenMP has a limit for each thread, which is set and restored there. A
    forked process takes along those inside that are in the thread that forked.
    """
    own = [(library, library.num_threads) for library in _libraries(per_thread=True)]
    for library, _ in own:
        library.set_num_threads(1)
    visit = object()
    _enter(visit)
    try:
        yield
    finally:
        _leave(visit)
        for library, number in own:
            library.set_num_threads(number)


def _enter(visit: object) -> None:
    """Set the limits of the process if this is the first inside."""
    with _lock:
        if not _inside:
            _before[:] = [library.num_threads for library in _libraries(per_thread=False)]
            for library in _libraries(per_thread=False):
                _set(library, 1)
        _inside[visit] = get_ident()


def _leave(visit: object) -> None:
    """Restore the limits of the process if this is the last inside."""
    with _lock:
        _inside.pop(visit, None)
        if not _inside:
            for library, number in zip(_libraries(per_thread=False), _before, strict=True):
                if library.num_threads == 1:
                    _set(library, number)


def _forked() -> None:
    """Forget the threads that a forked process does not have, and the lock that they may hold."""
    global _lock  # noqa: PLW0603
    _lock = Lock()
    for visit in [visit for visit, thread in _inside.items() if thread != get_ident()]:
        _leave(visit)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forked)


@cache
def _libraries(*, per_thread: bool) -> list[Any]:
    """Return the BLAS libraries that are loaded, by the reach of their limits."""
    return [
        library
        for library in ThreadpoolController().lib_controllers
        if library.user_api == "blas"
        and per_thread
        == (getattr(library, "threading_layer", None) == "openmp" and _has_controller(library))
    ]


def _has_controller(library: Any) -> bool:  # noqa: ANN401
    """Return whether this is OpenBLAS under a threadpoolctl that knows the reach of its limits."""
    return hasattr(library, "clear_controlling_thread")


def _set(library: Any, number: int) -> None:  # noqa: ANN401
    """Set the number of threads of a library, whichever Python thread this is.

    From version 3.8 on threadpoolctl lets one Python thread set the limit of OpenBLAS until that
    gives way, and silently ignores all others; those that share our limit by count take turns.
    """
    if _has_controller(library):
        library.clear_controlling_thread(force=True)
    library.set_num_threads(number)
    if _has_controller(library):
        library.clear_controlling_thread()
