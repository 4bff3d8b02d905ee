"""One process at a time writes a file or a folder: a lock beside it, released by the system when a process dies."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nonneg_core.errors import StorageFailed
from nonneg_core.files.atomic import storage_error


@contextmanager
def one_writer(path: Path) -> Iterator[None]:
    """Keep other writers out of `path` while the block runs; StorageFailed where there is one already."""
    place = path.resolve()
    lock = place.parent / f".{place.name}.lock"
    if place.is_dir() and not os.access(place.parent, os.W_OK):
        lock = place  # a folder that is ours in one that is not
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle = _held(lock)
    except OSError as error:
        raise storage_error(path, error) from error
    if handle is None:
        raise StorageFailed(f"another nonneg is writing {path}", fix="wait for it, or stop it", value=str(path))
    try:
        yield
    finally:
        if lock != place:
            with suppress(OSError):
                lock.unlink()
        os.close(handle)


def _held(lock: Path) -> int | None:
    """Return what holds the lock until it is closed; None where another process does."""
    while True:
        handle = os.open(lock, os.O_RDONLY if lock.is_dir() else os.O_RDWR | os.O_CREAT, 0o666)
        if not _is_free(handle):
            os.close(handle)
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), lock.stat()):
                return handle
        os.close(handle)  # the one before has removed this file


def _is_free(handle: int) -> bool:
    try:
        import fcntl
    except ModuleNotFoundError:  # no such locks on this system
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # nor on this disk
        return True
    return True
