"""A file of records, one of a fixed size a photo, in the photos' order: it grows, and goes on where it was cut off.

Beside it lies why some photos cannot be read. Each record begins with a checksum: a power cut may leave a file that is
longer than what was written to it, and what is not whole is made again.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.curation.pixel_checks import GRID

FORMAT = 2  # one more when what is in a record changes
CHUNK = 4096
Numbers = NDArray[np.int64]


def record_form(features: int) -> np.dtype[Any]:
    """One photo in the file."""
    return np.dtype(
        [
            ("checksum", "<u4"),
            ("read", "u1"),  # 0: the photo is broken
            ("digest", "V32"),
            ("thumbnail", "u1", (GRID * GRID,)),
            ("roots", "<f2", (features,)),
        ]
    )


def sealed(record: NDArray[Any]) -> NDArray[Any]:
    """The record with its checksum."""
    record["checksum"] = _checksum(record.tobytes())
    return record


def _checksum(record: bytes) -> int:
    return zlib.crc32(record[4:])


@dataclass(frozen=True, eq=False)
class Records:
    """The file of records in a folder, and the file of reasons."""

    folder: Path
    form: np.dtype[Any]

    @property
    def file(self) -> Path:
        """Where the records are."""
        return self.folder / "records"

    @property
    def broken(self) -> Path:
        """Where the reasons are: a photo's number and why it cannot be read, a line each."""
        return self.folder / "broken.tsv"

    def whole(self) -> int:
        """How many records there are before the first that is not as it was written."""
        if not self.file.exists():
            return 0
        size, done = self.form.itemsize, 0
        with self.file.open("rb") as file:
            while len(record := file.read(size)) == size:
                if int.from_bytes(record[:4], "little") != _checksum(record):
                    break
                done += 1
        return done

    def __len__(self) -> int:
        return self.file.stat().st_size // self.form.itemsize if self.file.exists() else 0

    def read(self, field: str, rows: Numbers) -> NDArray[Any]:
        """One field of some records; the file is mapped for a moment only, so that its pages do not stay in memory."""
        found = np.empty((len(rows), *self.form[field].shape), dtype=self.form[field].base)
        for start in range(0, len(rows), CHUNK):
            mapped = np.memmap(self.file, dtype=self.form, mode="r", shape=(len(self),))
            found[start : start + CHUNK] = mapped[field][rows[start : start + CHUNK]]
        return found

    def resume(self) -> int:
        """Cut off what is not whole; how many records are left."""
        self.file.touch()
        self.broken.touch()
        done = self.whole()
        os.truncate(self.file, done * self.form.itemsize)
        kept = {number: reason for number, reason in self.reasons().items() if number < done}
        self.broken.write_text("".join(map(_line, kept, kept.values())), encoding="utf-8")
        return done

    def append(self, held: Sequence[NDArray[Any]], reasons: dict[int, str]) -> None:
        """Add records; the reasons first, so that no record lacks the one it has."""
        with self.broken.open("a", encoding="utf-8") as text:
            text.writelines(map(_line, reasons, reasons.values()))
        with self.file.open("ab") as target:
            target.write(b"".join(record.tobytes() for record in held))

    def reasons(self) -> dict[int, str]:
        """Why photos cannot be read, by their number; the last line may have been cut off."""
        lines = self.broken.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
        pairs = [line.partition("\t") for line in lines]
        return {int(number): reason for number, tab, reason in pairs if tab and number.isdigit()}


def _line(number: int, reason: str) -> str:
    return f"{number}\t{reason}\n"
