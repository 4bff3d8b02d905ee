"""Vectors of images seen before, on disk: they outlive the process and are shared by all that use the folder.

One SQLite file in WAL mode: readers do not wait for the writer, several processes may use it, and a crash leaves it
whole. Reading and writing have a thread each, so that the event loop never waits for a disk; what is put while the
writer is busy goes into its next transaction. A disk that fails is a slower server, never a failing one: the log says
so once, and after a rest it is tried again.
"""

import asyncio
import logging
import sqlite3
import struct
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import numpy as np

from nonneg_core.arrays import Floats

logger = logging.getLogger("nonneg")
T = TypeVar("T")

FILE = "vectors-1.sqlite"  # the number is that of the layout: another layout is another file
REST = 60.0  # seconds after a failure in which the disk is left alone
STALE = 3600  # seconds after which a use is written down again
WAITING = 4096  # vectors that may wait for the writer; more are not kept
PATIENCE = 2.0  # seconds to wait for another process's transaction
_MOST_DIMENSIONS = 2**20
_HEAD = struct.Struct("<III")  # crc32 of the rest, dimensions, active ones
_LAYOUT = """
PRAGMA journal_mode=WAL;
PRAGMA synchronous=NORMAL;
PRAGMA journal_size_limit=4194304;
CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, used INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS by_use ON vectors (used);
"""


class DiskCache:
    """Raw vectors under their images' keys, of at most so many bytes, the least recently used forgotten first."""

    def __init__(
        self,
        folder: Path,
        max_bytes: int,
        *,
        rest: float = REST,
        stale: float = STALE,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.path = folder / FILE
        self.max_bytes = max_bytes
        self.bytes = 0
        self.hits = self.misses = self.failures = 0
        self._rest = rest
        self._stale = stale
        self._now = now
        self._resting_until = 0.0
        self._said = ""
        self._lock = threading.Lock()
        self._waiting: dict[bytes, bytes] = {}
        self._used: set[bytes] = set()
        self._local = threading.local()
        self._reader = ThreadPoolExecutor(1, "cache-reader")
        self._writer = ThreadPoolExecutor(1, "cache-writer")
        self._attempt(self._prepare)

    async def find(self, keys: Sequence[bytes]) -> dict[bytes, Floats]:
        """Return those of the vectors that are there."""
        if self._resting():
            self.misses += len(keys)
            return {}
        vectors = await asyncio.wrap_future(self._reader.submit(self._attempt, lambda: self._read(keys))) or {}
        self.hits += len(vectors)
        self.misses += len(set(keys)) - len(vectors)
        return vectors

    def put(self, key: bytes, vector: Floats) -> None:
        """Keep a vector, soon."""
        if self._resting():
            return
        with self._lock:
            idle = not self._waiting
            if len(self._waiting) < WAITING:
                self._waiting[key] = _packed(vector)
        if idle:
            self._writer.submit(self._attempt, self._write)

    def flush(self) -> None:
        """Wait until all that was put is written."""
        self._writer.submit(lambda: None).result()

    def close(self) -> None:
        """Write what waits, and let go of the file."""
        self._writer.submit(self._attempt, self._finish)
        self._reader.submit(self._let_go)
        self._writer.shutdown()
        self._reader.shutdown()

    def _resting(self) -> bool:
        return time.monotonic() < self._resting_until

    def _attempt(self, work: Callable[[], T]) -> T | None:
        """Do the work; if it fails, log why once and leave the cache alone for a while."""
        try:
            return work()
        except (sqlite3.Error, OSError) as error:
            self._let_go()
            with self._lock:
                self.failures += 1
                self._resting_until = time.monotonic() + self._rest
                self._waiting.clear()
                news, self._said = str(error) != self._said, str(error)
            if news:
                logger.warning(
                    "the cache in %s is left alone for now, and serving goes on: %s", self.path.parent, error
                )
            return None

    def _prepare(self) -> None:
        """Make the file, or put aside one that is none."""
        try:
            self._lay_out()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # busy, full, forbidden: the file may be good
                raise
            aside = self.path.with_suffix(".broken")
            self.path.replace(aside)
            for rest in ("-wal", "-shm"):
                self.path.with_name(self.path.name + rest).unlink(missing_ok=True)
            logger.warning(
                "%s is damaged (%s): it was renamed to %s, and a new one begun", self.path, error, aside.name
            )
            self._lay_out()

    def _lay_out(self) -> None:
        with closing(self._opened()) as connection:
            self.bytes = _size(connection)

    def _opened(self) -> sqlite3.Connection:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
        try:
            connection.executescript(_LAYOUT)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connection(self) -> sqlite3.Connection:
        """Return this thread's own."""
        if getattr(self._local, "connection", None) is None:
            self._local.connection = self._opened()
        database: sqlite3.Connection = self._local.connection
        return database

    def _let_go(self) -> None:
        connection = getattr(self._local, "connection", None)
        self._local.connection = None
        if connection is not None:
            connection.close()

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, Floats]:
        vectors: dict[bytes, Floats] = {}
        now = int(self._now())
        for key in keys:
            row = self._connection().execute("SELECT body, used FROM vectors WHERE key = ?", (key,)).fetchone()
            vector = None if row is None else _unpacked(row[0])
            if vector is not None:
                vectors[key] = vector
                if now - row[1] > self._stale:
                    with self._lock:
                        self._used.add(key)
        return vectors

    def _write(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            used, self._used = self._used, set()
        now = int(self._now())
        connection = self._connection()
        connection.execute("BEGIN IMMEDIATE")
        try:
            rows = ((key, now, body) for key, body in waiting.items())
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
            connection.executemany("UPDATE vectors SET used = ? WHERE key = ?", ((now, key) for key in used))
            self._forget(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _forget(self, connection: sqlite3.Connection) -> None:
        """Make room: freed pages are used again, so that the file grows no further."""
        self.bytes = _size(connection)
        while self.bytes > self.max_bytes:
            (count,) = connection.execute("SELECT count(*) FROM vectors").fetchone()
            if not count:
                return
            connection.execute(
                "DELETE FROM vectors WHERE rowid IN (SELECT rowid FROM vectors ORDER BY used, rowid LIMIT ?)",
                (max(1, count // 20),),
            )
            self.bytes = _size(connection)

    def _finish(self) -> None:
        self._write()
        self._let_go()


def _size(connection: sqlite3.Connection) -> int:
    """Return bytes in use, by every process that shares the file."""
    pages, free, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in _SIZES)
    return int((pages - free) * size)


_SIZES = ("page_count", "freelist_count", "page_size")


def _packed(vector: Floats) -> bytes:
    active = np.flatnonzero(vector)
    numbers = active.astype("<u4").tobytes() + vector[active].astype("<f4").tobytes()
    rest = struct.pack("<II", len(vector), len(active)) + numbers
    return struct.pack("<I", zlib.crc32(rest)) + rest


def _unpacked(body: bytes) -> Floats | None:
    """Return the vector; None where its bytes are not those that were written."""
    if len(body) < _HEAD.size:
        return None
    check, dimensions, active = _HEAD.unpack_from(body)
    if zlib.crc32(body[4:]) != check or len(body) != _HEAD.size + 8 * active or dimensions > _MOST_DIMENSIONS:
        return None
    vector = np.zeros(dimensions, np.float32)
    indices = np.frombuffer(body, "<u4", active, _HEAD.size)
    if active and indices.max() >= dimensions:
        return None
    vector[indices] = np.frombuffer(body, "<f4", active, _HEAD.size + 4 * active)
    return vector
