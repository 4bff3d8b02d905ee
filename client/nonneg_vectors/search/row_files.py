"""The stored vectors of a local index: for each row a bit a dimension, and twelve bits a value.

rows        records of one size: where the values begin, what a level of them is worth, which dimensions are active
values      the levels 1 to 4095 of each row's values, two in three bytes

Both are only appended to. A value is at most 1/8190 of its row's largest away from what it was, but for the smallest
ones, which stay above zero.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Doubles, Floats, Numbers
from nonneg_vectors.storage.csr import CsrRows
from nonneg_vectors.storage.embeddings import Embeddings

LEVELS = 4095
AT_ONCE = 4096  # rows packed or read at a time
Bytes = NDArray[np.uint8]


class Extent(NamedTuple):
    """How much of both files counts; what lies beyond it was left by a process that died."""

    rows: int = 0
    bytes: int = 0


class RowFiles:
    """Both files, mapped into memory up to an extent; `generation` counts how often they were written again."""

    def __init__(self, folder: Path, dimensions: int, generation: int = 0) -> None:
        self.generation = generation
        self._files = folder / f"rows.{generation}", folder / f"values.{generation}"
        self._dimensions = dimensions
        self._record = np.dtype([("at", "<u8"), ("worth", "<f4"), ("bits", "u1", (-(-dimensions // 8),))])
        self._rows = np.zeros(0, self._record)
        self._values: Bytes = np.zeros(0, np.uint8)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def bytes(self) -> int:
        """The size of the values."""
        return len(self._values)

    def append(self, embeddings: Embeddings, extent: Extent) -> Extent:
        """Write vectors behind an extent, and return the extent that holds them, too."""
        with self._files[0].open("ab") as rows, self._files[1].open("ab") as values:
            rows.truncate(extent.rows * self._record.itemsize)
            values.truncate(extent.bytes)
            for start in range(0, len(embeddings), AT_ONCE):
                records, levels = self._packed(embeddings[start : start + AT_ONCE], extent.bytes)
                rows.write(records.tobytes())
                values.write(levels.tobytes())
                extent = Extent(extent.rows + len(records), extent.bytes + levels.size)
            for file in (rows, values):
                file.flush()
                os.fsync(file.fileno())
        return extent

    def remove(self) -> None:
        """Delete both files."""
        for path in self._files:
            path.unlink(missing_ok=True)

    def map(self, extent: Extent) -> None:
        """Read the files up to here."""
        if extent.rows == len(self._rows):
            return
        self._rows = np.memmap(self._files[0], self._record, mode="r", shape=(extent.rows,))
        self._values = np.memmap(self._files[1], np.uint8, mode="r", shape=(extent.bytes,)) if extent.bytes else _NONE

    def _packed(self, embeddings: Embeddings, at: int) -> tuple[NDArray[np.void], Bytes]:
        """Return records and levels of vectors, the first of which begins at this byte."""
        there = np.zeros((len(embeddings), self._record["bits"].shape[0] * 8), dtype=bool)
        owners = np.repeat(np.arange(len(embeddings)), embeddings.nnz)
        there[owners, embeddings.indices] = True
        worth = np.zeros(len(embeddings), np.float32)
        np.maximum.at(worth, owners, embeddings.values)
        worth /= LEVELS
        padded = embeddings.nnz + embeddings.nnz % 2
        ends = np.cumsum(padded)
        levels = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint16)
        places = np.arange(len(owners)) + (ends - padded - embeddings.indptr[:-1])[owners]
        levels[places] = own = np.clip(np.rint(embeddings.values / worth[owners]), 1, LEVELS)
        worth = np.sqrt(_squares(embeddings.values, owners, len(worth)) / _squares(own, owners, len(worth)))
        records = np.zeros(len(embeddings), self._record)
        records["at"], records["worth"] = at + (ends - padded) // 2 * 3, worth
        records["bits"] = np.packbits(there, axis=1)
        first, second = levels[0::2], levels[1::2]
        triples = np.stack([first >> 4, (first & 15) << 4 | second >> 8, second & 255], axis=1)
        return records, triples.astype(np.uint8).ravel()

    def take(self, rows: Numbers) -> CsrRows:
        """Return the vectors of these rows."""
        records = np.asarray(self._rows).take(rows)
        flat = np.flatnonzero(np.unpackbits(records["bits"], axis=1).view(bool))  # of bytes it takes five times as long
        counts = np.bitwise_count(records["bits"]).sum(axis=1, dtype=np.int64)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        width = records["bits"].shape[1] * 8
        indices = flat - np.repeat(np.arange(len(rows)) * width, counts)
        sizes = (counts + 1) // 2 * 3
        starts = records["at"].astype(np.int64)
        spans = zip(starts.tolist(), (starts + sizes).tolist(), strict=True)
        content = self._values.data
        triples = np.frombuffer(b"".join([content[start:end] for start, end in spans]), np.uint8).reshape(-1, 3)
        levels = _levels(triples)
        if odd := np.flatnonzero(counts % 2).tolist():
            levels = np.delete(levels, np.cumsum(counts + counts % 2)[odd] - 1)
        values = levels * np.repeat(records["worth"], counts)
        return CsrRows(indptr, indices.astype(np.int32), values)

    def blocks(self) -> Iterator[tuple[Numbers, CsrRows]]:
        """Yield all rows with their numbers, some at a time."""
        for start in range(0, len(self), AT_ONCE):
            rows = np.arange(start, min(start + AT_ONCE, len(self)))
            yield rows, self.take(rows)

    def column(self, dimension: int) -> tuple[Numbers, Floats]:
        """Return the rows in which a dimension is active, and its values there."""
        byte, bit = divmod(dimension, 8)
        records = np.asarray(self._rows)
        rows = np.flatnonzero(records["bits"][:, byte] & (0x80 >> bit))
        before = records["bits"][rows, : byte + 1]
        before[:, byte] &= (0xFF00 >> bit) & 0xFF
        place = np.bitwise_count(before).sum(axis=1, dtype=np.int64)
        at = records["at"][rows].astype(np.int64) + place // 2 * 3
        triples = np.asarray(self._values)[at[:, None] + np.arange(3)]
        return rows, _levels(triples).reshape(-1, 2)[np.arange(len(rows)), place % 2] * records["worth"][rows]


def _squares(values: Floats, owners: Numbers, count: int) -> Doubles:
    """Return the squared length of every row, which a level's worth keeps."""
    return np.maximum(np.bincount(owners, values.astype(np.float64) ** 2, count), 1e-30)


_NONE: Bytes = np.zeros(0, np.uint8)


def _levels(triples: Bytes) -> Floats:
    """Return the two levels in each three bytes."""
    wide = triples.astype(np.uint16)
    levels = np.empty((len(triples), 2), np.uint16)
    levels[:, 0] = wide[:, 0] << 4 | wide[:, 1] >> 4
    levels[:, 1] = (wide[:, 1] & 15) << 8 | wide[:, 2]
    return levels.ravel().astype(np.float32)
