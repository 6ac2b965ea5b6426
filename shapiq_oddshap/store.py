"""Game values on disk: one SQLite file, one row per evaluated coalition, nothing lost.

The file is an ordinary database with a rollback journal: between two commits it is a single file
that can be copied, and it works where write-ahead logs do not (network file systems). Coalitions
are packed bits. Values are 8-byte floats in a column without affinity, which SQLite returns bit for
bit (a ``REAL`` column would turn -0.0 into 0.0); the values of several outputs are one blob of such
floats. Nothing is pickled.

Format 1, of version 0.1, holds one number per coalition, and the values of one row where the game
is an imputer. It is read and continued as ever. New files have format 2: numbers of one or several
outputs, of any number of rows.
"""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import mkstemp
from typing import TYPE_CHECKING, Any

import numpy as np

from shapiq_oddshap.checks import as_integer, as_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from concurrent.futures import Future

    Value = float | np.ndarray  # of several outputs, shape (k,)

__all__ = ["Store", "StoreError"]

_APPLICATION_ID = int.from_bytes(b"OdSh", "big")
_FORMAT = 2
_READABLE = (1, 2)
_DTYPE = "float64"
_SCHEMA = f"""
    PRAGMA application_id = {_APPLICATION_ID};
    PRAGMA user_version = {_FORMAT};
    CREATE TABLE identity (n INTEGER NOT NULL, dtype TEXT NOT NULL, key TEXT);
    CREATE TABLE evaluated (
        explained BLOB NOT NULL, coalition BLOB NOT NULL, value NOT NULL,
        PRIMARY KEY (explained, coalition)
    );
"""
_PATIENCE = 60.0  # seconds to wait while another process commits, which takes milliseconds
_CHUNK = 500  # parameters of one query; SQLite's oldest builds bind at most 999


class StoreError(ValueError):
    """A file that cannot serve as the store of this game; it was left as it is."""


class Store:
    r"""The values of one game in one file, shared by any number of threads and processes.

    Connections live for one operation, so that a store is only a path: it can be pickled, forked
    and used by many threads at once.

    Values are floats, or arrays of shape ``(k,)`` for games of k outputs. Of a game that can explain
    several rows, each row's values have a name of their own, ``explained``, any bytes.

    Args:
        path: The file; it is created when nothing is there.
        n: The number of players.
        key: The name of the game. A store is only opened under the name that it was created with.

    Raises:
        TypeError: If ``n`` is no integer or ``key`` no string.
        StoreError: If the file is not a store, is damaged, was written in another format or belongs
            to another game. Refused files are never written to.

    Attributes:
        format: The format of the file, 1 or 2.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store(f"{folder}/game.sqlite", n=3, key="example")
        ...     store.write({b"\x00": 0.5, b"\x07": 2.0})
        ...     (len(store), store.read([b"\x07", b"\x01"]))
        (2, {b'\x07': 2.0})

    """

    def __init__(self, path: str | os.PathLike[str], *, n: int, key: str | None = None) -> None:
        """Create the file, or check that it is the store of this game."""
        self.path = Path(path).absolute()
        self.n = as_integer(n, "n", "a number of players such as n=10", least=1)
        self.key = None if key is None else as_text(key, "key", "key='my model, v1', or None")
        self.format = _FORMAT
        if not self.path.exists():
            self._create()
        fault = self._header_fault() or self._content_fault()
        if fault:
            msg = (
                f"The file {self.path} {fault}. It was left untouched: give another path, or move "
                "it away to start a new store."
            )
            raise StoreError(msg)

    def __len__(self) -> int:
        """Return the number of stored values."""
        with self._connection() as connection:
            (count,) = connection.execute("SELECT COUNT(*) FROM evaluated").fetchone()
        return int(count)

    def read(self, coalitions: Collection[bytes], explained: bytes = b"") -> dict[bytes, Value]:
        """Return the values of those of the packed ``coalitions`` that are stored."""
        wanted = list(coalitions)
        found: dict[bytes, Value] = {}
        where, names = self._where(explained)
        with self._connection() as connection:
            for start in range(0, len(wanted), _CHUNK):
                chunk = wanted[start : start + _CHUNK]
                marks = ",".join("?" * len(chunk))
                query = f"SELECT coalition, value FROM evaluated WHERE {where} AND coalition IN ({marks})"  # noqa: S608
                rows = connection.execute(query, (*names, *chunk))
                found.update((coalition, _decoded(value)) for coalition, value in rows)
        return found

    def write(self, values: Mapping[bytes, Value], explained: bytes = b"") -> None:
        """Commit values by packed coalition; a value that is already there stays.

        Raises:
            StoreError: If there are several outputs and the file has format 1.
        """
        if self.format == 1 and any(isinstance(value, np.ndarray) for value in values.values()):
            msg = (
                f"The file {self.path} has store format 1, which holds one number per coalition, "
                "but this game has several outputs. It was left untouched: give another path."
            )
            raise StoreError(msg)
        _, names = self._where(explained)
        marks = ",".join("?" * (len(names) + 2))
        rows = ((*names, coalition, _encoded(value)) for coalition, value in values.items())
        with self._writing() as connection:
            connection.executemany(f"INSERT OR IGNORE INTO evaluated VALUES ({marks})", rows)  # noqa: S608

    def check_writable(self) -> None:
        """Find out before anything is paid for whether the file can be written to.

        Raises:
            StoreError: If it cannot.
        """
        with self._writing() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.rollback()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction that writes; say which file it is that cannot be."""
        try:
            with self._connection() as connection:
                yield connection
        except sqlite3.OperationalError as error:
            msg = (
                f"The store {self.path} cannot be written to: {error}. Please check its permissions and "
                "the disk, or give another path."
            )
            raise StoreError(msg) from error

    @contextmanager
    def writer(self, explained: bytes = b"") -> Iterator[Callable[[Mapping[bytes, Value]], None]]:
        """Provide a :meth:`write` that does not wait for the disk.

        A commit starts at once, or else as soon as the one under way is done, and then takes all
        that has gathered: hundreds of workers are not held up by one disk. On leaving, also by an
        exception, everything is committed. A commit that failed raises at the next call.
        """
        waiting: deque[Mapping[bytes, Value]] = deque()
        commits: deque[Future[None]] = deque()

        def commit() -> None:
            values: dict[bytes, Value] = {}
            while waiting:
                values.update(waiting.popleft())
            if values:
                self.write(values, explained)

        def write(values: Mapping[bytes, Value]) -> None:
            while commits and commits[0].done():
                commits.popleft().result()
            waiting.append(values)
            commits.append(thread.submit(commit))

        with ThreadPoolExecutor(max_workers=1) as thread:
            yield write
        for last in commits:
            last.result()

    def telling(
        self, always: bytes, count: int, explained: bytes = b""
    ) -> tuple[dict[bytes, Value], Value]:
        """Return coalitions that tell this game from others, and the largest absolute values.

        Values that many coalitions share tell least: in data valuation all that is too little to
        train on is worth the same, whatever the model. So those come first that no other coalition
        has, the farthest from the mean before the others; of several outputs a sum counts whose
        weights let none of the usual identities cancel, such as that of classes to one. The empty
        coalition, which is worth 0 in half of all games, is not among them.

        Args:
            always: A packed coalition that is among them if it is stored.
            count: How many others at most.
            explained: The name of the explained row.

        Returns:
            Their values by packed coalition, and the largest absolute value of each output, 0 of an
            empty store.

        Raises:
            StoreError: If the stored values are of different numbers of outputs.
        """
        where, names = self._where(explained)
        query = f"SELECT coalition, value FROM evaluated WHERE {where} ORDER BY coalition"  # noqa: S608
        others: list[bytes] = []
        sums: list[float] = []
        sizes: set[tuple[int, ...]] = set()
        largest: Any = 0.0
        with self._connection() as connection:
            for coalition, value in connection.execute(query, names):
                outputs = _decoded(value)
                if sizes and np.shape(outputs) not in sizes:
                    msg = f"The store {self.path} holds different numbers of outputs. Use another."
                    raise StoreError(msg)
                sizes.add(np.shape(outputs))
                largest = np.maximum(largest, np.abs(outputs))
                if coalition != always and any(coalition):
                    others.append(coalition)
                    weights = np.cos(1.0 + np.arange(np.size(outputs)))
                    sums.append(float(np.sum(outputs * weights)))
        _, first, shared = np.unique(sums, return_index=True, return_counts=True)
        unusual = np.abs(np.array(sums) - np.mean(sums)) if sums else np.zeros(0)
        order = first[np.lexsort((-unusual[first], shared))][:count]
        return self.read([always, *(others[place] for place in order)], explained), largest

    def sample(self) -> tuple[bytes, Value, Value] | None:
        """Return the most telling coalition but the grand one, its value, and the largest value.

        See :meth:`telling`; ``None`` if there is none.
        """
        found, largest = self.telling(b"", 1)
        return next(((key, value, largest) for key, value in found.items()), None)

    def _where(self, explained: bytes) -> tuple[str, tuple[bytes, ...]]:
        """Return what selects a row's values, and its parameters; format 1 has one row's alone."""
        return ("TRUE", ()) if self.format == 1 else ("explained = ?", (explained,))

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction; ``mode=rw`` never creates one."""
        address = f"{self.path.as_uri()}?mode=rw"
        opened = closing(sqlite3.connect(address, uri=True, timeout=_PATIENCE))
        with opened as connection, connection:
            yield connection

    def _create(self) -> None:
        """Put a complete, empty store in place in one step.

        Whoever is killed here, or opens the file at the same moment, meets either no file or a
        whole one; an empty or short file is therefore always somebody else's or damaged.
        """
        if not self.path.parent.is_dir():
            msg = (
                f"The file {self.path} cannot be created, since {self.path.parent} is no folder. "
                "Give a path in a folder that exists."
            )
            raise StoreError(msg)
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.executescript(_SCHEMA)
            with connection:
                identity = (self.n, _DTYPE, self.key)
                connection.execute("INSERT INTO identity VALUES (?, ?, ?)", identity)
            blank = connection.serialize()
        # closed before it gets its name, since Windows neither links nor removes open files
        descriptor, name = mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(blank)
                file.flush()
                os.fsync(descriptor)
            with suppress(FileExistsError):  # another process was first
                os.link(name, self.path)
        finally:
            Path(name).unlink()

    def _header_fault(self) -> str | None:
        """Judge the file by its first bytes, before SQLite may touch what is not ours."""
        if self.path.is_dir():
            return "is a folder"
        with self.path.open("rb") as file:
            header = file.read(100)
        if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
            return "is not an SQLite file, or what is left of a truncated one"
        if int.from_bytes(header[68:72], "big") != _APPLICATION_ID:
            return "is an SQLite file of another program"
        self.format = int.from_bytes(header[60:64], "big")
        if self.format not in _READABLE:
            return f"has store format {self.format}, but this version knows the formats 1 and 2"
        return None

    def _content_fault(self) -> str | None:
        """Judge the database and the game that it belongs to; reading leaves a file as it is."""
        try:
            with self._connection() as connection:
                connection.execute("BEGIN")  # nobody commits between these readings
                (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
                found = connection.execute("SELECT n, dtype, key FROM identity").fetchone()
                (page,) = connection.execute("PRAGMA page_size").fetchone()
                # SQLite notices missing pages, but reads a part of one as if zeros followed
                if self.path.stat().st_size % page:
                    state = "the last page is incomplete"
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN}:
                raise  # says nothing about what is in the file
            return f"is truncated or damaged ({error})"
        if state != "ok":
            return f"is truncated or damaged ({state})"
        required = (self.n, _DTYPE, self.key)
        if found != required:
            return f"belongs to a game with (n, dtype, key) = {found}, but this one has {required}"
        return None


def _encoded(value: Value) -> float | bytes:
    """Return what the column holds: a number as itself, several as a blob."""
    if isinstance(value, np.ndarray):
        return value.astype("<f8").tobytes()
    return float(value)


def _decoded(value: float | bytes) -> Value:
    """Return the value that :func:`_encoded` encoded; an array is read-only."""
    return np.frombuffer(value, "<f8") if isinstance(value, bytes) else value
