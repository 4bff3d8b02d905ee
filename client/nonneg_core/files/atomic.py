"""Files and folders that are written whole or not at all.

What is not whole yet has a name of its own beside the final one, and is locked as long as its process lives. What a
killed process left is removed by the next one that writes the same.
"""

import errno
import glob
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nonneg_core.errors import StorageFailed

UNFINISHED = "unfinished"  # how temporary names end


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Give a temporary file beside `path` that takes its name when all went well, and vanishes when not."""
    temporary, handle = None, None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary, handle = begun(path)
        yield temporary
        with temporary.open("rb+") as file:  # a name must not outlive a power cut that its content did not
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
        remove_abandoned(path)
    except OSError as error:
        raise storage_error(path, error) from error
    finally:
        if handle is not None:
            os.close(handle)
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def begun(path: Path, *, folder: bool = False) -> tuple[Path, int | None]:
    """Return a new temporary file or folder beside `path`, and what holds its lock until it is closed."""
    while True:
        if folder:
            place = Path(tempfile.mkdtemp(f".{UNFINISHED}", f".{path.name}.", path.parent))
            handle = os.open(place, os.O_RDONLY) if sys.platform != "win32" else None
        else:
            handle, name = tempfile.mkstemp(f".{UNFINISHED}", f".{path.name}.", path.parent)
            place = Path(name)
        if handle is not None:
            take_lock(handle, wait=True)
        if place.exists():  # else another process took it for abandoned before it was locked
            return place, handle
        if handle is not None:
            os.close(handle)


def remove_abandoned(path: Path) -> None:
    """Remove what processes left that were killed while they wrote `path`: nothing that is locked."""
    for place in path.parent.glob(f".{glob.escape(path.name)}.*.{UNFINISHED}"):
        with suppress(OSError):
            handle = os.open(place, os.O_RDONLY)
            try:
                if take_lock(handle):
                    shutil.rmtree(place) if place.is_dir() else place.unlink()
            finally:
                os.close(handle)


def exchange(one: Path, other: Path) -> bool:
    """Give each of two paths the other's name in one step; return False where the system or the disk cannot."""
    call, here, swap = {"linux": ("renameat2", [-100], 2), "darwin": ("renamex_np", [], 2)}.get(
        sys.platform, ("", [], 0)
    )
    if not call:
        return False
    import ctypes

    rename = getattr(ctypes.CDLL(None), call, None)
    if rename is None:
        return False
    sys.audit("os.rename", str(one), str(other), -1, -1)  # as the standard library's own renaming
    return int(rename(*here, os.fsencode(one), *here, os.fsencode(other), swap)) == 0


def take_lock(handle: int, *, wait: bool = False) -> bool:
    """Return whether the lock is held now; never where the system or the disk has none."""
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def storage_error(path: Path, error: OSError) -> StorageFailed:
    """Return what an operating system's error means for a file that should be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFailed(f"no space left for {path}", fix="free some space and run again", value=str(path))
    return StorageFailed(
        f"{path} cannot be written ({error.strerror or error})", fix="choose another place", value=str(path)
    )
