"""Where a long run keeps what it has measured so far, so that the next one goes on from there."""

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nonneg_core.errors import NonnegError, StorageFailed
from nonneg_core.files.user_cache import LOCK, cache_folder, evict, locked


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
        if folder is None:
            evict(place.parent)
        try:
            yield place
        except BaseException as error:
            if isinstance(error, NonnegError) and not isinstance(error, StorageFailed):
                shutil.rmtree(place, ignore_errors=True)  # it would fail again
            raise
        shutil.rmtree(place, ignore_errors=True)


def _place(out: Path, folder: Path | None) -> Path:
    job = hashlib.sha256(str(out.absolute()).encode()).hexdigest()[:12]
    return (folder or cache_folder("export")) / f"{out.name}-{job}"


def _claimed(place: Path, stack: ExitStack) -> bool:
    """Return whether the folder can be written and its lock is held from now on."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        return stack.enter_context(locked(place / LOCK, wait=False))
    except OSError:
        return False
