"""Pictures of the studio: photos of the folder by id, their smaller copies, and photos dropped on the page."""

import io
import re
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from PIL import Image

from nonneg_core.errors import NonnegError, NotFound
from nonneg_core.files.image_files import regular_file, resolved
from nonneg_core.pixels.pricing.price import Price
from nonneg_core.pixels.view import View
from nonneg_core.shortening import Vectors
from nonneg_runtime.seeing.preprocess import Preprocessor, Seen
from nonneg_server.engine.jobs import done_by_worker
from nonneg_server.engine.workers import Workers
from nonneg_server.studio.folder import IndexedFolder

THUMBNAIL, LARGE, WHOLE = 320, 1280, 2**16  # pixels of the longer side


class SmallerCopies:
    """What makes them within the limits of one server."""

    def __init__(self, workers: Workers, *, max_pixels: int) -> None:
        self._workers = workers
        self._max_pixels = max_pixels

    async def make(self, photo: bytes, side: int, *, deadline: float | None = None) -> bytes:
        """Return a photo within so many pixels a side, as a JPEG; it waits in the queue for its turn."""

        def made(price: Price) -> bytes:
            view = _view(min(side, max(price.width, price.height)))  # never enlarged
            return _jpeg(view, self._preprocessor(view).view_with_size(photo, price))

        return await done_by_worker(self._workers, self._preprocessor(_view(side)), photo, made, deadline=deadline)

    def _preprocessor(self, view: View) -> Preprocessor:
        return Preprocessor(view, max_pixels=self._max_pixels)


def _view(side: int) -> View:
    return View(size=side, fit="contain", interpolation="lanczos")


def _jpeg(view: View, picture: Seen) -> bytes:
    left, top, width, height = view.place_of(picture.size)
    buffer = io.BytesIO()
    Image.fromarray(picture.pixels[top : top + height, left : left + width]).save(buffer, "JPEG", quality=82)
    return buffer.getvalue()


# Photos of the indexed folder by id, and the small copies that were made of them last.

KEPT = 64 * 2**20  # bytes of thumbnails


class Pictures:
    """The files of one folder's photos: none outside of it is read, whatever a link leads to."""

    def __init__(self, folder: IndexedFolder) -> None:
        self._folder = folder
        self._root = folder.root.resolve()

    def read(self, photo: str) -> bytes:
        """Return a photo's file; NotFound where it is gone, or a link leads out of the folder."""
        try:
            data = regular_file(self._path(photo))
        except OSError:
            raise _gone(photo) from None
        if data is None:
            raise _gone(photo)
        return data

    def stamp(self, photo: str) -> str:
        """Return what changes when the file does: when it was written last, and its size."""
        try:
            status = self._path(photo).stat()
        except OSError:
            raise _gone(photo) from None
        return f"{status.st_mtime_ns:x}-{status.st_size:x}"

    def _path(self, photo: str) -> Path:
        name = self._folder.names[self._folder.row(photo)]
        path = resolved(self._root / name, self._root)
        if path is None:
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
            jpeg = self._made.get((photo, stamp))
            if jpeg is not None:
                self._made.move_to_end((photo, stamp))
            return jpeg

    def put(self, photo: str, stamp: str, made: bytes) -> None:
        """Keep one in the place of those that were asked for longest ago."""
        with self._lock:
            self.bytes += len(made) - len(self._made.pop((photo, stamp), b""))
            self._made[photo, stamp] = made
            while self.bytes > self._most:
                self.bytes -= len(self._made.popitem(last=False)[1])


def _gone(photo: str) -> NonnegError:
    return NotFound(
        "this photo was indexed and is not there any more",
        fix="index the folder again: stop `nonneg studio` and start it once more",
        field="photo",
        value=photo[:40],
    )


# Photos that were dropped on the page: their vectors and a small picture, in memory alone, the last few of them.

MOST = 64
PREFIX = "drop-"


@dataclass(frozen=True, eq=False)
class Upload:
    """A photo that is not indexed: the encoder's own vector, and its picture."""

    vector: Vectors  # (D,)
    fingerprint: str
    picture: bytes  # JPEG, as large as a screen shows it
    name: str = ""  # of its file


class Uploads:
    """The last few, by an id that cannot be guessed."""

    def __init__(self, most: int = MOST) -> None:
        self._held: OrderedDict[str, Upload] = OrderedDict()
        self._most = most

    def add(self, upload: Upload) -> str:
        """Keep it in the place of the oldest one."""
        readable = re.sub(r"[^\w.]+", "-", upload.name, flags=re.ASCII).strip("-")[-40:]
        name = f"{PREFIX}{readable}{'-' * bool(readable)}{secrets.token_hex(8)}"
        self._held[name] = upload
        while len(self._held) > self._most:
            self._held.popitem(last=False)
        return name

    def of_model(self, name: str, fingerprint: str) -> Upload:
        """Return the one with this id; NotFound also where another model has embedded it."""
        upload = self.get(name)
        if upload.fingerprint != fingerprint:
            raise NotFound(
                "this photo was dropped while another model was served",
                fix="drop it on the page again",
                field="photo",
                value=name[:40],
            )
        return upload

    def get(self, name: str) -> Upload:
        """Return the one with this id; NotFound where it is forgotten."""
        upload = self._held.get(name)
        if upload is None:
            raise NotFound(
                "the server no longer holds this photo",
                fix="drop it on the page again",
                field="photo",
                value=name[:40],
            )
        return upload
