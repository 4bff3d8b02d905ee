"""A file of records, one of a fixed size a photo, in any order: it grows, and goes on where it was cut off.

Each record begins with a checksum: a power cut may leave a file that is longer than what was written to it, and what
is not whole is made again. A record is found by its key, the photo's name, size and date: another photo is another key.
"""

from __future__ import annotations

import os
import time
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Numbers
from nonneg_core.files.atomic import atomic_write
from nonneg_core.pixels.pixel_checks import GRID

FORMAT = 3  # one more when what is in a record changes
CHUNK = 4096
AT_ONCE = 64  # records that are written at a time
LONGEST_UNWRITTEN = 10.0  # seconds
RecordKeys = NDArray[np.uint64]


def record_form(features: int) -> np.dtype[Any]:
    """Return the data type of one photo's record in the file."""
    return np.dtype(
        [
            ("checksum", "<u4"),
            ("key", "<u8"),
            ("digest", "V32"),
            ("thumbnail", "u1", (GRID * GRID,)),
            ("roots", "<f2", (features,)),
        ]
    )


def sealed(record: NDArray[Any]) -> NDArray[Any]:
    """Return the record with its checksum."""
    record["checksum"] = _checksum(record.tobytes())
    return record


def _checksum(record: bytes) -> int:
    return zlib.crc32(record[4:])


@dataclass(frozen=True, eq=False)
class StoredRecords:
    """What the records before the first that is not as it was written say, but for thumbnails and features."""

    keys: RecordKeys
    digests: NDArray[Any]

    def __len__(self) -> int:
        return len(self.keys)

    def rows(self, queries: RecordKeys) -> Numbers:
        """Return the record of each key, -1 where there is none."""
        return last_of(self.keys, queries)


def last_of(keys: RecordKeys, queries: RecordKeys) -> Numbers:
    """Return where each wanted key occurs last among the keys, -1 where it does not."""
    if not len(keys):
        return np.full(len(queries), -1)
    order = np.argsort(keys, kind="stable")
    places = order[(np.searchsorted(keys, queries, side="right", sorter=order) - 1).clip(min=0)]
    return np.where(keys[places] == queries, places, -1)


class Records:
    """The file of records as it was when it was opened: that another takes its place later changes nothing here."""

    def __init__(self, path: Path, form: np.dtype[Any]) -> None:
        self.path, self.form = path, form
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        weakref.finalize(self, os.close, self._handle)

    def stored(self) -> StoredRecords:
        """Read the whole records; those behind the first that is not whole do not count."""
        pieces = [(piece["key"].copy(), piece["digest"].copy()) for piece in self._whole()]
        nothing = np.zeros(0, dtype=self.form)
        return StoredRecords(*map(np.concatenate, zip((nothing["key"], nothing["digest"]), *pieces, strict=True)))

    def _whole(self) -> Iterator[NDArray[Any]]:
        """Yield the records before the first that is not whole, piece by piece."""
        size, offset = self.form.itemsize, 0
        while data := os.pread(self._handle, size * CHUNK, offset):
            offset += size * CHUNK
            pieces = [data[start : start + size] for start in range(0, len(data), size)]
            whole = next((n for n, piece in enumerate(pieces) if not self._as_written(piece)), len(pieces))
            yield np.frombuffer(data, dtype=self.form, count=whole)
            if whole < CHUNK:
                return

    def _as_written(self, record: bytes) -> bool:
        return len(record) == self.form.itemsize and int.from_bytes(record[:4], "little") == _checksum(record)

    def read(self, field: str, rows: Numbers) -> NDArray[Any]:
        """Read one field of some records."""
        values = np.empty((len(rows), *self.form[field].shape), dtype=self.form[field].base)
        for start in range(0, len(rows), CHUNK):
            values[start : start + CHUNK] = np.frombuffer(self._bytes(rows[start : start + CHUNK]), self.form)[field]
        return values

    def _bytes(self, rows: Numbers) -> bytes:
        """Read whole records; were the file mapped, pages around each of them would count as memory, too."""
        size = self.form.itemsize
        return b"".join(os.pread(self._handle, size, row * size) for row in rows.tolist())

    def cut(self, whole: int) -> None:
        """Cut off what is behind so many records."""
        os.truncate(self._handle, whole * self.form.itemsize)

    def append(self, records: Sequence[NDArray[Any]]) -> None:
        """Put records behind the others."""
        with os.fdopen(os.dup(self._handle), "ab") as target:
            target.write(b"".join(record.tobytes() for record in records))

    def only(self, rows: Numbers) -> Records:
        """Put a file of these records alone in this one's place: whole or not at all."""
        with atomic_write(self.path) as place, place.open("wb") as target:
            for start in range(0, len(rows), CHUNK):
                target.write(self._bytes(rows[start : start + CHUNK]))
        return Records(self.path, self.form)


class RecordBuffer:
    """Records before they are written: many at a time, but no later than some seconds after the last time.

    A run that is interrupted writes what there is when the block ends; after a failed write nothing more is written.
    """

    def __init__(self, records: Records, clock: Callable[[], float] = time.monotonic) -> None:
        self._records, self._clock = records, clock
        self._waiting: list[NDArray[Any]] = []
        self._written = clock()

    def add(self, record: NDArray[Any]) -> None:
        """Take one record, and write all that wait if it is time."""
        self._waiting.append(record)
        if len(self._waiting) == AT_ONCE or self._clock() - self._written >= LONGEST_UNWRITTEN:
            self.write()

    def write(self) -> None:
        """Write all that wait."""
        waiting, self._waiting = self._waiting, []
        self._records.append(waiting)
        self._written = self._clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.write()
