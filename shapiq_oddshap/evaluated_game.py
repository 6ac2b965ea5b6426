"""An expensive game: evaluated in parallel, with progress, retried, and never lost."""

from __future__ import annotations

import copy
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from threading import RLock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from shapiq import Game
from tqdm import tqdm

from shapiq_oddshap.checks import as_flag, as_integer
from shapiq_oddshap.evaluation import GameValueError, check_callable, pack, players, unpack
from shapiq_oddshap.refit import RefitGame
from shapiq_oddshap.shapiq_adapter import (
    explained_row,
    is_imputer,
    refits_after_a_call,
    with_game,
)
from shapiq_oddshap.store import Store, StoreError
from shapiq_oddshap.workers import Outcome, outcomes_of, pause

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from shapiq import Explainer

    from shapiq_oddshap.store import Value

__all__ = ["EvaluatedGame", "EvaluatedImputer", "EvaluationError", "EvaluationReport", "evaluated"]

_TOLERANCE = 1e-6  # of the largest stored value: float32 models on another machine are no error
_VERIFIED = 4  # stored coalitions that are evaluated again, beside the grand one


class EvaluationError(RuntimeError):
    """A game raised an exception, or a worker was lost: the ``__cause__`` of this error.

    Attributes:
        coalition: The players of the coalition; None if several failed as a whole.

    """

    def __init__(self, message: str, coalition: tuple[int, ...] | None = None) -> None:
        """Initialize the error; arguments as in the attributes."""
        super().__init__(message)
        self.coalition = coalition


@dataclass(frozen=True)
class EvaluationReport:
    """What an :class:`EvaluatedGame` did so far, in coalitions.

    Attributes:
        evaluated: Asked of the game. This is what was paid: retries and the check of the store
            count, evaluations that were interrupted do not.
        reused: Taken from the store instead.
        verified: Those of the evaluated that were the check of the store.

    """

    evaluated: int = 0
    reused: int = 0
    verified: int = 0

    def __repr__(self) -> str:
        """Return the call that constructs the report, without what did not happen."""
        counts = ", ".join(
            f"{name}={count}"
            for name, count in vars(self).items()
            if count or name in {"evaluated", "reused"}
        )
        return f"EvaluationReport({counts})"


def _check_outputs(known: Mapping[bytes, Value], new: Mapping[bytes, Value]) -> None:
    """Refuse values of another number of outputs than those before, before they are stored.

    Raises:
        GameValueError: If there are some.
    """
    first = next(iter(known.values()), None)
    shapes = {np.shape(value) for value in new.values()}
    shapes |= set() if first is None else {np.shape(first)}
    if len(shapes) > 1:
        numbers = sorted(shape[0] if shape else 1 for shape in shapes)
        msg = (
            f"The game returned {' and '.join(map(str, numbers))} outputs for different "
            "coalitions. The same number for each is required."
        )
        raise GameValueError(msg)


class EvaluatedGame(Game):  # type: ignore[misc]
    """An expensive game: evaluated in parallel, with progress, retried, and stored as it goes.

    It is itself a shapiq ``Game``, so every approximator and ``shapiq.AgnosticExplainer`` take it;
    around an imputer it is an imputer, which ``shapiq.TabularExplainer`` takes too
    (``imputer=EvaluatedGame(MarginalImputer(model, data), n_jobs=4)``) and fits to every row; for
    any other explainer there is :func:`evaluated`. The game may have several outputs: it then returns
    values of shape ``(m, k)``, of which a call holds 16 m k bytes and what is on its way.
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
    the same call takes from it what is there, which :meth:`report` counts. Of an imputer, it holds
    the values of every row and random state apart.

    **Failures.** When the game raises, or returns what is not finite, no new evaluation is started,
    those under way are waited for and stored, and an error names the coalition. Ctrl-C does not
    wait. A killed worker process, most often for want of memory, ends in an error that says what is
    stored and how to go on, once there are no retries left. (Dask gives what killed its worker to as
    many others as ``distributed.scheduler.allowed-failures`` says; then joblib waits for ever.)

    Args:
        game: A shapiq ``Game``, an imputer or any callable from coalitions to values. Workers in
            other processes get copies, so it has to be picklable (by cloudpickle) for them.
        n: The number of players; not needed if the game says it by ``n_players``.
        n_jobs: The number of workers; None takes that of joblib's active backend.
        batch_size: How many coalitions the game gets, and the store receives, at a time. ``"auto"``
            is one, and joblib groups fast tasks on their way to other processes. More pays for
            games that are fast on many rows, like the prediction of a model; but the last bit of a
            matrix product may depend on the number of rows. It makes no difference to a
            ``shapiq.TabPFNImputer``, whose model is fitted once per coalition either way.
        progress: Whether to show a bar over the evaluations of each call on stderr.
        store: The path of the store; it is created if nothing is there.
        key: The name of the game in the store: whatever tells it from others with as many players.
        retries: How often coalitions that raised are evaluated again, one by one, after pauses of
            1, 2, 4, … seconds. Every retry costs an evaluation. What was under way when a worker
            was killed is begun again as often.
        verify: Whether a few stored coalitions are evaluated again before the store is first used,
            or first used for a row: the grand one and those of the most unusual values, which tell
            games apart.

    Raises:
        TypeError: If the game cannot be called, or an option is of the wrong type.
        ValueError: If the number of players is unknown or contradictory, or an option is out of its
            range.
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
        if n_jobs is not None:
            n_jobs = as_integer(n_jobs, "n_jobs", "n_jobs=4, or -1 for all cores")
        if n_jobs == 0:
            msg = (
                "Received n_jobs=0, but a number of workers, -1 for all cores or None is required."
            )
            raise ValueError(msg)
        if not (isinstance(batch_size, str) and batch_size == "auto"):
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
        self.progress = as_flag(progress, "progress")
        self.retries = retries
        self.verify = as_flag(verify, "verify")
        self.store = None if store is None else Store(store, n=self.n_players, key=key)
        self._name = b""  # of what the game explains, in the store
        self._admitted: set[bytes] = set()
        self._report = EvaluationReport()
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

    @property
    def verbose(self) -> bool:
        """False: a verbose game of shapiq evaluates one coalition after another."""
        return False

    @verbose.setter
    def verbose(self, verbose: bool) -> None:
        """Show the bar if an explainer wants one."""
        self.progress = getattr(self, "progress", False) or bool(verbose)

    def report(self) -> EvaluationReport:
        """Return how many coalitions were evaluated and how many came from the store so far."""
        return self._report

    def around(self, game: Callable[[np.ndarray], Any], name: bytes = b"") -> EvaluatedGame:
        """Return a game with the same options and store around another game of as many players.

        Args:
            game: The other game.
            name: Whatever tells its values in the store from others.
        """
        made: EvaluatedGame = object.__new__(EvaluatedGame)
        own = {"game": game, "_name": name, "_admitted": set(), "_report": EvaluationReport()}
        made.__setstate__(self.__getstate__() | own)
        return made

    def value_function(self, coalitions: np.ndarray) -> np.ndarray:
        """Return the values of coalitions, from the store where it has them.

        Args:
            coalitions: Matrix of shape ``(m, n)``; calling the game itself takes whatever shapiq
                takes, like a single coalition.

        Returns:
            The values, a new float64 array of shape ``(m,)``, or ``(m, k)`` of k > 1 outputs.

        Raises:
            EvaluationError: If the game raised or a worker was lost, also after all retries.
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
        explained = self._explained()
        values: dict[bytes, Value] = {}
        if self.store is not None:
            self._admit(self.store, explained)
            values = self.store.read(distinct, explained)
            self._count(reused=len(values))
        missing = [key for key in distinct if key not in values]
        if missing:
            if self.store is not None:
                self.store.check_writable()
            values = self._pay(missing, explained, self.store, values)
        return np.array([values[key] for key in keys], dtype=np.float64)

    def _explained(self) -> bytes:
        """Return the name of what the game explains now, in the store."""
        return self._name

    def _evaluator(self) -> Callable[[np.ndarray], Any]:
        """Return what workers call."""
        return self.game

    def _settle(self, evaluator: Callable[[np.ndarray], Any]) -> None:
        """Leave the game as it would leave itself."""

    def _admit(self, store: Store, explained: bytes) -> None:
        """Check the store by a few of its values, once in the life of this object for every row."""
        with self._lock:
            if explained in self._admitted:
                return
            if store.format == 1 and self._admitted:
                msg = (
                    f"The store {store.path} has format 1, which holds the values of one row, and "
                    "the imputer has another row or random state than before. Give another path."
                )
                raise StoreError(msg)
            if self.verify:
                self._verify(store, explained)
            self._admitted.add(explained)

    def _verify(self, store: Store, explained: bytes) -> None:
        """Evaluate a few telling coalitions again, and refuse a store that holds other values."""
        full = pack(np.ones((1, self.n_players), dtype=bool))[0]
        stored, largest = store.telling(full, _VERIFIED, explained)
        now = self._pay(list(stored), explained, None) if stored else {}
        self._count(verified=len(now))
        for key, value in stored.items():
            same = np.shape(value) == np.shape(now[key])
            if not same or np.any(np.abs(now[key] - value) > _TOLERANCE * largest):
                msg = (
                    f"The store {store.path} holds {value} for the coalition "
                    f"{players(unpack([key], self.n_players)[0])}, but this game gives {now[key]}."
                    " Use another file or key for another game; for a game whose values are "
                    "random, pass verify=False."
                )
                raise StoreError(msg)

    def _pay(
        self,
        keys: list[bytes],
        explained: bytes,
        store: Store | None,
        known: Mapping[bytes, Value] = MappingProxyType({}),
    ) -> dict[bytes, Value]:
        """Evaluate distinct coalitions, and return them beside those that are known.

        It begins again, after a pause, when a worker was lost.
        """
        values = dict(known)
        evaluator = self._evaluator()
        for round_ in range(1 + self.retries):
            pause(round_)
            missing = [key for key in keys if key not in values]
            with nullcontext() if store is None else store.writer(explained) as write:
                failure = self._round(evaluator, missing, values, write)
            if failure is None:
                break
            if not failure.lost or round_ == self.retries:
                self._raise(failure, finished=len(values) - len(known), wanted=len(keys))
        self._settle(evaluator)
        return values

    def _round(
        self,
        evaluator: Callable[[np.ndarray], Any],
        keys: list[bytes],
        values: dict[bytes, Value],
        write: Callable[[Mapping[bytes, Value]], None] | None,
    ) -> Outcome | None:
        """Evaluate coalitions into ``values``, and write them; return the first failure."""
        size = 1 if self.batch_size == "auto" else self.batch_size
        failures: list[Outcome] = []
        batches = (keys[start : start + size] for start in range(0, len(keys), size))
        outcomes = outcomes_of(
            evaluator,
            self.n_players,
            takewhile(lambda _: not failures, batches),
            retries=self.retries,
            n_jobs=self.n_jobs,
            batch_size="auto" if self.batch_size == "auto" else 1,
        )
        with self._bar(len(keys)) as bar, closing(outcomes):
            for outcome in outcomes:
                _check_outputs(values, outcome.values)
                values |= outcome.values
                if write is not None:
                    write(outcome.values)
                self._count(evaluated=outcome.evaluated)
                bar.update(len(outcome.values))
                if outcome.error is not None:
                    failures.append(outcome)
        return failures[0] if failures else None

    def _bar(self, total: int) -> tqdm[Any]:
        """Return a progress bar, which does nothing unless wanted."""
        # later bars show up after a second only: some approximators ask in hundreds of small calls
        delay = min(self._report.evaluated, 1)
        return tqdm(total=total, delay=delay, disable=not self.progress, unit=" evaluations")

    def _count(self, *, evaluated: int = 0, reused: int = 0, verified: int = 0) -> None:
        """Replace the report by one with more in it."""
        with self._lock:
            before = self._report
            self._report = EvaluationReport(
                before.evaluated + evaluated, before.reused + reused, before.verified + verified
            )

    def _raise(self, failure: Outcome, *, finished: int, wanted: int) -> None:
        """Raise the error of an outcome with what it takes to go on."""
        error = failure.error
        kept = "not kept, for want of a store" if self.store is None else f"in {self.store.path}"
        state = f"{finished} of {wanted} values are finished and {kept}."
        if isinstance(error, GameValueError):
            error.add_note(state)
            raise error
        if failure.lost:
            reason = str(error).partition("\n")[0] or type(error).__name__
            again = "Repeat the call to go on from there" if self.store else "Give a store"
            msg = (
                f"A worker was killed, after {self.retries} retries ({reason}). {state} {again}; if "
                "memory ran out, take fewer workers by n_jobs, and retries=1 to begin again by itself."
            )
            raise EvaluationError(msg) from error
        first = players(unpack(failure.suspects[:1], self.n_players)[0])
        if len(failure.suspects) == 1:
            where, coalition = f"the coalition {first}", first
            remedy = "Repair the game, or give it more retries, and repeat the call."
        else:
            where, coalition = f"a batch of {len(failure.suspects)} from {first} on", None
            remedy = "Pass batch_size=1, or retries=1, to find out which coalition it was."
        msg = (
            f"The game raised {error!r} on {where}, after {self.retries} retries. {state} {remedy}"
        )
        raise EvaluationError(msg, coalition) from error


class EvaluatedImputer(EvaluatedGame):
    """An :class:`EvaluatedGame` around one of shapiq's imputers, which explainers take for one.

    Made by ``EvaluatedGame(imputer)``. Its store holds the values of every row, and of every random
    state of the imputer, apart.
    """

    def fit(self, x: np.ndarray) -> EvaluatedImputer:
        """Fit the imputer to a row, as shapiq's explainers do for every row that they explain.

        Args:
            x: The row, shape ``(n,)`` or ``(1, n)``.
        """
        self.game.fit(x)  # type: ignore[attr-defined]
        return self

    def set_random_state(self, random_state: int | None = None) -> None:
        """Seed the imputer.

        Args:
            random_state: The seed; ``None`` for fresh entropy.
        """
        self.game.set_random_state(random_state)  # type: ignore[attr-defined]

    def _explained(self) -> bytes:
        """Return the name of the row and random state."""
        return explained_row(self.game)

    def _evaluator(self) -> Callable[[np.ndarray], Any]:
        """Return the imputer, or the same without a refit at the end of every call."""
        imputer: Any = self.game
        if not refits_after_a_call(imputer):
            return self.game
        return RefitGame(
            *(imputer.model, imputer.x_train, imputer.y_train, imputer.x),
            predict=partial(_normalized_prediction, imputer),
            empty=imputer.empty_prediction - imputer.normalization_value,
            in_place=True,
        )

    def _settle(self, evaluator: Callable[[np.ndarray], Any]) -> None:
        """Fit a model that was left fitted to some of the features to all, as the imputer does."""
        if isinstance(evaluator, RefitGame):
            evaluator.restore()

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


def _normalized_prediction(imputer: Any, _model: object, row: np.ndarray) -> np.ndarray:  # noqa: ANN401
    """Predict as an imputer does."""
    predictions: np.ndarray = np.asarray(imputer.predict(row)) - imputer.normalization_value
    return predictions


def _restored(state: dict[str, Any]) -> EvaluatedImputer:
    """Return the pickled imputer of a state."""
    made = EvaluatedImputer.__new__(EvaluatedImputer)
    made.__setstate__(state)
    return made


def evaluated(explainer: Explainer, **options: Any) -> Explainer:  # noqa: ANN401
    """Return a copy of one of shapiq's explainers whose games are evaluated ones.

    For explainers that make their imputer themselves, like ``shapiq.TabPFNExplainer``, and all
    others that have an imputer or a game.

    Args:
        explainer: The explainer. The copy shares its model and approximator.
        **options: Of :class:`EvaluatedGame`, such as ``n_jobs``, ``store`` and ``progress``.

    Raises:
        TypeError: If the explainer has neither an imputer nor a game, or an option is unknown.

    Example:
        >>> import shapiq
        >>> data = np.random.default_rng(0).normal(size=(20, 3))
        >>> explainer = shapiq.TabularExplainer(
        ...     lambda x: x.sum(axis=1), data, index="SV", max_order=1, approximator="oddshap"
        ... )
        >>> explainer = evaluated(explainer, batch_size=8)
        >>> explainer.explain(data[0], budget=8).estimated, explainer.imputer.report()
        (False, EvaluationReport(evaluated=8, reused=0))

    """

    def wrapped(game: Any) -> EvaluatedGame:  # noqa: ANN401
        n = getattr(game, "n_players", explainer.approximator.n)
        return EvaluatedGame(game, **{"n": n} | options)

    return with_game(copy.copy(explainer), wrapped)
