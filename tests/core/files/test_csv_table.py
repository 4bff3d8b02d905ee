"""A CSV file whose first line names its columns."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from nonneg_core.errors import DataInvalid
from nonneg_core.files.csv_table import read_table, stream_table, write_table


def test_a_byte_order_mark_and_spaces_around_cells_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfpath, label\r\na.jpg, cat \r\nb.jpg\r\n")
    columns, rows = read_table(tmp_path / "a.csv", ("path", "label"))
    assert columns == ["path", "label"]
    assert list(stream_table(tmp_path / "a.csv", ("path", "label"))) == rows
    assert rows == [{"path": "a.jpg", "label": "cat"}, {"path": "b.jpg", "label": ""}]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "has no column path"), (b"path\n", "has no column label"), (b"\xff\xfe", "cannot be read")],
)
def test_what_lacks_a_column_or_is_not_text_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(DataInvalid, match=message):
        read_table(tmp_path / "a.csv", ("path", "label"))
    with pytest.raises(DataInvalid, match=message):
        next(stream_table(tmp_path / "a.csv", ("path", "label")))


def test_what_a_spreadsheet_would_compute_is_written_as_text(tmp_path: Path) -> None:
    formulas = ["=1+1", "+1+1.jpg", "-2+3", "@SUM(1)", "\t=1", "  =1", "\uff1d1"]
    plain = ["a=b.jpg", "-0.5", "+3", "1e5", "a-b"]
    write_table(tmp_path / "a.csv", ["text", "figure"], [[text, -0.5] for text in formulas + plain])
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert head == ["text", "figure"]
    assert rows == [[f"'{text}", "-0.5"] for text in formulas] + [[text, "-0.5"] for text in plain]
