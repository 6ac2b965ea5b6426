"""The values of coalitions: checked, in parallel, with progress, retried, and never lost.

:func:`evaluate` is the one stage through which every approximator of this package asks a game.
:class:`EvaluatedGame` wraps an expensive game for any approximator or explainer of shapiq.
"""

from __future__ import annotations

import os
import traceback
from contextlib import closing, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import islice, takewhile
from numbers import Integral
from threading import RLock
from time import sleep
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from shapiq import Game
from tqdm import tqdm

from shapiq_oddshap.store import Store, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

__all__ = [
    "EvaluatedGame",
    "EvaluationError",
    "EvaluationReport",
    "GameValueError",
    "check_callable",
    "evaluate",
    "evaluate_outputs",
]

_TOLERANCE = 1e-6  # of the largest stored value: float32 models on another machine are no error
_WAVE = 4  # batches per worker between two commits where joblib only returns whole lists


class GameValueError(ValueError):
    """A game returned something other than one finite number per coalition."""


class EvaluationError(RuntimeError):
    """A game raised an exception, which is the ``__cause__`` of this one.

    Attributes:
        coalition: The players of the coalition; None if a batch of several failed as a whole.

    """

    def __init__(self, message: str, coalition: tuple[int, ...] | None = None) -> None:
        """Initialize the error; arguments as in the attributes."""
        super().__init__(message)
        self.coalition = coalition


def check_callable(game: object) -> None:
    """Raise a ``TypeError`` if a game cannot be called."""
    if not callable(game):
        msg = f"Received a game of type {type(game).__name__}, but a callable is required."
        raise TypeError(msg)


def evaluate(game: Callable[[np.ndarray], Any], coalitions: np.ndarray) -> np.ndarray:
    """Return the values of coalitions as the game gives them, checked.

    The game gets a copy of the coalitions, and what it returns is copied: neither side can change
    the other's arrays. Exceptions of the game pass through.

    Args:
        game: A shapiq ``Game``, an imputer or any callable from coalitions to values.
        coalitions: Boolean matrix of shape ``(m, n)``, one coalition per row.

    Returns:
        The values, a new float64 array of shape ``(m,)``.

    Raises:
        GameValueError: If the game does not return m finite real numbers of shape ``(m,)`` or
            ``(m, 1)``.

    Example:
        >>> evaluate(lambda coalitions: coalitions.sum(axis=1), np.eye(3, dtype=bool))
        array([1., 1., 1.])

    """
    coalitions = np.asarray(coalitions, dtype=bool)
    if not len(coalitions):
        return np.empty(0)
    return _checked(game(coalitions.copy()), coalitions)


def evaluate_outputs(game: Callable[[np.ndarray], Any], coalitions: np.ndarray) -> np.ndarray:
    """Return the values of coalitions in a game of several outputs, checked like :func:`evaluate`.

    Args:
        game: Any callable from coalitions to values.
        coalitions: Boolean matrix of shape ``(m, n)``, one coalition per row, at least one.

    Returns:
        The values, a new float64 array of shape ``(m, k)``; ``(m, 1)`` if the game has one output.

    Raises:
        GameValueError: If the game does not return finite real numbers of shape ``(m, k)``, or
            ``(m,)``.

    Example:
        >>> evaluate_outputs(lambda coalitions: 1.0 * coalitions, np.eye(2, dtype=bool)).tolist()
        [[1.0, 0.0], [0.0, 1.0]]

    """
    coalitions = np.asarray(coalitions, dtype=bool)
    return _checked(game(coalitions.copy()), coalitions, outputs=True)


def _checked(answer: object, coalitions: np.ndarray, *, outputs: bool = False) -> np.ndarray:
    """Return what a game answered as float64 of shape ``(m,)``, or refuse it; ``(m, k)`` of many."""
    m = len(coalitions)
    required = (
        f"Finite real numbers are required, as an array of shape ({m}, k) for k outputs."
        if outputs
        else f"One finite real number per coalition is required, as an array of shape ({m},)."
    )
    try:
        raw = np.asarray(answer)
    except Exception as error:  # a ragged list, or whatever an array-like's conversion raises
        msg = f"The game returned a {type(answer).__name__} that is no array ({error}). {required}"
        raise GameValueError(msg) from error
    several = raw.ndim == 2 and len(raw) == m and raw.shape[1] > 0
    if raw.shape not in {(m,), (m, 1)} and not (outputs and several):
        msg = f"The game returned values of shape {raw.shape} for {m} coalitions. {required}"
        if several:
            msg += (
                f" All its {raw.shape[1]} outputs at once are estimated by "
                "approximator.estimate_outputs(budget, game); for one of them, wrap the game in a "
                "function that selects it."
            )
        raise GameValueError(msg)
    text = raw.dtype == object and any(isinstance(value, str | bytes) for value in raw.flat)
    try:
        if text or raw.dtype.kind not in "biufO":
            raise TypeError  # noqa: TRY301 - NumPy would parse text and drop imaginary parts
        shape = raw.shape if several and outputs else (m, 1) if outputs else (m,)
        values = raw.astype(np.float64).reshape(shape)  # a copy, even of float64
    except (TypeError, ValueError, OverflowError) as error:
        msg = (
            f"The game returned values of type {raw.dtype}, such as {raw.flat[0]!r}. {required} "
            "Convert them in the game."
        )
        raise GameValueError(msg) from error
    broken = np.argwhere(~np.isfinite(values))
    if len(broken):
        row, *output = first = tuple(broken[0].tolist())
        msg = (
            f"The game returned {len(broken)} values that are NaN or infinite for {m} coalitions, "
            f"such as {values[first]} for the coalition {_players(coalitions[row])}"
            f"{f' in output {output[0]}' if output else ''}. "
            f"{required} Let the game return a finite value there."
        )
        raise GameValueError(msg)
    return values


def _players(coalition: np.ndarray) -> tuple[int, ...]:
    """Return a boolean row as a tuple of players."""
    return tuple(np.flatnonzero(coalition).tolist())


def _pack(coalitions: np.ndarray) -> list[bytes]:
    """Return each row's bits as bytes: the name of a coalition in stores and between processes."""
    return [row.tobytes() for row in np.packbits(coalitions, axis=1)]


def _unpack(keys: list[bytes], n: int) -> np.ndarray:
    """Return the boolean matrix of shape ``(len(keys), n)`` that :func:`_pack` packed."""
    packed = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), -1)
    return np.unpackbits(packed, axis=1, count=n).astype(bool)


@dataclass(frozen=True)
class _Outcome:
    """What became of one batch: the values that it has, and why others are missing."""

    values: dict[bytes, float]
    evaluated: int
    suspects: list[bytes]
    error: Exception | None


def _attempt(
    game: Callable[[np.ndarray], Any], n: int, retries: int, caller: int, keys: list[bytes]
) -> _Outcome:
    """Evaluate a batch, wherever joblib runs this, in at most ``1 + retries`` rounds.

    The first round asks for the batch at once, the next ones for what failed, one by one: so they
    find the culprit and save its neighbours. An answer that is refused would not get better.
    """
    values: dict[bytes, float] = {}
    evaluated = 0
    batches, failed = [keys], list[bytes]()
    error: Exception | None = None
    for round_ in range(1 + retries):
        if round_:
            sleep(2 ** (round_ - 1))
        failed = []
        for batch in batches:
            evaluated += len(batch)
            try:
                values.update(zip(batch, evaluate(game, _unpack(batch, n)).tolist(), strict=True))
            except GameValueError as refusal:
                return _Outcome(values, evaluated, batch, refusal)
            except Exception as raised:  # noqa: BLE001 - the caller chains and raises it
                error = raised
                failed += batch
        if not failed:
            return _Outcome(values, evaluated, [], None)
        batches = [[key] for key in failed]
    if error is not None and os.getpid() != caller:
        error = _portable(error)
    return _Outcome(values, evaluated, failed, error)


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
) -> Generator[_Outcome]:
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


@dataclass(frozen=True)
class EvaluationReport:
    """What an :class:`EvaluatedGame` did so far, in coalitions.

    Attributes:
        evaluated: Asked of the game. This is what was paid: retries and the check of the store
            count, evaluations that were interrupted do not.
        reused: Taken from the store instead.

    """

    evaluated: int
    reused: int


class EvaluatedGame(Game):  # type: ignore[misc]
    """An expensive game: evaluated in parallel, with progress, retried, and stored as it goes.

    It is itself a shapiq ``Game``, so every approximator and ``shapiq.AgnosticExplainer`` take it.
    A coalition that occurs several times in one call is evaluated once. A value may depend on
    nothing but its coalition; then results depend neither on the number of workers nor on
    interruptions, bit for bit.

    **Where it runs** is up to joblib and its active backend, by default the processes of this
    machine if ``n_jobs`` is more than 1::

        with joblib.parallel_config(backend="threading", n_jobs=8):
            approximator.approximate(budget, game)

        client = distributed.Client("scheduler:8786")  # pip install shapiq-oddshap[distributed]
        with joblib.parallel_config(backend="dask"):
            approximator.approximate(budget, game)

        ray.util.joblib.register_ray()
        with joblib.parallel_config(backend="ray", n_jobs=-1):
            approximator.approximate(budget, game)

    Tasks of a lost Dask or Ray worker are given to another one. The backends ``"ray"`` and
    ``"multiprocessing"`` cannot hand over single results: there, values are stored every four
    batches per worker.

    **The store** is a file that receives the values batch by batch; see
    :class:`~shapiq_oddshap.store.Store`. After a crash, or for a larger budget with the same seed,
    the same call takes from it what is there, which :meth:`report` counts.

    **Failures.** When the game raises, no new evaluation is started, those under way are waited
    for and stored, and an :class:`EvaluationError` names the coalition. Ctrl-C does not wait.

    Args:
        game: A shapiq ``Game``, an imputer or any callable from coalitions to values. Workers in
            other processes get copies, so it has to be picklable (by cloudpickle) for them.
        n: The number of players; not needed if the game says it by ``n_players``.
        n_jobs: The number of workers; None takes that of joblib's active backend.
        batch_size: How many coalitions the game gets, and the store receives, at a time. ``"auto"``
            is one, and joblib groups fast tasks on their way to other processes. More pays for
            games that are fast on many rows, like the prediction of a model; but the last bit of a
            matrix product may depend on the number of rows.
        progress: Whether to show a bar over the evaluations of each call on stderr.
        store: The path of the store; it is created if nothing is there.
        key: The name of the game in the store: whatever tells it from others with as many players.
        retries: How often coalitions that raised are evaluated again, one by one, after pauses of
            1, 2, 4, … seconds. Every retry costs an evaluation.
        verify: Whether one stored coalition is evaluated again before the store is first used.

    Raises:
        TypeError: If the game cannot be called.
        ValueError: If the number of players is unknown or contradictory, or an option is invalid.
        StoreError: If the file is no store or that of another game.

    Example:
        >>> from shapiq import KernelSHAP
        >>> game = EvaluatedGame(lambda coalitions: coalitions @ np.arange(4.0), n=4)
        >>> values = KernelSHAP(n=4, random_state=0).approximate(budget=16, game=game)
        >>> round(float(values[(3,)]), 6)
        3.0
        >>> game.report()
        EvaluationReport(evaluated=16, reused=0)

    """

    def __init__(
        self,
        game: Callable[[np.ndarray], Any],
        *,
        n: int | None = None,
        n_jobs: int | None = None,
        batch_size: int | Literal["auto"] = "auto",
        progress: bool = False,
        store: str | os.PathLike[str] | None = None,
        key: str | None = None,
        retries: int = 0,
        verify: bool = True,
    ) -> None:
        """Check the options and open the store; the game is not called."""
        check_callable(game)
        known = getattr(game, "n_players", None)
        players = known if n is None else n
        if players is None or players < 1 or known not in {None, players}:
            msg = (
                f"The number of players is n={n} by the argument and n_players={known} by the "
                "game; it has to be at least 1 player. Give n for a plain callable, and no other n "
                "than its own for a game that has one."
            )
            raise ValueError(msg)
        whole = isinstance(batch_size, Integral) and batch_size > 0
        workers = n_jobs is None or (
            isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool) and n_jobs != 0
        )
        if not (whole or batch_size == "auto") or retries < 0 or not workers:
            msg = (
                f"Received batch_size={batch_size!r}, retries={retries!r} and n_jobs={n_jobs!r}. "
                "Give a batch_size of at least 1 or 'auto', at least 0 retries, and None, a number "
                "of workers or -1 for all cores as n_jobs."
            )
            raise ValueError(msg)
        if key is not None and store is None:
            msg = f"Received key={key!r} without a store. Give the store that it is for, or no key."
            raise ValueError(msg)
        names = list(getattr(game, "player_name_lookup", None) or []) or None
        # without normalization shapiq needs no value here; a wrapped Game subtracts its own
        super().__init__(n_players=players, normalize=False, player_names=names)
        self.game = game
        self.n_jobs = n_jobs
        self.batch_size = batch_size
        self.progress = progress
        self.retries = retries
        self.store = None if store is None else Store(store, n=self.n_players, key=key)
        self._to_verify = verify and self.store is not None
        self._report = EvaluationReport(evaluated=0, reused=0)
        self._lock = RLock()

    def __getstate__(self) -> dict[str, Any]:
        """Return everything but the lock, which cannot be pickled."""
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state with a new lock."""
        self.__dict__.update(state)
        self._lock = RLock()

    def report(self) -> EvaluationReport:
        """Return how many coalitions were evaluated and how many came from the store so far."""
        return self._report

    def value_function(self, coalitions: np.ndarray) -> np.ndarray:
        """Return the values of coalitions, from the store where it has them.

        Args:
            coalitions: Matrix of shape ``(m, n)``; calling the game itself takes whatever shapiq
                takes, like a single coalition.

        Returns:
            The values, a new float64 array of shape ``(m,)``.

        Raises:
            EvaluationError: If the game raised, also after all retries.
            GameValueError: If it returned something other than finite numbers.
            StoreError: If the store was filled by another game.
            ValueError: If the coalitions are of another number of players.

        """
        coalitions = np.asarray(coalitions, dtype=bool)
        if coalitions.ndim != 2 or coalitions.shape[1] != self.n_players:
            msg = (
                f"Received coalitions of shape {coalitions.shape}, but (m, {self.n_players}) is "
                "required: one row per coalition."
            )
            raise ValueError(msg)
        keys = _pack(coalitions)
        distinct = dict.fromkeys(keys)
        values: dict[bytes, float] = {}
        if self.store is not None:
            self._verify(self.store)
            values = self.store.read(distinct)
            self._count(reused=len(values))
        missing = [key for key in distinct if key not in values]
        if missing:
            values |= self._pay(missing)
        return np.array([values[key] for key in keys], dtype=np.float64)

    def _verify(self, store: Store) -> None:
        """Evaluate one stored coalition again, once in the life of this object."""
        with self._lock:
            if not self._to_verify:
                return
            stored = store.sample()
            if stored is not None:
                key, value, largest = stored
                now = self._pay([key])[key]
                if abs(now - value) > _TOLERANCE * largest:
                    msg = (
                        f"The store {store.path} holds {value} for the coalition "
                        f"{_players(_unpack([key], self.n_players)[0])}, but this game gives {now}."
                        " Use another file or key for another game; for a game whose values are "
                        "random, pass verify=False."
                    )
                    raise StoreError(msg)
            self._to_verify = False

    def _pay(self, keys: list[bytes]) -> dict[bytes, float]:
        """Evaluate distinct coalitions, and store every batch as it comes."""
        size = 1 if self.batch_size == "auto" else self.batch_size
        transport: int | Literal["auto"] = "auto" if self.batch_size == "auto" else 1
        attempt = delayed(partial(_attempt, self.game, self.n_players, self.retries, os.getpid()))
        failures: list[_Outcome] = []
        # lists, since Dask would keep larger arguments on a single worker, and lose them with it
        batches = (keys[start : start + size] for start in range(0, len(keys), size))
        tasks = (attempt(batch) for batch in takewhile(lambda _: not failures, batches))
        values: dict[bytes, float] = {}
        with (
            nullcontext() if self.store is None else self.store.writer() as write,
            self._bar(len(keys)) as bar,
            closing(_stream(tasks, self.n_jobs, transport)) as outcomes,
        ):
            for outcome in outcomes:
                values |= outcome.values
                if write is not None:
                    write(outcome.values)
                self._count(evaluated=outcome.evaluated)
                bar.update(len(outcome.values))
                if outcome.error is not None:
                    failures.append(outcome)
        if failures:
            self._raise(failures[0], finished=len(values), wanted=len(keys))
        return values

    def _bar(self, total: int) -> tqdm[Any]:
        """Return a progress bar, which does nothing unless wanted."""
        # later bars show up after a second only: some approximators ask in hundreds of small calls
        delay = min(self._report.evaluated, 1)
        return tqdm(total=total, delay=delay, disable=not self.progress, unit=" evaluations")

    def _count(self, *, evaluated: int = 0, reused: int = 0) -> None:
        """Replace the report by one with more in it."""
        with self._lock:
            before = self._report
            self._report = EvaluationReport(before.evaluated + evaluated, before.reused + reused)

    def _raise(self, outcome: _Outcome, *, finished: int, wanted: int) -> None:
        """Raise the error of a batch with what it takes to go on."""
        if isinstance(outcome.error, GameValueError):
            raise outcome.error
        first = _players(_unpack(outcome.suspects[:1], self.n_players)[0])
        if len(outcome.suspects) == 1:
            where, coalition = f"the coalition {first}", first
            remedy = "Repair the game, or give it more retries, and repeat the call."
        else:
            where, coalition = f"a batch of {len(outcome.suspects)} from {first} on", None
            remedy = "Pass batch_size=1, or retries=1, to find out which coalition it was."
        kept = "not kept, for want of a store" if self.store is None else f"in {self.store.path}"
        msg = (
            f"The game raised {outcome.error!r} on {where}, after {self.retries} retries. "
            f"{finished} of {wanted} values are finished and {kept}. {remedy}"
        )
        raise EvaluationError(msg, coalition) from outcome.error
