"""Features of many photos, computed once for each: a run that ended in any way goes on where it was, and a new photo
costs one photo.
"""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nonneg_core.arrays import Numbers, Rows
from nonneg_core.errors import ImageTooLarge, NonnegError, StorageFailed
from nonneg_core.files.user_cache import LOCK, cache_folder, evict, locked
from nonneg_core.pixels.pixel_checks import GRID
from nonneg_core.pixels.view import Pixels, has_simd
from nonneg_export.adapt.backbone import FeatureBackbone, SourceBundle
from nonneg_export.calibrate import photo_records
from nonneg_export.calibrate.photo_folder import Photos
from nonneg_runtime.bundle.bundle_folder import storing
from nonneg_runtime.seeing.preprocess import Preprocessor

LARGEST = 256 * 2**20  # bytes of a file
STALE = 0.5  # share of records of photos that are gone or changed, above which they are dropped


@dataclass(frozen=True, eq=False)
class Features:
    """What is known of every photo that could be read; the rows are read from the file as they are used."""

    records: photo_records.Records
    photos: Photos
    places: Numbers  # the photos that could be read, as indices into the paths
    rows: Numbers  # their records
    seals: NDArray[Any]  # the sha256 of their files, as 32 bytes
    broken: photo_records.Broken

    def __len__(self) -> int:
        return len(self.places)

    def roots(self, chosen: Numbers) -> Rows:
        """Return roots of the features of some of the readable photos, (chosen, features)."""
        return np.asarray(self.records.read("roots", self.rows[chosen]), dtype=np.float32)

    def pieces(self, chosen: Numbers) -> Iterator[Rows]:
        """Return the same in pieces that fit in memory."""
        return (self.roots(chosen[i : i + photo_records.CHUNK]) for i in range(0, len(chosen), photo_records.CHUNK))

    def thumbnails(self, chosen: Numbers) -> NDArray[np.uint8]:
        """Return grey pictures of GRID x GRID pixels, (chosen, GRID * GRID)."""
        return self.records.read("thumbnail", self.rows[chosen])

    def digests(self, chosen: Numbers) -> NDArray[Any]:
        """Return the sha256 of readable files, as 32 bytes."""
        return self.seals[chosen]

    def path(self, photo: int) -> Path:
        """Return where a readable photo lies."""
        return self.photos.paths[int(self.places[photo])]


def compute_features(
    source: SourceBundle, backbone: FeatureBackbone, photos: Photos, *, tick: photo_records.Tick | None = None
) -> Features:
    """Run every photo through the source's backbone, or read what an earlier run put away."""
    folder, form = cache_folder("adapt") / _name(source, photos), photo_records.record_form(source.features)
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        keys, records = photo_records.photo_keys(photos), photo_records.Records(folder / "records", form)
        lost: dict[int, str] = {}
        if (records.stored().rows(keys) < 0).any():
            records, lost = _completed(
                FeatureExtractor(backbone, Preprocessor(source.view), form), photos, keys, folder, tick
            )
        folder.touch()
        evict(folder.parent)
        readings = photo_records.readable(records, photos, keys, lost)
        return Features(records, photos, readings.places, readings.rows, readings.seals, readings.broken)


def thumbnail(pixels: Pixels) -> NDArray[np.uint8]:
    """Return the grey picture of GRID x GRID pixels of what an encoder sees, (GRID * GRID,)."""
    grey = Image.fromarray(pixels).convert("L").resize((GRID, GRID), Image.Resampling.BOX)
    return np.asarray(grey, dtype=np.uint8).reshape(-1)


def read_file(path: Path) -> bytes:
    """Return a file's bytes, unless they are too many for a photo."""
    size = path.stat().st_size
    if size > LARGEST:
        raise ImageTooLarge(
            f"the file has {size} bytes, more than {LARGEST}", fix="leave it out", value=size, limit=LARGEST
        )
    return path.read_bytes()


@dataclass(frozen=True, eq=False)
class FeatureExtractor:
    """From a photo's file to its record."""

    backbone: FeatureBackbone
    viewer: Preprocessor
    form: np.dtype[Any]

    def record(self, path: Path, key: int) -> NDArray[Any] | str:
        """Return the record, or why the photo cannot be read: it is left out, and the next run tries again."""
        try:
            data = read_file(path)
            pixels = self.viewer.pixels(data)
        except (NonnegError, OSError) as error:
            return photo_records.reason_of(error)
        roots = self.backbone.roots(pixels[None])
        digest = hashlib.sha256(data).digest()
        return photo_records.filled(self.form, key, digest, thumbnail=thumbnail(pixels), roots=roots)


def _completed(
    seer: FeatureExtractor,
    photos: Photos,
    keys: photo_records.RecordKeys,
    folder: Path,
    tick: photo_records.Tick | None,
) -> tuple[photo_records.Records, dict[int, str]]:
    """Return the records with those of all photos, and why some photos have none; one process at a time."""
    with locked(folder / LOCK, wait=False) as mine:
        if not mine:
            raise StorageFailed(
                f"another nonneg adapt is embedding {photos.folder}", fix="wait for it, or stop it, then go on"
            )
        records = photo_records.Records(folder / "records", seer.form)
        index = records.stored()
        records.cut(len(index))
        rows = index.rows(keys)
        if len(index) and (rows >= 0).sum() < (1 - STALE) * len(index):
            records = records.only(np.sort(rows[rows >= 0]))
        return records, photo_records.complete(records, photos, keys, np.flatnonzero(rows < 0), seer.record, tick)


def _name(source: SourceBundle, photos: Photos) -> str:
    """Name the photos' folder, and what computes features of them."""
    state = hashlib.sha256(f"{photo_records.FORMAT} {source.digest} {has_simd()}\n".encode())
    state.update(os.fsencode(photos.folder.resolve()))
    return state.hexdigest()[:32]
