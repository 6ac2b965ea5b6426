"""An expensive game: evaluated in parallel, with progress, retried, and never lost."""

from __future__ import annotations

import os
import traceback
from concurrent.futures import BrokenExecutor
from contextlib import closing, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import islice, takewhile
from math import isfinite
from threading import RLock
from time import sleep
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from shapiq import Game
from tqdm import tqdm

from shapiq_oddshap.checks import as_integer
from shapiq_oddshap.evaluation import (
    GameValueError,
    check_callable,
    evaluate,
    pack,
    players,
    unpack,
)
from shapiq_oddshap.shapiq_adapter import explained_row, is_imputer, refits_after_a_call
from shapiq_oddshap.store import Store, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

__all__ = ["EvaluatedGame", "EvaluatedImputer", "EvaluationError", "EvaluationReport"]

_TOLERANCE = 1e-6  # of the largest stored value: float32 models on another machine are no error
_VERIFIED = 4  # stored coalitions that are evaluated again, beside the grand one
_WAVE = 4  # batches per worker between two commits where joblib only returns whole lists
_LARGEST_REFITTED = 32  # coalitions between two commits where every call ends in a refit


class EvaluationError(RuntimeError):
    """A game raised an exception, which is the ``__cause__`` of this one.

    Attributes:
        coalition: The players of the coalition; None if a batch of several failed as a whole.

    """

    def __init__(self, message: str, coalition: tuple[int, ...] | None = None) -> None:
        """Initialize the error; arguments as in the attributes."""
        super().__init__(message)
        self.coalition = coalition


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
                values.update(zip(batch, evaluate(game, unpack(batch, n)).tolist(), strict=True))
            except GameValueError as refusal:
                kept = _finite(batch, refusal)
                bad = [key for key in batch if key not in kept]
                return _Outcome(values | kept, evaluated, bad, refusal)
            except Exception as raised:  # noqa: BLE001 - the caller chains and raises it
                error = raised
                failed += batch
        if not failed:
            return _Outcome(values, evaluated, [], None)
        batches = [[key] for key in failed]
    if error is not None and os.getpid() != caller:
        error = _portable(error)
    return _Outcome(values, evaluated, failed, error)


def _finite(batch: list[bytes], refusal: GameValueError) -> dict[bytes, float]:
    """Return what is finite of a batch that was refused for the rest."""
    if refusal.values is None:
        return {}
    pairs = zip(batch, refusal.values.tolist(), strict=True)
    return {key: value for key, value in pairs if isfinite(value)}


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

    It is itself a shapiq ``Game``, so every approximator and ``shapiq.AgnosticExplainer`` take it;
    around an imputer it is an imputer, which ``shapiq.TabularExplainer`` takes too
    (``imputer=EvaluatedGame(MarginalImputer(model, data), n_jobs=4)``) and fits to every row.
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
            is one, and joblib groups fast tasks on their way to other processes; of an imputer that
            ends every call by refitting its model it is up to 32. More pays for
            games that are fast on many rows, like the prediction of a model; but the last bit of a
            matrix product may depend on the number of rows.
        progress: Whether to show a bar over the evaluations of each call on stderr.
        store: The path of the store; it is created if nothing is there.
        key: The name of the game in the store: whatever tells it from others with as many players.
        retries: How often coalitions that raised are evaluated again, one by one, after pauses of
            1, 2, 4, … seconds. Every retry costs an evaluation.
        verify: Whether a few stored coalitions are evaluated again before the store is first used:
            the grand one and those of the most unusual values, which tell games apart.

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
        if n is None and known is None:
            msg = (
                "Received no n and a game without n_players. Please pass n, the number of players."
            )
            raise ValueError(msg)
        players_ = as_integer(known if n is None else n, "n", "the number of players", least=1)
        if known not in {None, players_}:
            msg = (
                f"Received n={players_} and a game of n_players={known}. Please pass no other n than "
                "the game's own, or none."
            )
            raise ValueError(msg)
        if (
            n_jobs is not None
            and as_integer(n_jobs, "n_jobs", "n_jobs=4, or -1 for all cores") == 0
        ):
            msg = (
                "Received n_jobs=0, but a number of workers, -1 for all cores or None is required."
            )
            raise ValueError(msg)
        if batch_size != "auto":
            batch_size = as_integer(batch_size, "batch_size", "batch_size=64, or 'auto'", least=1)
        retries = as_integer(retries, "retries", "retries=2", least=0)
        if key is not None and store is None:
            msg = f"Received key={key!r} without a store. Give the store that it is for, or no key."
            raise ValueError(msg)
        names = list(getattr(game, "player_name_lookup", None) or []) or None
        # without normalization shapiq needs no value here; a wrapped Game subtracts its own
        super().__init__(n_players=players_, normalize=False, player_names=names)
        self.game = game
        self.n_jobs = n_jobs
        self.batch_size = batch_size
        self.progress = progress
        self.retries = retries
        self.store = None if store is None else Store(store, n=self.n_players, key=key)
        self._to_verify = verify and self.store is not None
        self._row = explained_row(game)
        self._report = EvaluationReport(evaluated=0, reused=0)
        self._lock = RLock()

    def __new__(cls, game: object = None, **_: object) -> EvaluatedGame:  # noqa: PYI034
        """Return an imputer for an imputer, so that every explainer takes it."""
        imputed = cls is EvaluatedGame and is_imputer(game)
        made: EvaluatedGame = object.__new__(EvaluatedImputer if imputed else cls)
        return made

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
        keys = pack(coalitions)
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
        """Evaluate a few stored coalitions again, once in the life of this object."""
        if explained_row(self.game) != self._row:
            msg = (
                f"The imputer explains another row than when it was given the store {store.path}, "
                "which holds the values of one row. Use an EvaluatedGame with a store of its own for "
                "every row, or none."
            )
            raise StoreError(msg)
        with self._lock:
            if not self._to_verify:
                return
            full = pack(np.ones((1, self.n_players), dtype=bool))[0]
            stored, largest = store.telling(full, _VERIFIED)
            now = self._pay(list(stored)) if stored else {}
            for key, value in stored.items():
                if abs(now[key] - value) > _TOLERANCE * largest:
                    msg = (
                        f"The store {store.path} holds {value} for the coalition "
                        f"{players(unpack([key], self.n_players)[0])}, but this game gives {now[key]}."
                        " Use another file or key for another game; for a game whose values are "
                        "random, pass verify=False."
                    )
                    raise StoreError(msg)
            self._to_verify = False

    def _pay(self, keys: list[bytes]) -> dict[bytes, float]:
        """Evaluate distinct coalitions; start again, with a pause, when a worker was killed."""
        values: dict[bytes, float] = {}
        for round_ in range(1 + self.retries):
            if round_:
                sleep(2 ** (round_ - 1))
            try:
                self._pay_once([key for key in keys if key not in values], values)
            except BrokenExecutor as error:
                if round_ == self.retries:
                    raise self._killed(error, len(values), len(keys)) from error
            else:
                break
        return values

    def _pay_once(self, keys: list[bytes], values: dict[bytes, float]) -> None:
        """Evaluate distinct coalitions; ``values`` and the store get every batch as it comes."""
        size = self._batch(len(keys))
        transport: int | Literal["auto"] = "auto" if self.batch_size == "auto" else 1
        attempt = delayed(partial(_attempt, self.game, self.n_players, self.retries, os.getpid()))
        failures: list[_Outcome] = []
        # lists, since Dask would keep larger arguments on a single worker, and lose them with it
        batches = (keys[start : start + size] for start in range(0, len(keys), size))
        tasks = (attempt(batch) for batch in takewhile(lambda _: not failures, batches))
        wanted = len(keys) + len(values)
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
            self._raise(failures[0], finished=len(values), wanted=wanted)

    def _batch(self, count: int) -> int:
        """Return how many coalitions the game gets at a time, of so many that are wanted."""
        if self.batch_size != "auto":
            return self.batch_size
        if not refits_after_a_call(self.game):
            return 1
        return min(_LARGEST_REFITTED, -(-count // effective_n_jobs(self.n_jobs or 1)))

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
        state = self._state(finished, wanted)
        if isinstance(outcome.error, GameValueError):
            outcome.error.add_note(state)
            raise outcome.error
        first = players(unpack(outcome.suspects[:1], self.n_players)[0])
        if len(outcome.suspects) == 1:
            where, coalition = f"the coalition {first}", first
            remedy = "Repair the game, or give it more retries, and repeat the call."
        else:
            where, coalition = f"a batch of {len(outcome.suspects)} from {first} on", None
            remedy = "Pass batch_size=1, or retries=1, to find out which coalition it was."
        msg = (
            f"The game raised {outcome.error!r} on {where}, after {self.retries} retries. "
            f"{state} {remedy}"
        )
        raise EvaluationError(msg, coalition) from outcome.error

    def _state(self, finished: int, wanted: int) -> str:
        """Return how far the evaluation has come, and where its values are."""
        kept = "not kept, for want of a store" if self.store is None else f"in {self.store.path}"
        return f"{finished} of {wanted} values are finished and {kept}."

    def _killed(self, error: BrokenExecutor, finished: int, wanted: int) -> EvaluationError:
        """Return what to say of a worker that died, most often for want of memory."""
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return EvaluationError(
            f"A worker was killed, after {self.retries} retries ({reason}). "
            f"{self._state(finished, wanted)} Repeat the call to go on from there; if memory ran out, "
            "take fewer workers by n_jobs, and retries=1 to start again by itself."
        )


class EvaluatedImputer(EvaluatedGame):
    """An :class:`EvaluatedGame` around one of shapiq's imputers, which explainers take for one.

    Made by ``EvaluatedGame(imputer)``. A store holds the values of one row: with a store, a second
    row is refused.
    """

    def fit(self, x: np.ndarray) -> EvaluatedImputer:
        """Fit the imputer to a row, as shapiq's explainers do for every row that they explain.

        Args:
            x: The row, shape ``(n,)`` or ``(1, n)``.

        Raises:
            StoreError: If there is a store and the imputer was fitted to another row.
        """
        self.game.fit(x)  # type: ignore[attr-defined]
        if self._row is None or self.store is None:
            self._row = explained_row(self.game)
        return self

    def set_random_state(self, random_state: int | None = None) -> None:
        """Seed the imputer.

        Args:
            random_state: The seed; ``None`` for fresh entropy.
        """
        self.game.set_random_state(random_state)  # type: ignore[attr-defined]

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class of the imputer, by which shapiq's explainers tell what they take."""
        return type(self.game)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the own class."""
        return _restored, (self.__getstate__(),)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """Return what else explainers ask an imputer for, such as ``empty_prediction``."""
        if name.startswith("__") or "game" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.game, name)


def _restored(state: dict[str, Any]) -> EvaluatedImputer:
    """Return the pickled imputer of a state."""
    made = EvaluatedImputer.__new__(EvaluatedImputer)
    made.__setstate__(state)
    return made
