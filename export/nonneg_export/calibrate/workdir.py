"""Where a long run keeps what it has measured so far, so that the next one goes on from there."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from nonneg_core.errors import NonnegError, StorageFailed
from nonneg_core.files.user_cache import LOCK, cache_folder, evict, locked
from nonneg_runtime.bundle.bundle_folder import ENCODER, record_of

_SEALED = "sealed"
_WRITTEN = "written"


@contextmanager
def workdir(out: Path, folder: Path | None = None) -> Iterator[Path]:
    """Give a folder for the activations that lead to `out`; emptied when the job ends, kept when it is interrupted.

    It lies in the user's cache unless `folder` says otherwise. Where the cache cannot be written, or another process
    does the same job, it is a fresh temporary folder.
    """
    place = _place(out, folder)
    shutil.rmtree(_done(place), ignore_errors=True)
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
        with suppress(OSError):
            place = place.rename(_done(place))
        shutil.rmtree(place, ignore_errors=True)


def note_sealed(place: Path, encoder: Path) -> None:
    """Note which encoder the bundle has that is written next."""
    (place / _SEALED).write_text(record_of(encoder).sha256)


def sealed_before(out: Path, folder: Path | None = None) -> bool:
    """Return whether a run wrote the whole bundle and was killed before it had removed its folder; remove that."""
    place = _place(out, folder)
    try:
        sealed = _done(place).exists() or (place / _SEALED).read_text() == record_of(out / ENCODER).sha256
    except OSError:
        return False
    if sealed and out.exists():
        for rest in (place, _done(place)):
            shutil.rmtree(rest, ignore_errors=True)
    return sealed and out.exists()


def note_written(place: Path, files: Iterable[Path]) -> None:
    """Note what is written next, by its content: where the run is killed meanwhile, the next one writes it again."""
    (place / _WRITTEN).write_text(" ".join(record_of(path).sha256 for path in files))


def written_before(out: Path, targets: Iterable[Path], folder: Path | None = None) -> set[Path]:
    """Return the files that a run which leads to `out` had written when it was killed; the user's own are others."""
    place = _place(out, folder)
    noted: set[str] = set()
    for location in (place, _done(place)):
        with suppress(OSError):
            noted |= set((location / _WRITTEN).read_text().split())
    shutil.rmtree(_done(place), ignore_errors=True)
    return {path for path in targets if path.is_file() and record_of(path).sha256 in noted}


def _place(out: Path, folder: Path | None) -> Path:
    job = hashlib.sha256(str(out.absolute()).encode()).hexdigest()[:12]
    return (folder or cache_folder("export")) / f"{out.name}-{job}"


def _done(place: Path) -> Path:
    """Return what the folder is called once the bundle is whole."""
    return place.with_name(f"{place.name}.done")


def _claimed(place: Path, stack: ExitStack) -> bool:
    """Return whether the folder can be written and its lock is held from now on."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        return stack.enter_context(locked(place / LOCK, wait=False))
    except OSError:
        return False
