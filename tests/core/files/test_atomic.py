"""Files and folders that are written whole: what a killed process left goes with the next write, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nonneg_core.files.atomic import atomic_write, begun, exchange, remove_abandoned

DIES = """
import os, signal, sys
from pathlib import Path
from nonneg_core.files.atomic import begun
begun(Path(sys.argv[1]), folder=sys.argv[2] == "folder")
os.kill(os.getpid(), signal.SIGKILL)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_killed_process_left_is_removed_by_the_next_write(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a[1].npz"
    done = subprocess.run([sys.executable, "-c", DIES, str(path), kind], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(names(tmp_path)) == 1
    with atomic_write(path) as temporary:
        temporary.write_text("whole")
    assert names(tmp_path) == ["a[1].npz"]


@pytest.mark.parametrize("folder", [False, True])
def test_what_another_still_writes_is_left_alone_and_so_is_what_is_not_ours(tmp_path: Path, folder: bool) -> None:
    path = tmp_path / "a.npz"
    theirs, handle = begun(path, folder=folder)
    kept = [tmp_path / ".a.npz.settings", tmp_path / ".b.npz.12345678.unfinished"]
    for other in kept:
        other.touch()
    with atomic_write(path) as temporary:
        temporary.write_text("whole")
    assert theirs.exists()
    assert handle is not None
    os.close(handle)
    remove_abandoned(path)
    assert names(tmp_path) == sorted(["a.npz", *(other.name for other in kept)])


def test_a_temporary_name_that_was_taken_for_abandoned_is_chosen_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nonneg_core.files import atomic

    path, lock, swept = tmp_path / "a", atomic.take_lock, []

    def late(handle: int, *, wait: bool = False) -> bool:
        if wait and not swept:
            swept.append(True)
            remove_abandoned(path)  # by another process, before this one holds its lock
        return lock(handle, wait=wait)

    monkeypatch.setattr(atomic, "take_lock", late)
    place, handle = begun(path)
    assert place.exists()
    assert handle is not None
    os.close(handle)


def test_two_folders_exchange_their_names_or_stay_as_they_are(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / f"of {folder.name}").touch()
    swapped = exchange(one, other)
    assert (names(one), names(other)) == ((["of other"], ["of one"]) if swapped else (["of one"], ["of other"]))
    assert not exchange(one, tmp_path / "none")
    assert names(tmp_path) == ["one", "other"]
