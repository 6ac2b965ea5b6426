"""Batches of coalitions on workers: retried, their outcomes handed over as they come."""

from __future__ import annotations

import os
import traceback
from concurrent.futures import BrokenExecutor
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import islice
from time import sleep
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from shapiq_oddshap.evaluation import GameValueError, evaluate_outputs, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from shapiq_oddshap.store import Value

__all__ = ["Outcome", "outcomes_of", "pause"]

_WAVE = 4  # batches per worker between two commits where joblib only returns whole lists


@dataclass(frozen=True)
class Outcome:
    """What became of one batch, or of all that were under way when a worker was lost.

    Attributes:
        values: The values that it has, by packed coalition.
        evaluated: How many coalitions the game was asked for.
        suspects: The packed coalitions that have no value.
        error: Why not.
        lost: Whether the error is that of a worker, not of the game.
    """

    values: dict[bytes, Value]
    evaluated: int
    suspects: list[bytes]
    error: Exception | None
    lost: bool = False


def outcomes_of(
    game: Callable[[np.ndarray], Any],
    n: int,
    batches: Iterator[list[bytes]],
    *,
    retries: int,
    n_jobs: int | None,
    batch_size: int | Literal["auto"],
) -> Generator[Outcome]:
    """Evaluate batches on joblib's active backend, and yield their outcomes as they come.

    Args:
        game: The game.
        n: The number of players.
        batches: Lists of packed coalitions: larger arguments that are no lists Dask would keep on a
            single worker, and lose them with it.
        retries: How often coalitions that raised are evaluated again; see :func:`_attempt`.
        n_jobs: The number of workers, for joblib.
        batch_size: How many batches joblib sends at a time.
    """
    attempt = delayed(partial(_attempt, game, n, retries, os.getpid()))
    try:
        yield from _stream((attempt(batch) for batch in batches), n_jobs, batch_size)
    except BrokenExecutor as error:  # what the game raises comes as an outcome
        yield Outcome({}, 0, [], error, lost=True)


def pause(round_: int) -> None:
    """Wait before another round: not before the first one, then 1, 2, 4, … seconds."""
    if round_:
        sleep(2 ** (round_ - 1))


def _attempt(
    game: Callable[[np.ndarray], Any], n: int, retries: int, caller: int, keys: list[bytes]
) -> Outcome:
    """Evaluate a batch, wherever joblib runs this, in at most ``1 + retries`` rounds.

    The first round asks for the batch at once, the next ones for what failed, one by one: so they
    find the culprit and save its neighbours. An answer that is refused would not get better.
    """
    values: dict[bytes, Value] = {}
    evaluated = 0
    batches, failed = [keys], list[bytes]()
    error: Exception | None = None
    for round_ in range(1 + retries):
        pause(round_)
        failed = []
        for batch in batches:
            evaluated += len(batch)
            try:
                values |= _by_key(batch, evaluate_outputs(game, unpack(batch, n)))
            except GameValueError as refusal:
                if refusal.values is not None:
                    values |= _by_key(batch, refusal.values)
                suspects = [key for key in batch if key not in values]
                return Outcome(values, evaluated, suspects, refusal)
            except Exception as raised:  # noqa: BLE001 - the caller chains and raises it
                error = raised
                failed += batch
        if not failed:
            return Outcome(values, evaluated, [], None)
        batches = [[key] for key in failed]
    if error is not None and os.getpid() != caller:
        error = _portable(error)
    return Outcome(values, evaluated, failed, error)


def _by_key(batch: list[bytes], values: np.ndarray) -> dict[bytes, Value]:
    """Return those of the values, shape ``(m, k)``, that are finite; one output's are floats."""
    finite = np.isfinite(values).all(axis=1)
    rows: Sequence[Value] = values[:, 0].tolist() if values.shape[1] == 1 else list(values)
    return {key: row for key, row, good in zip(batch, rows, finite, strict=True) if good}


def _portable(error: Exception) -> Exception:
    """Return an exception fit for the way back to the calling process, its traceback as a note.

    An exception that cannot be rebuilt on arrival would take the whole pool of workers down.
    """
    note = "".join(traceback.format_exception(error))
    try:
        error = deepcopy(error)  # asks for the same as pickling does
    except Exception:  # noqa: BLE001 - user-defined reconstruction may raise anything
        error = RuntimeError(repr(error))
    error.add_note(note)
    return error


def _stream(
    tasks: Iterator[Any], n_jobs: int | None, batch_size: int | Literal["auto"]
) -> Generator[Outcome]:
    """Run tasks on joblib's active backend and yield their outcomes as they come."""
    parallel = partial(Parallel, n_jobs=n_jobs, batch_size=batch_size)
    try:
        streaming = parallel(return_as="generator_unordered")
    except ValueError:  # the backends "multiprocessing" and "ray" return whole lists only
        streaming = None
    if streaming is not None:
        yield from streaming(tasks)
        return
    with parallel() as pool:
        while wave := list(islice(tasks, _WAVE * effective_n_jobs(n_jobs))):
            yield from pool(wave)
