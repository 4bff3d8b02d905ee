"""Tables are aligned columns, in a terminal and in a pipe."""

from __future__ import annotations

import pytest

from nonneg_core.terminal.tables import table, width

ROWS = [["a[b]", 0.5, 3], ["long name", 0.25, None]]


def test_columns_are_aligned_numbers_right_and_words_left() -> None:
    assert table(["name", "score", "count"], ROWS).splitlines() == [
        "name       score  count",
        "a[b]       0.500      3",
        "long name  0.250      -",
    ]


def test_a_title_stands_above() -> None:
    assert table(["name"], [["x"]], title="the title").splitlines() == ["the title", "name", "x"]


@pytest.mark.parametrize(
    ("text", "columns"), [("cat", 3), ("猫", 2), ("é", 1), ("e\u0301", 1), ("ネコ.jpg", 8), ("ﾈｺ", 2)]
)
def test_letters_take_the_columns_that_a_terminal_gives_them(text: str, columns: int) -> None:
    assert width(text) == columns


def test_wide_letters_are_aligned_as_a_terminal_shows_them() -> None:
    assert table(["name", "n"], [["猫", 1], ["cats", 2]]).splitlines() == ["name  n", "猫    1", "cats  2"]


def test_letters_that_would_steer_the_terminal_are_not_printed() -> None:
    assert table(["name"], [["a\x1b[31mred\nline"]]) == "name\na�[31mred�line"


def test_a_table_without_rows_is_its_head() -> None:
    assert table(["name"], []) == "name"
