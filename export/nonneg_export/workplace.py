"""Where a long run keeps what it has measured so far, so that the next one goes on from there."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nonneg_core.errors import NonnegError, StorageFailed

KEPT_DAYS = 7
_LOCK = "in-use"


@contextmanager
def workplace(out: Path, folder: Path | None = None) -> Iterator[Path]:
    """A folder for the activations that lead to `out`; emptied when the job ends, kept when it is interrupted.

    It lies in the user's cache unless `folder` says otherwise, and is a fresh temporary folder where the cache cannot
    be written or another process does the same job right now.
    """
    job = hashlib.sha256(str(out.absolute()).encode()).hexdigest()[:12]
    place = (folder or _cache()) / f"{out.name}-{job}"
    if not _claim(place):
        with tempfile.TemporaryDirectory(prefix="nonneg-") as temporary:
            yield Path(temporary)
        return
    try:
        yield place
    except BaseException as error:
        if isinstance(error, NonnegError) and not isinstance(error, StorageFailed):
            shutil.rmtree(place, ignore_errors=True)  # it would fail again
        _release(place)
        raise
    shutil.rmtree(place, ignore_errors=True)


def _cache() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    _forget_old(base / "nonneg" / "export")
    return base / "nonneg" / "export"


def _claim(place: Path) -> bool:
    """Whether the folder is ours: it can be written, and no living process holds it."""
    lock = place / _LOCK
    try:
        place.mkdir(parents=True, exist_ok=True)
        with suppress(OSError, ValueError):
            if _alive(int(lock.read_text())):
                return False
        lock.write_text(str(os.getpid()))
    except OSError:
        return False
    return True


def _release(place: Path) -> None:
    (place / _LOCK).unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _forget_old(cache: Path) -> None:
    """Drop what interrupted runs left behind long ago."""
    if not cache.is_dir():
        return
    for place in cache.iterdir():
        with suppress(OSError):
            if time.time() - place.stat().st_mtime > KEPT_DAYS * 86400:
                shutil.rmtree(place, ignore_errors=True)
