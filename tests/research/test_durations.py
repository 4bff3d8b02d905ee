"""What the tests take: the page that is written from a run, and the one that is committed within the gate's budget."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from research.durations import page, read

ROOT = Path(__file__).parents[2]
BUDGET = 850  # seconds of a core, by day; as recorded, where other work made each of them a slow one


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "seconds.jsonl"
    tests = [("a.py::one", "", 1.0, 0.5), ("a.py::two", "slow", 9.0, 8.0), ("b.py::three", "nightly", 90.0, 80.0)]
    again = ("a.py::one", "", 3.0, 2.0)
    file.write_text("".join(json.dumps(test) + "\n" for test in (*tests, again)))
    return file


def test_the_page_adds_up_the_day_and_the_night_apart_and_takes_the_last_run_of_a_test(lines: Path) -> None:
    text = page(read(lines))
    assert "| fast | 1 | 3 | 2 |\n| by day | 2 | 12 | 10 |\n| by night | 1 | 90 | 80 |" in text
    assert "| a.py | 2 | 12 | 10 |" in text
    assert "| b.py |" not in text
    assert text.index("`b.py::three`") < text.index("`a.py::two`") < text.index("`a.py::one`")


@pytest.mark.slow
def test_the_plugin_writes_a_line_for_each_test(tmp_path: Path) -> None:
    file = tmp_path / "seconds.jsonl"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "research.durations", "-q"]
    chosen = ["--seconds", str(file), "tests/core/files/test_csv_table.py"]
    subprocess.run([*command, *chosen], check=True, cwd=ROOT, capture_output=True, timeout=250)
    tests = read(file)
    assert tests
    assert all(test.name.startswith("tests/core/files/test_csv_table.py::") for test in tests)


def test_the_tests_by_day_as_they_were_recorded_fit_the_gate() -> None:
    recorded = (ROOT / "research" / "durations.md").read_text(encoding="utf-8")
    (core,) = re.findall(r"^\| by day \| \d+ \| \d+ \| (\d+) \|$", recorded, re.MULTILINE)
    assert int(core) <= BUDGET, "move the slowest of research/durations.md to the night, or make them faster"
