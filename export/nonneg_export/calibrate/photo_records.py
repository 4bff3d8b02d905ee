"""A file of records, one of a fixed size a photo, in any order: it grows, and goes on where it was cut off.

Each record begins with a checksum: a power cut may leave a file that is longer than what was written to it, and what
is not whole is made again. A record is found by its key, the photo's name, size and date: another photo is another key.
"""

import hashlib
import os
import time
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Numbers
from nonneg_core.errors import DataInvalid
from nonneg_core.files.atomic import atomic_write
from nonneg_core.pixels.pixel_checks import GRID
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_core.process.long_runs import Interrupts, bounded_map
from nonneg_export.calibrate.photo_folder import Photos

FORMAT = 4  # one more when what is in a record changes
CHUNK = 4096
AT_ONCE = 64  # records that are written at a time
LONGEST_UNWRITTEN = 10.0  # seconds
RecordKeys = NDArray[np.uint64]
EVERY: list[Any] = [("checksum", "<u4"), ("key", "<u8"), ("digest", "V32")]
RecordMaker = Callable[[Path, int], NDArray[Any] | str]  # photo and its key -> its record, or why it has none
Tick = Callable[[int, int], None]  # done, of how many
Broken = tuple[tuple[Path, str], ...]


def record_form(features: int) -> np.dtype[Any]:
    """Return the data type of one photo's record with its thumbnail and the roots of its features."""
    return np.dtype([*EVERY, ("thumbnail", "u1", (GRID * GRID,)), ("roots", "<f2", (features,))])


def activation_form(columns: int) -> np.dtype[Any]:
    """Return the data type of one photo's record with what an encoder answers."""
    return np.dtype([*EVERY, ("row", "<f4", (columns,))])


def filled(form: np.dtype[Any], key: int, digest: bytes, **fields: Any) -> NDArray[Any]:
    """Return one record with its checksum; `digest`: the sha256 of the photo's file."""
    record = np.zeros(1, dtype=form)
    for name, value in {"key": key, "digest": np.void(digest), **fields}.items():
        record[name] = value
    return sealed(record)


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

    def only(self, rows: Numbers) -> "Records":
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


# From photos to records: every photo that has none yet is read once, on as many threads as there are cores.


@dataclass(frozen=True, eq=False)
class ReadablePhotos:
    """The photos that have a record, as indices into the paths, and those that could not be read."""

    places: Numbers
    rows: Numbers  # their records
    seals: NDArray[Any]  # the sha256 of their files, as 32 bytes
    broken: Broken


def photo_keys(photos: Photos) -> RecordKeys:
    """Name what each record depends on: the path within the folder, and the file's size and date."""
    return np.fromiter((_key(path, photos.folder) for path in photos.paths), dtype=np.uint64, count=len(photos))


def _key(path: Path, folder: Path) -> int:
    name = os.fsencode(path.relative_to(folder) if path.is_relative_to(folder) else path)
    try:
        status = path.stat()
        state = f"{status.st_size} {status.st_mtime_ns}"
    except OSError:  # it will be left out and named when its turn comes
        state = "unknown"
    digest = hashlib.blake2b(name + f"\0{state}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def complete(
    records: Records, photos: Photos, keys: RecordKeys, missing: Numbers, make: RecordMaker, tick: Tick | None
) -> dict[int, str]:
    """Put the records of the missing photos behind those that are there, in order; why some cannot be read."""
    lost: dict[int, str] = {}
    there = len(photos) - len(missing)
    with Interrupts() as interrupts, ThreadPoolExecutor(available_cores()) as pool, RecordBuffer(records) as buffer:
        jobs = bounded_map(
            lambda number: pool.submit(make, photos.paths[number], int(keys[number])),
            map(int, missing),
            ahead=8 * available_cores(),
        )
        for count, (number, answer) in enumerate(jobs, start=1):
            record = answer.result()
            with interrupts.deferred():
                if isinstance(record, str):
                    lost[number] = record
                else:
                    buffer.add(record)
            if tick:
                tick(there + count, len(photos))
        with interrupts.deferred():
            buffer.write()
    return lost


def readable(records: Records, photos: Photos, keys: RecordKeys, lost: dict[int, str]) -> ReadablePhotos:
    """Return the photos that could be read; `lost`: why others could not."""
    index = records.stored()
    rows = index.rows(keys)
    places = np.flatnonzero(rows >= 0)
    broken = tuple((photos.paths[number], reason) for number, reason in lost.items())
    if not len(places):
        raise DataInvalid(
            f"none of the {len(photos)} images in {photos.folder} can be read ({broken[0][0].name}: {broken[0][1]})",
            fix="point to a folder of intact images",
            value=str(photos.folder),
        )
    return ReadablePhotos(places, rows[places], index.digests[rows[places]], broken)


def reason_of(error: Exception) -> str:
    """Return why a photo cannot be read, in one line."""
    return " ".join(str(error).split()) or type(error).__name__
