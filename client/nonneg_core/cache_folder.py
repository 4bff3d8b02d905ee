"""The user's cache: where work is kept that can be done again, and a lock so that one process does it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder(name: str) -> Path:
    """Return a folder of nonneg's below $XDG_CACHE_HOME or ~/.cache; it is not created here."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "nonneg" / name


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
