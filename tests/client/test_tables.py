"""Tables: drawn in a terminal, plain in a pipe."""

from __future__ import annotations

import sys

from nonneg_client.tables import show

ROWS = [["a[b]", 0.5, 3], ["long name", 0.25, None]]


def test_a_pipe_gets_aligned_words(capsys):
    show(["name", "score", "count"], ROWS, title="not shown")
    assert capsys.readouterr().out.splitlines() == [
        "name       score  count",
        "a[b]       0.500      3",
        "long name  0.250      -",
    ]


def test_a_terminal_gets_a_drawn_table_and_brackets_stay(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    show(["name", "score", "count"], ROWS, title="the [title]")
    out = capsys.readouterr().out
    assert "the [title]" in out
    assert "a[b]" in out
    assert "┃" in out or "│" in out


def test_a_table_without_rows_is_its_head(capsys):
    show(["name"], [])
    assert capsys.readouterr().out == "name\n"
