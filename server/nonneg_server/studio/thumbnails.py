"""Thumbnails and photos by id: from the indexed folder alone, upright, always written again as JPEG."""

from __future__ import annotations

import io
from collections import OrderedDict
from pathlib import Path
from threading import Lock

from PIL import Image

from nonneg_core.errors import NonnegError, NotFound
from nonneg_core.pixels.decode import decode
from nonneg_server.studio.collection import IndexedFolder

THUMBNAIL, LARGE = 320, 1280  # pixels of the longer side
KEPT = 64 * 2**20  # bytes of thumbnails


class Pictures:
    """The pictures of one folder; what was made small once is kept until newer ones take its place."""

    def __init__(self, collection: IndexedFolder, *, kept: int = KEPT) -> None:
        self._collection = collection
        self._root = collection.root.resolve()
        self._most = kept
        self._held = 0
        self._made: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()

    def thumbnail(self, photo: str) -> bytes:
        """Return a photo at most 320 pixels wide and high, as a JPEG."""
        with self._lock:
            if photo in self._made:
                self._made.move_to_end(photo)
                return self._made[photo]
        made = smaller(self.read(photo), THUMBNAIL)
        with self._lock:
            if photo not in self._made:
                self._made[photo] = made
                self._held += len(made)
            while self._held > self._most and len(self._made) > 1:
                self._held -= len(self._made.popitem(last=False)[1])
        return made

    def large(self, photo: str) -> bytes:
        """Return a photo as large as a screen shows it."""
        return smaller(self.read(photo), LARGE)

    def read(self, photo: str) -> bytes:
        """Return a photo's file; NotFound where it is gone, or a link leads out of the folder."""
        name = self._collection.names[self._collection.row(photo)]
        path = _resolved(self._root / name)
        if path is None or not path.is_relative_to(self._root):
            raise _gone(photo)
        try:
            return path.read_bytes()
        except OSError:
            raise _gone(photo) from None


def smaller(data: bytes, side: int) -> bytes:
    """Return an image within so many pixels a side, as a JPEG without anything beside its pixels."""
    image = decode(data, at_least=side)
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=82)
    return buffer.getvalue()


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
