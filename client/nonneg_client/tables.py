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

NARROWEST = 8  # columns of the terminal that a column of words keeps


def show(columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, title: str = "") -> None:
    """Print a table; numbers stand right, words left."""
    lines = [list(columns), *([_text(cell) for cell in row] for row in rows)]
    right = [all(isinstance(row[i], (int, float, type(None))) for row in rows) for i in range(len(columns))]
    widths = [max(wide(line[i]) for line in lines) for i in range(len(columns))]
    if drawable():
        printed = _drawn(lines, right, _fitting(widths, right), title)
    else:
        printed = ("  ".join(_cells(line, right, widths)).rstrip() for line in lines)
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
    """The text in lines of at most this width, broken behind a space or a slash where there is one."""
    lines, line = [], ""
    for letter in text:
        if wide(line + letter) > width and line:
            end = max(line.rfind(" "), line.rfind("/")) + 1 or len(line)
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


def _fitting(widths: Sequence[int], right: Sequence[bool]) -> list[int]:
    """Widths that fit the terminal: the widest column of words gives way first; numbers never do."""
    fitting = list(widths)
    excess = sum(widths) + 3 * len(widths) + 1 - shutil.get_terminal_size().columns
    words = [i for i, to_the_right in enumerate(right) if not to_the_right]
    while excess > 0 and words:
        widest = max(words, key=lambda i: fitting[i])
        if fitting[widest] <= NARROWEST:
            break
        fitting[widest] -= 1
        excess -= 1
    return fitting


def _drawn(lines: Sequence[Sequence[str]], right: Sequence[bool], widths: Sequence[int], title: str) -> Iterator[str]:
    if title:
        yield title
    yield _rule("╭┬╮", widths)
    for number, line in enumerate(lines):
        folded = [fold(text, width) for text, width in zip(line, widths, strict=True)]
        for row in range(max(map(len, folded))):
            texts = [cell[row] if row < len(cell) else "" for cell in folded]
            yield f"│ {' │ '.join(_cells(texts, right, widths))} │"
        if number == 0:
            yield _rule("├┼┤", widths)
    yield _rule("╰┴╯", widths)


def _rule(corners: str, widths: Sequence[int]) -> str:
    return corners[0] + corners[1].join("─" * (width + 2) for width in widths) + corners[2]
