"""Rows of activations in a file that grows: what an interrupted run left is there for the next one.

key           names what the rows depend on (encoder, photos, view) and how wide they are
rows.f32      float32 rows, one after the other
journal.tsv   one line a photo: its sha256, or nothing and the reason why it could not be read
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

Activation = NDArray[np.float32]


@dataclass(frozen=True)
class PhotoRecord:
    """One photo in the journal."""

    digest: str = ""
    broken: str = ""

    def __str__(self) -> str:
        return f"{self.digest}\t{' '.join(self.broken.split())}\n"


class ActivationStore:
    """The files in one folder, open for appending; `lines` says what they hold."""

    def __init__(self, folder: Path, key: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._key = key
        self._owner, self._rows, self._journal = (folder / name for name in ("key", "rows.f32", "journal.tsv"))
        self.columns, self.lines = self._resume()
        self._row_file = self._rows.open("ab")
        self._journal_file = self._journal.open("a", encoding="utf-8")

    def __enter__(self) -> ActivationStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._row_file.close()
        self._journal_file.close()

    def append(self, line: PhotoRecord, row: Activation | None = None) -> None:
        """Add one more photo: with its row, or broken."""
        if row is not None:
            if not self.columns:
                self.columns = len(row)
                self._owner.write_text(f"{self._key} {self.columns}")
            self._row_file.write(row.tobytes())
        self._journal_file.write(str(line))
        self.lines.append(line)
        if len(self.lines) % 256 == 0:
            self.flush()

    def flush(self) -> None:
        """Write rows first, so that the journal never promises more than there is."""
        self._row_file.flush()
        self._journal_file.flush()

    def values(self) -> NDArray[np.float32]:
        """Return all rows, read from the file as they are used."""
        self.flush()
        held = sum(not line.broken for line in self.lines)
        if not held:
            return np.zeros((0, self.columns), dtype=np.float32)
        return np.memmap(self._rows, dtype=np.float32, mode="r", shape=(held, self.columns))

    def _resume(self) -> tuple[int, list[PhotoRecord]]:
        key, _, columns = self._owner.read_text().partition(" ") if self._owner.is_file() else ("", "", "")
        if key != self._key or not columns:
            self._owner.write_text(self._key)
            self._rows.write_bytes(b"")
            self._journal.write_text("")
            return 0, []
        width = 4 * int(columns)
        lines = self._whole_lines(self._rows.stat().st_size // width)
        with self._rows.open("r+b") as file:
            file.truncate(width * sum(not line.broken for line in lines))
        self._journal.write_text("".join(map(str, lines)))
        return int(columns), lines

    def _whole_lines(self, rows: int) -> list[PhotoRecord]:
        """Return the journal as far as its lines are whole and their rows are there."""
        *whole, _ = self._journal.read_text().split("\n")
        lines: list[PhotoRecord] = []
        for text in whole:
            line = PhotoRecord(*text.split("\t", 1))
            rows -= not line.broken
            if rows < 0:
                break
            lines.append(line)
        return lines
