"""Tables: drawn in a terminal, plain in a pipe."""

from __future__ import annotations

import os
import pty
import sys

import pytest

from nonneg_client import tables
from nonneg_client.tables import drawable, fold, show, wide

ROWS = [["a[b]", 0.5, 3], ["long name", 0.25, None]]


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(tables, "drawable", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "20")


def test_a_pipe_gets_aligned_words(capsys):
    show(["name", "score", "count"], ROWS, title="not shown")
    assert capsys.readouterr().out.splitlines() == [
        "name       score  count",
        "a[b]       0.500      3",
        "long name  0.250      -",
    ]


def test_a_terminal_gets_a_drawn_table(capsys, terminal):
    show(["name", "score", "count"], ROWS, title="the [title]")
    assert capsys.readouterr().out.splitlines() == [
        "the [title]",
        "╭───────────┬───────┬───────╮",
        "│ name      │ score │ count │",
        "├───────────┼───────┼───────┤",
        "│ a[b]      │ 0.500 │     3 │",
        "│ long name │ 0.250 │     - │",
        "╰───────────┴───────┴───────╯",
    ]


def test_a_drawn_table_fits_the_terminal_and_loses_nothing(capsys, terminal):
    name = "photos/summer/" + "x" * 60 + ".jpg"
    show(["score", "image", "why"], [[0.5, name, "17: 0.123, 3: 0.100"], [0.25, "短い猫.jpg", ""]])
    lines = capsys.readouterr().out.splitlines()
    assert {wide(line) for line in lines} == {40}
    assert name in "".join(line.split("│")[2].strip() for line in lines if line.startswith("│"))


def test_where_lines_leave_too_little_room_they_are_left_out_and_long_heads_are_folded(capsys, terminal):
    names = ["length", "P@1", "R-precision", "recall@100", "nDCG@100", "bytes"]
    show(names, [["1280", 0.9, 0.25, 0.5, 1.0, 1388]])
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "length   P@1     R- recall   nDCG@ bytes",
        "             precis   @100     100",
        "                ion",
        "────── ───── ────── ────── ─────── ─────",
        "1280   0.900  0.250  0.500   1.000  1388",
    ]


def test_a_terminal_without_the_letters_to_draw_with_gets_words(monkeypatch):
    parent, child = pty.openpty()
    with os.fdopen(child, "w", encoding="latin-1") as old, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", old)
        assert old.isatty()
        assert not drawable()
    os.close(parent)


@pytest.mark.parametrize(
    ("text", "columns"), [("cat", 3), ("猫", 2), ("é", 1), ("e\u0301", 1), ("ネコ.jpg", 8), ("ﾈｺ", 2)]
)
def test_letters_take_the_columns_that_a_terminal_gives_them(text, columns):
    assert wide(text) == columns


def test_text_breaks_behind_spaces_and_slashes_else_anywhere():
    assert fold("one two three", 8) == ["one two", "three"]
    assert fold("photos/cats/1.jpg", 8) == ["photos/", "cats/", "1.jpg"]
    assert fold("abcdefgh", 3) == ["abc", "def", "gh"]
    assert fold("猫猫猫", 5) == ["猫猫", "猫"]


def test_letters_that_would_steer_the_terminal_are_not_printed(capsys):
    show(["name"], [["a\x1b[31mred\nline"]])
    assert capsys.readouterr().out == "name\na�[31mred�line\n"


def test_a_table_without_rows_is_its_head(capsys):
    show(["name"], [])
    assert capsys.readouterr().out == "name\n"
