"""Photos of the indexed folder by id, and the small copies that were made of them last."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from threading import Lock

from nonneg_core.errors import NonnegError, NotFound
from nonneg_server.studio.collection import IndexedFolder

KEPT = 64 * 2**20  # bytes of thumbnails


class Pictures:
    """The files of one folder's photos: none outside of it is read, whatever a link leads to."""

    def __init__(self, collection: IndexedFolder) -> None:
        self._collection = collection
        self._root = collection.root.resolve()

    def read(self, photo: str) -> bytes:
        """Return a photo's file; NotFound where it is gone, or a link leads out of the folder."""
        try:
            return self._path(photo).read_bytes()
        except OSError:
            raise _gone(photo) from None

    def stamp(self, photo: str) -> str:
        """Return what changes when the file does: when it was written last, and its size."""
        try:
            found = self._path(photo).stat()
        except OSError:
            raise _gone(photo) from None
        return f"{found.st_mtime_ns:x}-{found.st_size:x}"

    def _path(self, photo: str) -> Path:
        name = self._collection.names[self._collection.row(photo)]
        path = _resolved(self._root / name)
        if path is None or not path.is_relative_to(self._root):
            raise _gone(photo)
        return path


class Thumbnails:
    """What was made small once, by photo and stamp, kept until newer ones take its place."""

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self.bytes = 0
        self._made: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._lock = Lock()

    def get(self, photo: str, stamp: str) -> bytes | None:
        """Return what was made of the photo as it was at this stamp, if it is still here."""
        with self._lock:
            found = self._made.get((photo, stamp))
            if found is not None:
                self._made.move_to_end((photo, stamp))
            return found

    def put(self, photo: str, stamp: str, made: bytes) -> None:
        """Keep one in the place of those that were asked for longest ago."""
        with self._lock:
            self.bytes += len(made) - len(self._made.pop((photo, stamp), b""))
            self._made[photo, stamp] = made
            while self.bytes > self._most:
                self.bytes -= len(self._made.popitem(last=False)[1])


def _resolved(path: Path) -> Path | None:
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):  # a loop of links, a name no file can have
        return None


def _gone(photo: str) -> NonnegError:
    return NotFound(
        "this photo was indexed and is not there any more",
        fix="index the folder again: stop `nonneg studio` and start it once more",
        field="photo",
        value=photo[:40],
    )
