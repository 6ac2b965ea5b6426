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
_limit: Any = None


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread until the last thread inside has left.

    The limit is the process's, so that threads share it by count: whoever comes first sets it, and
    whoever leaves last restores what was.
    """
    global _inside, _limit  # noqa: PLW0603
    with _lock:
        if _inside == 0:
            _limit = _controller().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limit.restore_original_limits()
                _limit = None
