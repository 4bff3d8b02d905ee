"""What each test takes, by the clock and in seconds of a core.

    scripts/test -p research.durations --seconds FILE        appends a line of JSON a test
    python -m research.durations FILE > research/durations.md

Of a core count those that the test's process used, and its children that have ended. `-m nightly` adds the tests of the
night to the file.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.config.argparsing import Parser

FILES, TESTS = 50, 100  # lines of the page
INTRODUCTION = (
    "# What the tests take",
    "",
    "Written by `python -m research.durations FILE`; its file by `scripts/test -p research.durations --seconds FILE`.",
    "Two cores, shared with much other work: seconds by the clock say how long a test waited for a core as well.",
    "",
)


def pytest_addoption(parser: Parser) -> None:
    """Add the option that names the file."""
    parser.addoption("--seconds", help="Append what each test took to this file.")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Measure a test with its fixtures."""
    began, used = time.monotonic(), core_seconds()
    try:
        return (yield)
    finally:
        marker = next((name for name in ("nightly", "slow") if item.get_closest_marker(name)), "")
        line = [item.nodeid, marker, round(time.monotonic() - began, 2), round(core_seconds() - used, 2)]
        with Path(item.config.getoption("--seconds")).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def core_seconds() -> float:
    """Return the seconds of a core that this process and its ended children used."""
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


@dataclass(frozen=True)
class Measured:
    """What a test took."""

    name: str
    marker: str
    seconds: float
    core: float


def read(path: Path) -> list[Measured]:
    """Return the last line of each test, the longest first."""
    lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return sorted({line[0]: Measured(*line) for line in lines}.values(), key=lambda test: -test.core)


def totals(title: str, tests: list[Measured]) -> str:
    """Return the row of some tests together."""
    return f"| {title} | {len(tests)} | {sum(t.seconds for t in tests):.0f} | {sum(t.core for t in tests):.0f} |"


def page(tests: list[Measured]) -> str:
    """Return the page: totals, then files and tests by the seconds of a core that they take."""
    by_day = [test for test in tests if test.marker != "nightly"]
    files: dict[str, list[Measured]] = {}
    for test in by_day:
        files.setdefault(test.name.partition("::")[0], []).append(test)
    largest = sorted(files.items(), key=lambda entry: -sum(test.core for test in entry[1]))[:FILES]
    lines = [*INTRODUCTION, "| tests | number | seconds | of a core |", "|---|---:|---:|---:|"]
    lines.append(totals("fast", [test for test in tests if not test.marker]))
    lines.append(totals("by day", by_day))
    lines.append(totals("by night", [test for test in tests if test.marker == "nightly"]))
    lines += ["", "| file, by day | tests | seconds | of a core |", "|---|---:|---:|---:|"]
    lines += [totals(file, some) for file, some in largest]
    lines += ["", "| test | marker | seconds | of a core |", "|---|---|---:|---:|"]
    lines += [f"| `{test.name}` | {test.marker} | {test.seconds:.1f} | {test.core:.1f} |" for test in tests[:TESTS]]
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(read(Path(sys.argv[1]))))
