"""A table for people in a terminal, the same columns in plain text for a pipe.

Written by hand: the libraries that know that 猫 is two columns wide weigh 6 to 14 MB, which is a tenth of the install.
"""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Iterator, Sequence

import click

Cell = str | int | float | None

NARROWEST = 6  # columns of the terminal that words keep; numbers keep theirs

BREAKS = " /-@"


def show(columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, title: str = "") -> None:
    """Print a table; numbers stand right, words left."""
    texts = [[_text(cell) for cell in row] for row in rows]
    right = [all(isinstance(row[i], (int, float, type(None))) for row in rows) for i in range(len(columns))]
    printed = _drawn(columns, texts, right, title) if drawable() else _plain([columns, *texts], right)
    for text in printed:
        click.echo(text)


def drawable() -> bool:
    """Whether standard output is a terminal that has the letters to draw with."""
    return sys.stdout.isatty() and "utf" in (sys.stdout.encoding or "").lower()


def wide(text: str) -> int:
    """How many columns of a terminal a text takes: wide letters two, marks upon letters none."""
    return sum(_WIDTHS.get(unicodedata.east_asian_width(c), 1) for c in text if not unicodedata.combining(c))


_WIDTHS = {"W": 2, "F": 2}


def fold(text: str, width: int) -> list[str]:
    """The text in lines of at most this width, broken behind a space, a slash, a - or an @ where there is one."""
    lines, line = [], ""
    for letter in text:
        if wide(line + letter) > width and line:
            end = max(map(line.rfind, BREAKS)) + 1 or len(line)
            lines.append(line[:end].rstrip())
            line = line[end:]
        line += letter
    return [*lines, line]


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    text = f"{cell:.3f}" if isinstance(cell, float) else str(cell)
    return "".join(c if c.isprintable() else "�" for c in text)  # a file's name may hold a line's end, or an escape


def _cells(line: Sequence[str], right: Sequence[bool], widths: Sequence[int]) -> Iterator[str]:
    for text, to_the_right, width in zip(line, right, widths, strict=True):
        space = " " * (width - wide(text))
        yield space + text if to_the_right else text + space


def _plain(lines: Sequence[Sequence[str]], right: Sequence[bool]) -> Iterator[str]:
    widths = _widest(lines)
    return ("  ".join(_cells(line, right, widths)).rstrip() for line in lines)


def _drawn(columns: Sequence[str], texts: Sequence[Sequence[str]], right: Sequence[bool], title: str) -> Iterator[str]:
    """With lines, or where these leave too little room without; what is too long is folded, numbers never are."""
    terminal = shutil.get_terminal_size().columns
    lines = [columns, *texts]
    numbers = _widest(texts) if texts else [0] * len(columns)
    widths = _widest(lines)
    least = [
        max(number, min(width, NARROWEST)) if to_the_right else min(width, NARROWEST)
        for number, width, to_the_right in zip(numbers, widths, right, strict=True)
    ]
    framed = sum(least) + 3 * len(widths) + 1 <= terminal
    widths = _fitting(widths, least, terminal - (3 * len(widths) + 1 if framed else len(widths) - 1))
    if title:
        yield title
    if framed:
        yield _rule("╭┬╮", widths)
    for number, line in enumerate(lines):
        for cells in _folded(line, right, widths):
            yield f"│ {' │ '.join(cells)} │" if framed else " ".join(cells).rstrip()
        if number == 0:
            yield _rule("├┼┤", widths) if framed else " ".join("─" * width for width in widths)
    if framed:
        yield _rule("╰┴╯", widths)


def _widest(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(wide, column)) for column in zip(*lines, strict=True)]


def _fitting(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths that fit into the room: of those that may give way the widest does, a column at a time."""
    fitting = list(widths)
    while sum(fitting) > room and fitting != list(least):
        widest = max((i for i in range(len(fitting)) if fitting[i] > least[i]), key=lambda i: fitting[i])
        fitting[widest] -= 1
    return fitting


def _folded(line: Sequence[str], right: Sequence[bool], widths: Sequence[int]) -> Iterator[list[str]]:
    """The cells of a line in as many lines of the terminal as the longest takes."""
    folded = [fold(text, width) for text, width in zip(line, widths, strict=True)]
    for row in range(max(map(len, folded))):
        yield list(_cells([cell[row] if row < len(cell) else "" for cell in folded], right, widths))


def _rule(corners: str, widths: Sequence[int]) -> str:
    return corners[0] + corners[1].join("─" * (width + 2) for width in widths) + corners[2]
