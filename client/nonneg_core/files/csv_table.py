"""A CSV file whose first line names its columns, in UTF-8: read whole or line by line, and written safe to open."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from nonneg_core.errors import DataInvalid
from nonneg_core.files.atomic import atomic_write

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # how a cell begins that is computed
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


def read_table(path: Path, needed: Sequence[str] = ()) -> tuple[list[str], list[dict[str, str]]]:
    """Read the names of the columns and the rows, without spaces around cells; a cell that is missing is empty."""
    with _opened(path) as reader:
        columns = _columns(path, reader, needed)
        return columns, list(_rows(reader))


def stream_table(path: Path, needed: Sequence[str] = ()) -> Iterator[dict[str, str]]:
    """Yield the same rows, one after the other: of files that are too long to be held."""
    with _opened(path) as reader:
        _columns(path, reader, needed)
        yield from _rows(reader)


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table that a spreadsheet shows as it is: a text that it would compute, as `=1+1`, gets a ' in front."""
    with atomic_write(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        _write(file, columns, rows)


def table_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return the same as text."""
    text = io.StringIO(newline="")
    _write(text, columns, rows)
    return text.getvalue()


def _write(file: TextIO, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_shown(cell) for cell in row] for row in rows)


def _shown(cell: object) -> object:
    """Return a cell as a spreadsheet shows it; a text that is a number stays one."""
    if not isinstance(cell, str) or not cell.lstrip(" ").startswith(FORMULA):
        return cell
    return cell if NUMBER.fullmatch(cell) else f"'{cell}"


@contextmanager
def _opened(path: Path) -> Iterator[csv.DictReader[str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            yield csv.DictReader(file, restval="")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataInvalid(
            f"{path} cannot be read ({error})", fix="give a CSV file with a header, in UTF-8", value=str(path)
        ) from error


def _rows(reader: csv.DictReader[str]) -> Iterator[dict[str, str]]:
    for row in reader:
        yield {name.strip(): cell.strip() for name, cell in row.items() if name}


def _columns(path: Path, reader: csv.DictReader[str], needed: Sequence[str]) -> list[str]:
    """Return the names of the columns, of which these must be there."""
    columns = [name.strip() for name in reader.fieldnames or ()]
    for name in needed:
        if name not in columns:
            fix = f"begin it with a line that names its columns: {','.join(needed)}"
            raise DataInvalid(f"{path} has no column {name}", fix=fix, value=str(path))
    return columns
