"""Features of many photos, computed once: a run that ended in any way goes on where it was."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nonneg_core.cache_folder import cache_folder, locked
from nonneg_core.cores import available_cores
from nonneg_core.curation.pixel_checks import GRID
from nonneg_core.errors import DataInvalid, ImageTooLarge, NonnegError, StorageFailed
from nonneg_core.heads.spread import Rows
from nonneg_core.interrupting import Interrupts
from nonneg_core.lookahead import bounded_map
from nonneg_core.pixels.resizing import has_simd
from nonneg_core.pixels.view import Pixels
from nonneg_export.activations import Tick
from nonneg_export.adaptation.backbone import Backbone, Source
from nonneg_export.adaptation.records import CHUNK, FORMAT, Numbers, Records, record_form, sealed
from nonneg_export.photo_folder import Photos
from nonneg_runtime.bundle import storing
from nonneg_runtime.preprocess import Preprocessor

LARGEST = 256 * 2**20  # bytes of a file
AT_ONCE = 64  # records that are written at a time
KEPT = 5  # folders of photos in the cache


@dataclass(frozen=True, eq=False)
class Features:
    """What is known of every photo that could be read; the rows are read from the file as they are used."""

    records: Records  # of every photo, in order
    places: Numbers  # the photos that could be read, as indices into records and paths
    photos: Photos
    broken: tuple[tuple[Path, str], ...]

    def __len__(self) -> int:
        return len(self.places)

    def roots(self, chosen: Numbers) -> Rows:
        """Roots of the features of some of the readable photos, (chosen, features)."""
        return np.asarray(self.records.read("roots", self.places[chosen]), dtype=np.float32)

    def pieces(self, chosen: Numbers) -> Iterator[Rows]:
        """The same in pieces that fit in memory."""
        return (self.roots(chosen[i : i + CHUNK]) for i in range(0, len(chosen), CHUNK))

    def thumbnails(self, chosen: Numbers) -> NDArray[np.uint8]:
        """Grey pictures of GRID x GRID pixels, (chosen, GRID * GRID)."""
        return self.records.read("thumbnail", self.places[chosen])

    def digests(self, chosen: Numbers) -> NDArray[Any]:
        """The sha256 of readable files, as 32 bytes."""
        return self.records.read("digest", self.places[chosen])

    def path(self, photo: int) -> Path:
        """Where a readable photo lies."""
        return self.photos.paths[int(self.places[photo])]


def compute_features(source: Source, backbone: Backbone, photos: Photos, *, tick: Tick | None = None) -> Features:
    """Run every photo through the source's backbone, or read what an earlier run put away."""
    records = Records(cache_folder("adapt") / _key(source, photos), record_form(source.features))
    with storing(records.folder):
        records.folder.mkdir(parents=True, exist_ok=True)
        if records.whole() < len(photos):
            _compute(Seer(backbone, Preprocessor(source.view), records.form), photos, records, tick)
        _forget_others(records.folder)
        state, reasons = records.read("read", np.arange(len(photos))), records.reasons()
    places = np.flatnonzero(state)
    found = tuple((photos.paths[number], reason) for number, reason in reasons.items())
    if not len(places):
        raise DataInvalid(
            f"none of the {len(photos)} images in {photos.folder} can be read ({found[0][0].name}: {found[0][1]})",
            fix="point to a folder of intact images",
            value=str(photos.folder),
        )
    return Features(records, places, photos, found)


def thumbnail(pixels: Pixels) -> NDArray[np.uint8]:
    """The grey picture of GRID x GRID pixels of what an encoder sees, (GRID * GRID,)."""
    grey = Image.fromarray(pixels).convert("L").resize((GRID, GRID), Image.Resampling.BOX)
    return np.asarray(grey, dtype=np.uint8).reshape(-1)


def read_file(path: Path) -> bytes:
    """A file's bytes, unless they are too many for a photo."""
    size = path.stat().st_size
    if size > LARGEST:
        raise ImageTooLarge(
            f"the file has {size} bytes, more than {LARGEST}", fix="leave it out", value=size, limit=LARGEST
        )
    return path.read_bytes()


@dataclass(frozen=True, eq=False)
class Seer:
    """From a photo's file to its record."""

    backbone: Backbone
    viewer: Preprocessor
    form: np.dtype[Any]

    def record(self, path: Path) -> tuple[NDArray[Any], str]:
        """The record, and why the photo cannot be read if it cannot: a broken one is counted, not fatal."""
        found = np.zeros(1, dtype=self.form)
        try:
            data = read_file(path)
            pixels = self.viewer.pixels(data)
        except (NonnegError, OSError) as error:
            return sealed(found), " ".join(str(error).split()) or type(error).__name__
        found["read"] = 1
        found["digest"] = np.void(hashlib.sha256(data).digest())
        found["thumbnail"] = thumbnail(pixels)
        found["roots"] = self.backbone.roots(pixels[None])
        return sealed(found), ""


def _compute(seer: Seer, photos: Photos, records: Records, tick: Tick | None) -> None:
    """Put the records of the photos behind those that are there; one process at a time."""
    with locked(records.folder / "lock", wait=False) as mine:
        if not mine:
            raise StorageFailed(
                f"another nonneg adapt is embedding {photos.folder}", fix="wait for it, or stop it, then go on"
            )
        done = records.resume()
        held: list[NDArray[Any]] = []
        reasons: dict[int, str] = {}
        with Interrupts() as interrupts, ThreadPoolExecutor(available_cores()) as pool:
            paths = photos.paths[done:]
            jobs = bounded_map(lambda path: pool.submit(seer.record, path), paths, ahead=8 * available_cores())
            for number, (_, answer) in enumerate(jobs, start=done):
                record, reason = answer.result()
                held.append(record)
                if reason:
                    reasons[number] = reason
                if len(held) == AT_ONCE or number == len(photos) - 1:
                    with interrupts.held():
                        records.append(held, reasons)
                    held, reasons = [], {}
                if tick:
                    tick(number + 1, len(photos))


def _key(source: Source, photos: Photos) -> str:
    """Names what the records depend on; another key means to start over."""
    state = hashlib.sha256(f"{FORMAT} {source.digest} {has_simd()}".encode())
    for path in photos.paths:
        try:
            found = path.stat()
        except OSError:  # it will be left out and named when its turn comes
            continue
        state.update(os.fsencode(path.absolute()) + f"\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    return state.hexdigest()[:32]


def _forget_others(folder: Path) -> None:
    """Keep the last few folders of photos."""
    folder.touch()
    for old in sorted(folder.parent.iterdir(), key=lambda place: place.stat().st_mtime)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
