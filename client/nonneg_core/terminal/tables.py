"""A table as text, and pictures of numbers by matplotlib, which is imported when one is drawn."""

import json
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nonneg_core.terminal.installing import needing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = str | int | float | None
_WIDTHS = {"W": 2, "F": 2}  # letters that take two columns of a terminal


def table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, title: str = "") -> str:
    """Return the rows below the names of their columns; None is a dash, a float has three digits."""
    lines = [list(columns), *([_text(cell) for cell in row] for row in rows)]
    right = [all(isinstance(row[i], (int, float, type(None))) for row in rows) for i in range(len(columns))]
    widths = [max(map(width, column)) for column in zip(*lines, strict=True)]
    padded = [
        "  ".join(
            " " * (w - width(cell)) + cell if is_number else cell + " " * (w - width(cell))
            for cell, w, is_number in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    ]
    return "\n".join([title, *padded] if title else padded)


def width(text: str) -> int:
    """Return how many columns of a terminal a text takes: wide letters two, marks upon letters none."""
    return sum(_WIDTHS.get(unicodedata.east_asian_width(c), 1) for c in text if not unicodedata.combining(c))


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    return printable(f"{cell:.3f}" if isinstance(cell, float) else str(cell))


def printable(text: str) -> str:
    """Return a text without what a terminal would obey: a name or a server's message may hold an escape."""
    return "".join(c if c.isprintable() else "�" for c in text)


def json_line(record: Any) -> str:
    """Return a record as one line of JSON: letters as they are, what a terminal would obey as escapes."""
    text = json.dumps(record, ensure_ascii=False)
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


# Pictures of numbers by matplotlib, which is imported when one is drawn, and without a window system.


def figure(**options: Any) -> "Figure":
    """Return an empty figure; raises MissingExtra where matplotlib is not installed."""
    with needing("a plot", package="matplotlib"):
        from matplotlib.figure import Figure  # not pyplot: nothing is shown
    return Figure(layout="constrained", **options)
