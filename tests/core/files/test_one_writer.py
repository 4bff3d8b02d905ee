"""A second writer is refused in one sentence, whatever it calls the file, and one that ended holds nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nonneg_core.errors import StorageFailed
from nonneg_core.files.one_writer import one_writer

DIES = """
import os, sys
from pathlib import Path
from nonneg_core.files.one_writer import one_writer
with one_writer(Path(sys.argv[1])):
    os._exit(9)
"""
TRIES = """
import sys
from pathlib import Path
from nonneg_core.files.one_writer import one_writer
for _ in range(200):
    try:
        with one_writer(Path(sys.argv[1])):
            Path(sys.argv[1]).mkdir()  # fails where another is here
            Path(sys.argv[1]).rmdir()
    except Exception as error:
        if "another nonneg is writing" not in str(error):
            raise
"""


def test_the_second_is_refused_by_any_name_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "x")
    with one_writer(tmp_path / "x"), one_writer(tmp_path / "y"):
        for name in ("x", "link", "y/../x"):
            with pytest.raises(StorageFailed, match="another nonneg is writing"), one_writer(tmp_path / name):
                pass
    with one_writer(tmp_path / "x"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_a_writer_that_died_refuses_no_other(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", DIES, str(tmp_path / "x")], timeout=60, check=False)
    assert [path.name for path in tmp_path.iterdir()] == [".x.lock"]
    with one_writer(tmp_path / "x"):
        pass
    assert not list(tmp_path.iterdir())


def test_two_are_never_in_it_while_locks_come_and_go(tmp_path: Path) -> None:
    line = [sys.executable, "-c", TRIES, str(tmp_path / "x")]
    running = [subprocess.Popen(line, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for process in running:
        assert process.communicate(timeout=60)[1] == ""
    assert not list(tmp_path.iterdir())
