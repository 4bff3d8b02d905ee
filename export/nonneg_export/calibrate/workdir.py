"""Where a long run keeps what it has measured so far, so that the next one goes on from there."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from nonneg_core.errors import NonnegError, StorageFailed
from nonneg_core.files.atomic import cache_folder, locked

KEPT_DAYS = 7
_LOCK = "in-use"


@contextmanager
def workdir(out: Path, folder: Path | None = None) -> Iterator[Path]:
    """Give a folder for the activations that lead to `out`; emptied when the job ends, kept when it is interrupted.

    It lies in the user's cache unless `folder` says otherwise. Where the cache cannot be written, or another process
    does the same job, it is a fresh temporary folder.
    """
    place = _place(out, folder)
    with ExitStack() as stack:
        if not _claimed(place, stack):
            yield Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nonneg-")))
            return
        try:
            yield place
        except BaseException as error:
            if isinstance(error, NonnegError) and not isinstance(error, StorageFailed):
                shutil.rmtree(place, ignore_errors=True)  # it would fail again
            raise
        shutil.rmtree(place, ignore_errors=True)


def _place(out: Path, folder: Path | None) -> Path:
    job = hashlib.sha256(str(out.absolute()).encode()).hexdigest()[:12]
    return (folder or _cache()) / f"{out.name}-{job}"


def _cache() -> Path:
    folder = cache_folder("export")
    _forget_old(folder)
    return folder


def _claimed(place: Path, stack: ExitStack) -> bool:
    """Return whether the folder can be written and its lock is held from now on."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        return stack.enter_context(locked(place / _LOCK, wait=False))
    except OSError:
        return False


def _forget_old(cache: Path) -> None:
    """Drop what interrupted runs left behind long ago."""
    if not cache.is_dir():
        return
    for place in cache.iterdir():
        with suppress(OSError):
            if time.time() - place.stat().st_mtime > KEPT_DAYS * 86400:
                shutil.rmtree(place, ignore_errors=True)
