"""What is known of images besides their pixels: a CSV file becomes payloads with numbers, dates, truth values and text.

The column `path` (within the root of the images, or absolute) or `id` says which image a line is about. Every other
column has one kind, that which all of its filled cells have; an empty cell is not there. A date like 2024-05-31 is kept
as seconds since 1970 (UTC), as `changed` is, so that ranges of them can be asked for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nonneg_client.sources.image_ids import identity
from nonneg_core.csv_table import read_table
from nonneg_core.errors import DataInvalid

OURS = ("id", "folder", "bytes", "changed")  # what every image has anyway
_NAME = re.compile(r"[^\W\d][\w-]*")


@dataclass(frozen=True)
class Attributes:
    """What is said about images: the kind of each field, and the fields of each id."""

    kinds: Mapping[str, str] = field(default_factory=dict)
    payloads: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    file: str = ""

    def unmatched(self, ids: Container[str]) -> str:
        """Return what to say where lines are about images that none of the ids names; nothing if all are named."""
        lost = [name for name in self.payloads if name not in ids]
        if not lost:
            return ""
        some = f"{len(lost)} of {len(self.payloads)} lines are" if len(self.payloads) > 1 else "its line is"
        return f"{self.file}: {some} about images that are not in the index (the first is {lost[0]})"


def read_attributes(path: Path, root: Path) -> Attributes:
    """Return what each line says, by the id of its image."""
    header, rows = read_table(path)
    key = next((name for name in ("path", "id") if name in header), None)
    if key is None:
        raise DataInvalid(f"{path} has no column path", fix="begin it with a line like path,price,brand")
    for name in header:
        if name != key and (name in OURS or not _NAME.fullmatch(name)):
            raise DataInvalid(
                f"{path}: a column cannot be called {name!r}", fix="use letters, digits, _ and -, and another name"
            )
    kinds = {name: _kind([row[name] for row in rows]) for name in header if name != key}
    found = {}
    for row in rows:
        name = _id(row[key], root) if key == "path" else row[key]
        found[name] = {column: KINDS[kind](row[column]) for column, kind in kinds.items() if row[column]}
    return Attributes(kinds, found, str(path))


def seconds_of(text: str) -> int | None:
    """Return a date, or a date and time, as seconds since 1970 (UTC where it does not say); None for other text."""
    if not re.match(r"\d{4}-\d\d-\d\d", text):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())


def _id(written: str, root: Path) -> str:
    return identity(Path(os.path.normpath(root / written)), root)


def _kind(cells: Sequence[str]) -> str:
    """Return the narrowest kind that fits every filled cell of a column."""
    filled = [cell for cell in cells if cell]
    fitting = (kind for kind, read in KINDS.items() if filled and all(read(cell) is not None for cell in filled))
    return next(fitting, "text")


def number_of(text: str) -> int | float | None:
    """Return a number, whole if it is written so; None for other text."""
    for kind in (int, float):
        try:
            found = kind(text)
        except ValueError:
            continue
        return found if abs(found) < 2**63 else None  # nor what is not a number
    return None


def truth_of(text: str) -> bool | None:
    """Return true or false; None for other text."""
    return {"true": True, "false": False}.get(text.lower())


KINDS: Mapping[str, Callable[[str], Any]] = {
    "truth": truth_of,
    "number": number_of,
    "date": seconds_of,
    "text": str,
}
