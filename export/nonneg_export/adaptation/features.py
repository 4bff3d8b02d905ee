"""Features of many photos, in a file that grows: a run that ended in any way goes on where it was.

One record of a fixed size a photo, in the photos' order; what is cut off at the end is written again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nonneg_core.cache_folder import cache_folder
from nonneg_core.cores import available_cores
from nonneg_core.curation.pixel_checks import GRID
from nonneg_core.errors import DataInvalid, ImageTooLarge, NonnegError
from nonneg_core.heads.spread import Rows
from nonneg_core.interrupting import Interrupts
from nonneg_core.lookahead import bounded_map
from nonneg_core.pixels.resizing import has_simd
from nonneg_core.pixels.view import Pixels
from nonneg_export.activations import Tick
from nonneg_export.adaptation.backbone import Backbone, Source
from nonneg_export.photo_folder import Photos
from nonneg_runtime.bundle import storing
from nonneg_runtime.preprocess import Preprocessor

FORMAT = 1  # of the records; one more when what is in them changes
LARGEST = 256 * 2**20  # bytes of a file
AT_ONCE = 64  # records that are written at a time
KEPT = 5  # folders of photos in the cache
CHUNK = 4096
Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Features:
    """What is known of every photo that could be read; the rows are read from the file as they are used."""

    records: NDArray[Any]  # of every photo, in order
    places: Numbers  # the photos that could be read, as indices into records and paths
    photos: Photos
    broken: tuple[tuple[Path, str], ...]

    def __len__(self) -> int:
        return len(self.places)

    def roots(self, chosen: Numbers) -> Rows:
        """Roots of the features of some of the readable photos, (chosen, features)."""
        return np.asarray(self.records["roots"][self.places[chosen]], dtype=np.float32)

    def pieces(self, chosen: Numbers) -> Iterator[Rows]:
        """The same in pieces that fit in memory."""
        return (self.roots(chosen[i : i + CHUNK]) for i in range(0, len(chosen), CHUNK))

    def thumbnails(self, chosen: Numbers) -> NDArray[np.uint8]:
        """Grey pictures of GRID x GRID pixels, (chosen, GRID * GRID)."""
        return np.asarray(self.records["thumbnail"][self.places[chosen]])

    def digests(self) -> NDArray[Any]:
        """The sha256 of every readable file, as 32 bytes."""
        return np.asarray(self.records["digest"][self.places])

    def path(self, photo: int) -> Path:
        """Where a readable photo lies."""
        return self.photos.paths[int(self.places[photo])]


def compute_features(source: Source, backbone: Backbone, photos: Photos, *, tick: Tick | None = None) -> Features:
    """Run every photo through the source's backbone, or read what an earlier run put away."""
    folder = cache_folder("adapt") / _key(source, photos)
    form = record_form(source.features)
    file, broken = folder / "records", folder / "broken.tsv"
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        done = _resume(file, broken, form.itemsize)
        if done < len(photos):
            _append(Seer(backbone, Preprocessor(source.view), form), photos.paths[done:], file, broken, tick)
        _forget_others(folder)
        records = np.memmap(file, dtype=form, mode="r", shape=(len(photos),))
        reasons = dict(line.split("\t", 1) for line in broken.read_text(encoding="utf-8").splitlines())
    places = np.flatnonzero(records["read"])
    found = tuple((photos.paths[int(number)], reason) for number, reason in reasons.items())
    if not len(places):
        raise DataInvalid(
            f"none of the {len(photos)} images in {photos.folder} can be read ({found[0][0].name}: {found[0][1]})",
            fix="point to a folder of intact images",
            value=str(photos.folder),
        )
    return Features(records, places, photos, found)


def record_form(features: int) -> np.dtype[Any]:
    """One photo in the file."""
    return np.dtype(
        [("read", "u1"), ("digest", "V32"), ("thumbnail", "u1", (GRID * GRID,)), ("roots", "<f2", (features,))]
    )


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
            return found, " ".join(str(error).split()) or type(error).__name__
        found["read"] = 1
        found["digest"] = np.void(hashlib.sha256(data).digest())
        found["thumbnail"] = thumbnail(pixels)
        found["roots"] = self.backbone.roots(pixels[None])
        return found, ""


def _append(seer: Seer, paths: Sequence[Path], file: Path, broken: Path, tick: Tick | None) -> None:
    """Put the records of the paths behind those that are there."""
    done = file.stat().st_size // seer.form.itemsize
    held: list[NDArray[Any]] = []
    reasons: list[str] = []
    with Interrupts() as interrupts, ThreadPoolExecutor(available_cores()) as pool:
        jobs = bounded_map(lambda path: pool.submit(seer.record, path), paths, ahead=8 * available_cores())
        for number, (_, answer) in enumerate(jobs, start=1):
            record, reason = answer.result()
            held.append(record)
            if reason:
                reasons.append(f"{done + number - 1}\t{reason}\n")
            if len(held) == AT_ONCE or number == len(paths):
                with interrupts.held():
                    _put_away(file, broken, held, reasons)
                held, reasons = [], []
            if tick:
                tick(done + number, done + len(paths))


def _put_away(file: Path, broken: Path, held: list[NDArray[Any]], reasons: list[str]) -> None:
    """Reasons first, so that no record lacks the one it has."""
    with broken.open("a", encoding="utf-8") as text:
        text.writelines(reasons)
    with file.open("ab") as target:
        target.write(b"".join(record.tobytes() for record in held))


def _resume(file: Path, broken: Path, size: int) -> int:
    """How many whole records there are; the rest is cut off."""
    file.touch()
    broken.touch()
    done = file.stat().st_size // size
    os.truncate(file, done * size)
    whole = [line for line in broken.read_text(encoding="utf-8", errors="replace").split("\n")[:-1] if "\t" in line]
    kept = {line.partition("\t")[0]: line for line in whole if line.partition("\t")[0].isdigit()}
    broken.write_text("".join(f"{line}\n" for number, line in kept.items() if int(number) < done), encoding="utf-8")
    return done


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
