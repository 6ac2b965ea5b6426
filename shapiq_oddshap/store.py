"""Game values on disk: one SQLite file, one row per evaluated coalition, nothing lost.

The file is an ordinary database with a rollback journal: between two commits it is a single file
that can be copied, and it works where write-ahead logs do not (network file systems). Coalitions
are packed bits. Values are 8-byte floats in a column without affinity, which SQLite returns bit for
bit (a ``REAL`` column would turn -0.0 into 0.0). Nothing is pickled.
"""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from shapiq_oddshap.checks import as_integer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from concurrent.futures import Future

__all__ = ["Store", "StoreError"]

_APPLICATION_ID = int.from_bytes(b"OdSh", "big")
_FORMAT = 1
_DTYPE = "float64"
_SCHEMA = f"""
    PRAGMA application_id = {_APPLICATION_ID};
    PRAGMA user_version = {_FORMAT};
    CREATE TABLE identity (n INTEGER NOT NULL, dtype TEXT NOT NULL, key TEXT);
    CREATE TABLE evaluated (coalition BLOB PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
"""
_PATIENCE = 60.0  # seconds to wait while another process commits, which takes milliseconds
_CHUNK = 500  # parameters of one query; SQLite's oldest builds bind at most 999


class StoreError(ValueError):
    """A file that cannot serve as the store of this game; it was left as it is."""


class Store:
    r"""The values of one game in one file, shared by any number of threads and processes.

    Connections live for one operation, so that a store is only a path: it can be pickled, forked
    and used by many threads at once.

    Args:
        path: The file; it is created when nothing is there.
        n: The number of players.
        key: The name of the game. A store is only opened under the name that it was created with.

    Raises:
        TypeError: If ``n`` is no integer or ``key`` no string.
        StoreError: If the file is not a store, is damaged, was written in another format or belongs
            to another game. Refused files are never written to.

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
        if not isinstance(key, str | None):
            msg = f"Received key={key!r}, but a string is required, such as key='my model, v1', or None."
            raise TypeError(msg)
        self.path = Path(path).absolute()
        self.n = as_integer(n, "n", "a number of players such as n=10", least=1)
        self.key = key
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

    def read(self, coalitions: Collection[bytes]) -> dict[bytes, float]:
        """Return the values of those of the packed ``coalitions`` that are stored."""
        wanted = list(coalitions)
        found: dict[bytes, float] = {}
        with self._connection() as connection:
            for start in range(0, len(wanted), _CHUNK):
                chunk = wanted[start : start + _CHUNK]
                marks = ",".join("?" * len(chunk))
                query = f"SELECT coalition, value FROM evaluated WHERE coalition IN ({marks})"  # noqa: S608
                found.update(connection.execute(query, chunk))
        return found

    def write(self, values: Mapping[bytes, float]) -> None:
        """Commit values by packed coalition; a value that is already there stays."""
        with self._connection() as connection:
            connection.executemany("INSERT OR IGNORE INTO evaluated VALUES (?, ?)", values.items())

    @contextmanager
    def writer(self) -> Iterator[Callable[[Mapping[bytes, float]], None]]:
        """Provide a :meth:`write` that does not wait for the disk.

        A commit starts at once, or else as soon as the one under way is done, and then takes all
        that has gathered: hundreds of workers are not held up by one disk. On leaving, also by an
        exception, everything is committed. A commit that failed raises at the next call.
        """
        waiting: deque[Mapping[bytes, float]] = deque()
        commits: deque[Future[None]] = deque()

        def commit() -> None:
            values: dict[bytes, float] = {}
            while waiting:
                values.update(waiting.popleft())
            if values:
                self.write(values)

        def write(values: Mapping[bytes, float]) -> None:
            while commits and commits[0].done():
                commits.popleft().result()
            waiting.append(values)
            commits.append(thread.submit(commit))

        with ThreadPoolExecutor(max_workers=1) as thread:
            yield write
        for last in commits:
            last.result()

    def telling(self, always: bytes, count: int) -> tuple[dict[bytes, float], float]:
        """Return coalitions that tell this game from others, and the largest absolute value.

        Values that many coalitions share tell least: in data valuation all that is too little to
        train on is worth the same, whatever the model. So those come first that no other coalition
        has, the farthest from the mean before the others.

        Args:
            always: A packed coalition that is among them if it is stored.
            count: How many others at most.

        Returns:
            Their values by packed coalition, and the largest absolute value, 0 of an empty store.
        """
        query = """
            SELECT MIN(coalition), value FROM evaluated WHERE coalition != ?
            GROUP BY value
            ORDER BY COUNT(*), ABS(value - (SELECT AVG(value) FROM evaluated)) DESC LIMIT ?
        """
        found = self.read([always])
        with self._connection() as connection:
            found.update(connection.execute(query, (always, count)))
            (largest,) = connection.execute("SELECT MAX(ABS(value)) FROM evaluated").fetchone()
        return found, float(largest or 0.0)

    def sample(self) -> tuple[bytes, float, float] | None:
        """Return the most telling coalition but the grand one, its value, and the largest value.

        See :meth:`telling`; ``None`` if there is none.
        """
        found, largest = self.telling(b"", 1)
        return next(((key, value, largest) for key, value in found.items()), None)

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
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.executescript(_SCHEMA)
            with connection:
                identity = (self.n, _DTYPE, self.key)
                connection.execute("INSERT INTO identity VALUES (?, ?, ?)", identity)
            blank = connection.serialize()
        with NamedTemporaryFile(dir=self.path.parent, prefix=f".{self.path.name}.") as file:
            file.write(blank)
            file.flush()
            os.fsync(file.fileno())
            with suppress(FileExistsError):  # another process was first
                os.link(file.name, self.path)

    def _header_fault(self) -> str | None:
        """Judge the file by its first bytes, before SQLite may touch what is not ours."""
        with self.path.open("rb") as file:
            header = file.read(100)
        if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
            return "is not an SQLite file, or what is left of a truncated one"
        if int.from_bytes(header[68:72], "big") != _APPLICATION_ID:
            return "is an SQLite file of another program"
        found = int.from_bytes(header[60:64], "big")
        if found != _FORMAT:
            return f"has store format {found}, but this version reads and writes format {_FORMAT}"
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
