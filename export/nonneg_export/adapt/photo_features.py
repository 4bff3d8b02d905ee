"""Features of many photos, computed once for each: a run that ended in any way goes on where it was, and a new photo
costs one photo.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nonneg_core.arrays import Numbers, Rows
from nonneg_core.errors import DataInvalid, ImageTooLarge, NonnegError, StorageFailed
from nonneg_core.files.user_cache import LOCK, cache_folder, evict, locked
from nonneg_core.pixels.pixel_checks import GRID
from nonneg_core.pixels.view import Pixels, has_simd
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_core.process.long_runs import Interrupts, bounded_map
from nonneg_export.adapt.backbone import FeatureBackbone, SourceBundle
from nonneg_export.adapt.feature_records import CHUNK, FORMAT, RecordBuffer, RecordKeys, Records, record_form, sealed
from nonneg_export.calibrate.activations import Tick
from nonneg_export.calibrate.photo_folder import Photos
from nonneg_runtime.bundle.bundle_folder import storing
from nonneg_runtime.seeing.preprocess import Preprocessor

LARGEST = 256 * 2**20  # bytes of a file
STALE = 0.5  # share of records of photos that are gone or changed, above which they are dropped
Broken = tuple[tuple[Path, str], ...]


@dataclass(frozen=True, eq=False)
class Features:
    """What is known of every photo that could be read; the rows are read from the file as they are used."""

    records: Records
    photos: Photos
    places: Numbers  # the photos that could be read, as indices into the paths
    rows: Numbers  # their records
    seals: NDArray[Any]  # the sha256 of their files, as 32 bytes
    broken: Broken

    def __len__(self) -> int:
        return len(self.places)

    def roots(self, chosen: Numbers) -> Rows:
        """Return roots of the features of some of the readable photos, (chosen, features)."""
        return np.asarray(self.records.read("roots", self.rows[chosen]), dtype=np.float32)

    def pieces(self, chosen: Numbers) -> Iterator[Rows]:
        """Return the same in pieces that fit in memory."""
        return (self.roots(chosen[i : i + CHUNK]) for i in range(0, len(chosen), CHUNK))

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
    source: SourceBundle, backbone: FeatureBackbone, photos: Photos, *, tick: Tick | None = None
) -> Features:
    """Run every photo through the source's backbone, or read what an earlier run put away."""
    folder, form = cache_folder("adapt") / _name(source, photos), record_form(source.features)
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        keys, records = _keys(photos), Records(folder / "records", form)
        lost: dict[int, str] = {}
        if (records.stored().rows(keys) < 0).any():
            records, lost = _completed(
                FeatureExtractor(backbone, Preprocessor(source.view), form), photos, keys, folder, tick
            )
        folder.touch()
        evict(folder.parent)
        return _features(records, photos, keys, lost)


def _features(records: Records, photos: Photos, keys: RecordKeys, lost: dict[int, str]) -> Features:
    """Return the photos that could be read; `lost`: why others could not."""
    index = records.stored()
    rows = index.rows(keys)
    places = np.flatnonzero(rows >= 0)
    rows = rows[places]
    named = tuple((photos.paths[number], reason) for number, reason in lost.items())
    if not len(places):
        raise DataInvalid(
            f"none of the {len(photos)} images in {photos.folder} can be read ({named[0][0].name}: {named[0][1]})",
            fix="point to a folder of intact images",
            value=str(photos.folder),
        )
    return Features(records, photos, places, rows, index.digests[rows], named)


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
            return " ".join(str(error).split()) or type(error).__name__
        entry = np.zeros(1, dtype=self.form)
        entry["key"] = key
        entry["digest"] = np.void(hashlib.sha256(data).digest())
        entry["thumbnail"] = thumbnail(pixels)
        entry["roots"] = self.backbone.roots(pixels[None])
        return sealed(entry)


def _completed(
    seer: FeatureExtractor, photos: Photos, keys: RecordKeys, folder: Path, tick: Tick | None
) -> tuple[Records, dict[int, str]]:
    """Return the records with those of all photos, and why some photos have none; one process at a time."""
    with locked(folder / LOCK, wait=False) as mine:
        if not mine:
            raise StorageFailed(
                f"another nonneg adapt is embedding {photos.folder}", fix="wait for it, or stop it, then go on"
            )
        records = Records(folder / "records", seer.form)
        index = records.stored()
        records.cut(len(index))
        rows = index.rows(keys)
        if len(index) and (rows >= 0).sum() < (1 - STALE) * len(index):
            records = records.only(np.sort(rows[rows >= 0]))
        return records, _compute(seer, photos, keys, np.flatnonzero(rows < 0), records, tick)


def _compute(
    seer: FeatureExtractor, photos: Photos, keys: RecordKeys, missing: Numbers, records: Records, tick: Tick | None
) -> dict[int, str]:
    """Put the records of the missing photos behind those that are there; why some cannot be read."""
    lost: dict[int, str] = {}
    there = len(photos) - len(missing)
    with Interrupts() as interrupts, ThreadPoolExecutor(available_cores()) as pool, RecordBuffer(records) as buffer:
        jobs = bounded_map(
            lambda number: pool.submit(seer.record, photos.paths[number], int(keys[number])),
            map(int, missing),
            ahead=8 * available_cores(),
        )
        for count, (number, answer) in enumerate(jobs, start=1):
            record = answer.result()
            with interrupts.deferred():
                if isinstance(record, str):
                    lost[number] = record
                else:
                    buffer.add(record)
            if tick:
                tick(there + count, len(photos))
        with interrupts.deferred():
            buffer.write()
    return lost


def _keys(photos: Photos) -> RecordKeys:
    """Name what each record depends on: the path within the folder, and the file's size and date."""
    return np.fromiter((_key(path, photos.folder) for path in photos.paths), dtype=np.uint64, count=len(photos))


def _key(path: Path, folder: Path) -> int:
    name = os.fsencode(path.relative_to(folder))
    try:
        status = path.stat()
        state = f"{status.st_size} {status.st_mtime_ns}"
    except OSError:  # it will be left out and named when its turn comes
        state = "unknown"
    digest = hashlib.blake2b(name + f"\0{state}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _name(source: SourceBundle, photos: Photos) -> str:
    """Name the photos' folder, and what computes features of them."""
    state = hashlib.sha256(f"{FORMAT} {source.digest} {has_simd()}\n".encode())
    state.update(os.fsencode(photos.folder.resolve()))
    return state.hexdigest()[:32]
