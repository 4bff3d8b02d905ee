"""A table for people in a terminal, the same columns in plain text for a pipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence

Cell = str | int | float | None


def show(columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, title: str = "") -> None:
    """Print a table; numbers stand right, words left."""
    texts = [[_text(cell) for cell in row] for row in rows]
    right = [all(isinstance(row[i], (int, float, type(None))) for row in rows) for i in range(len(columns))]
    if sys.stdout.isatty():
        _rich(columns, texts, right, title)
    else:
        _plain(columns, texts, right)


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)


def _plain(columns: Sequence[str], texts: Sequence[Sequence[str]], right: Sequence[bool]) -> None:
    widths = [max(len(line[i]) for line in [columns, *texts]) for i in range(len(columns))]
    for line in [columns, *texts]:
        cells = (cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(line, widths, right, strict=True))
        print("  ".join(cells).rstrip())  # noqa: T201


def _rich(columns: Sequence[str], texts: Sequence[Sequence[str]], right: Sequence[bool], title: str) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title) or None, title_justify="left")
    for name, to_the_right in zip(columns, right, strict=True):
        table.add_column(escape(name), justify="right" if to_the_right else "left")
    for line in texts:
        table.add_row(*map(escape, line))
    Console().print(table)
