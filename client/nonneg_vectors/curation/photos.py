"""What is known of the photos themselves: from the index where it holds it, else read from the files."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nonneg_core.errors import NonnegError
from nonneg_core.pixels.decode import decode_then
from nonneg_core.pixels.exif import camera_facts
from nonneg_core.pixels.identify import identify
from nonneg_core.pixels.pixel_checks import AMPLE, CHECKS, GRID, PixelChecks, as_text, check_pixels, from_text
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_core.process.long_runs import bounded_map
from nonneg_core.terminal.progress import Progress, ProgressBar
from nonneg_vectors.curation.collection import Collection

SQUARE = 1.05  # the longer side in shorter ones
MEASURED = (
    "width",
    "height",
    "ratio",
    "sharpness",
    "brightness",
    "contrast",
    "orientation",
    "taken",
    "camera",
    *CHECKS,
    "_size",
    "_thumbnail",
    "_digest",
)


@dataclass(frozen=True)
class MeasuredPhoto:
    """One photo's bytes and pixels, as far as they could be seen."""

    bytes: int
    digest: str  # of the file's content
    checks: PixelChecks
    camera: Mapping[str, Any] = field(default_factory=dict)  # what it wrote into the file


@dataclass(frozen=True)
class MeasuredPhotos:
    """Those of a collection, in its order; None where a photo could not be read."""

    known: list[MeasuredPhoto | None]
    gone: list[str]  # ids of those that could not be read

    def thumbnails(self) -> NDArray[np.uint8]:
        """Return (n, GRID * GRID) grey values; one that is not known is black, and so like nothing."""
        black = bytes(GRID * GRID)
        return np.frombuffer(b"".join(p.checks.thumbnail if p else black for p in self.known), np.uint8).reshape(
            -1, GRID * GRID
        )


def measure(data: bytes) -> MeasuredPhoto:
    """Measure the photo in these bytes."""
    return decode_then(data, partial(measure_decoded, data), at_least=AMPLE)


def measure_decoded(data: bytes, image: Image.Image) -> MeasuredPhoto:
    """Measure a photo that is decoded, whole or smaller."""
    price = identify(data)
    checks = check_pixels(image, upright((price.width, price.height), image))
    return MeasuredPhoto(len(data), hashlib.sha256(data).hexdigest()[:32], checks, camera_facts(data))


def upright(size: tuple[int, int], image: Image.Image) -> tuple[int, int]:
    """Return a file's width and height as its decoded image, perhaps smaller and turned, lies."""
    width, height = size
    return (height, width) if (width > height) != (image.width > image.height) and width != height else size


def attributes(photo: MeasuredPhoto) -> dict[str, Any]:
    """Return what an index keeps of a photo beside its vector."""
    checks = photo.checks
    failed = checks.failed()
    return {
        "width": checks.width,
        "height": checks.height,
        "ratio": round(checks.ratio, 3),
        "sharpness": round(checks.sharpness, 4),
        "brightness": round(checks.brightness, 4),
        "contrast": round(checks.contrast, 4),
        "orientation": "square" if checks.ratio < SQUARE else "wide" if checks.width > checks.height else "tall",
        **photo.camera,
        **{name: name in failed for name in CHECKS},
        "_size": photo.bytes,
        "_thumbnail": as_text(checks.thumbnail),
        "_digest": photo.digest,
    }


def from_attributes(payload: Mapping[str, Any]) -> MeasuredPhoto | None:
    """Return the photo as an index keeps it; None if it does not, or not in this form."""
    try:
        thumbnail = from_text(payload["_thumbnail"])
        if thumbnail is None:
            return None
        width, height = int(payload["width"]), int(payload["height"])
        sharpness, brightness, contrast = (float(payload[name]) for name in ("sharpness", "brightness", "contrast"))
        checks = PixelChecks(width, height, sharpness, brightness, contrast, thumbnail.tobytes())
        return MeasuredPhoto(int(payload["_size"]), str(payload["_digest"]), checks)
    except (KeyError, TypeError, ValueError):
        return None


def is_measured(payload: Mapping[str, Any]) -> bool:
    """Return whether an index holds what the pixels of a photo say."""
    return from_attributes(payload) is not None


def measures(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a payload that was measured on the pixels."""
    return {name: payload[name] for name in MEASURED if name in payload}


def photos_of(collection: Collection, *, shown: Progress = None) -> MeasuredPhotos:
    """Return every photo of a collection; those that its index does not describe are read, with a bar."""
    known = [from_attributes(payload) for payload in collection.payloads]
    unknown = [i for i, photo in enumerate(known) if photo is None]
    loads = [partial(collection.read, collection.ids[i]) for i in unknown]
    for i, photo in zip(unknown, measure_all(loads, shown=shown), strict=True):
        known[i] = photo
    return MeasuredPhotos(known, [collection.ids[i] for i in unknown if known[i] is None])


def measure_all(loads: Sequence[Callable[[], bytes]], *, shown: Progress = None) -> list[MeasuredPhoto | None]:
    """Return the photos whose bytes these give, with a bar; None for those that cannot be read."""
    photos: list[MeasuredPhoto | None] = []
    with ThreadPoolExecutor(available_cores()) as pool, ProgressBar("looking", len(loads), shown=shown) as bar:
        for _, job in bounded_map(lambda load: pool.submit(_look, load), loads, ahead=4 * available_cores()):
            photos.append(job.result())
            bar.move(len(photos))
    return photos


def _look(load: Callable[[], bytes]) -> MeasuredPhoto | None:
    try:
        return measure(load())
    except (NonnegError, ValueError):
        return None


def better(photos: MeasuredPhotos, ids: tuple[str, ...]) -> list[int]:
    """Sort photos, the best copy first: more pixels, sharper by a tenth, more bytes, then the shorter path."""

    def key(i: int) -> tuple[float, ...]:
        photo = photos.known[i]
        if photo is None:
            return (0.0, 0.0, 0.0)
        pixels = photo.checks.width * photo.checks.height
        return (-float(pixels), -round(10 * np.log1p(photo.checks.sharpness * 100)), -float(photo.bytes))

    return sorted(range(len(ids)), key=lambda i: (*key(i), len(ids[i]), ids[i]))


def why(best: MeasuredPhoto | None, other: MeasuredPhoto | None) -> str:
    """Say in what the one that is kept is better."""
    if best is None or other is None:
        return "one of the two could not be read"
    if best.digest == other.digest:
        return "the same bytes; the kept one has the shorter path"
    a, b = best.checks, other.checks
    if a.width * a.height != b.width * b.height:
        return f"{b.width} x {b.height} pixels, the kept one {a.width} x {a.height}"
    if a.sharpness > b.sharpness * 1.05:
        return f"less sharp: {b.sharpness:.3f}, the kept one {a.sharpness:.3f}"
    if best.bytes != other.bytes:
        return f"{other.bytes} bytes, the kept one {best.bytes}"
    return "equal in size; the kept one has the shorter path"
