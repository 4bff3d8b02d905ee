"""A CSV file whose first line names its columns: read whole, in UTF-8, with or without a byte order mark."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from nonneg_core.errors import DataInvalid


def read_table(path: Path, needed: Sequence[str] = ()) -> tuple[list[str], list[dict[str, str]]]:
    """Read the names of the columns and the rows, without spaces around cells; a cell that is missing is empty."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restval="")
            rows = [{name.strip(): cell.strip() for name, cell in row.items() if name} for row in reader]
            columns = [name.strip() for name in reader.fieldnames or ()]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataInvalid(
            f"{path} cannot be read ({error})", fix="give a CSV file with a header, in UTF-8", value=str(path)
        ) from error
    for name in needed:
        if name not in columns:
            fix = f"begin it with a line that names its columns: {','.join(needed)}"
            raise DataInvalid(f"{path} has no column {name}", fix=fix, value=str(path))
    return columns, rows
