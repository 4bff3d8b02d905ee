"""The user's cache: where work is kept that can be done again, which of it goes first, and a lock for one process."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

KEPT = 5  # entries of a kind of which a new run leaves the newest
LOCK = "lock"  # in an entry that a process works on
OF_TRAINING = ("features", "studies")  # kinds that lie in $NONNEG_FEATURE_CACHE where that is set


def cache_root() -> Path:
    """Return nonneg's folder below $XDG_CACHE_HOME or ~/.cache; it is not created here."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "nonneg"


def data_root() -> Path:
    """Return the folder of what is not made again, below $XDG_DATA_HOME or ~/.local/share; it is not created here."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path("~/.local/share").expanduser()) / "nonneg"


def cache_folder(kind: str) -> Path:
    """Return the folder of one kind of work, which is not created here."""
    moved = os.environ.get("NONNEG_FEATURE_CACHE")
    return Path(moved) / kind if moved and kind in OF_TRAINING else cache_root() / kind


def cache_kinds() -> list[Path]:
    """Return the folders of all kinds of work that are there."""
    root = cache_root()
    there = {path for path in root.iterdir() if path.is_dir()} if root.is_dir() else set()
    return sorted(there | {path for path in map(cache_folder, OF_TRAINING) if path.is_dir()})


def evict(folder: Path, newest: int = KEPT) -> None:
    """Remove all but the newest entries of a folder; an entry whose lock a process holds stays."""
    with suppress(OSError):
        newest_first = sorted(folder.iterdir(), key=lambda entry: entry.stat().st_mtime, reverse=True)
        for entry in newest_first[newest:]:
            if entry.is_dir() and not in_use(entry):
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.is_file():
                entry.unlink(missing_ok=True)


def in_use(entry: Path) -> bool:
    """Return whether a process holds the lock of an entry."""
    if not (entry / LOCK).is_file():
        return False
    with locked(entry / LOCK, wait=False) as free:
        return not free


def bytes_below(folder: Path) -> int:
    """Return the bytes that the files below a folder take on the disk."""
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                total += Path(place, name).stat().st_blocks * 512
    return total


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold a lock on a file while the block runs; True if it is held.

    Without `wait`, False where another process holds it. The system releases the lock of a process that dies.
    """
    try:
        import fcntl
    except ModuleNotFoundError:  # no such locks on this system
        yield True
        return
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
