"""What an encoder answers to many photos, with the features it answers from, in a file that grows and resumes.

key           names what the rows depend on (encoder, photos, view) and how wide they are
rows.f32      float32 rows, one after the other
journal.tsv   one line a photo: its sha256, or nothing and the reason why it could not be read
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

import numpy as np

from nonneg_core.arrays import Floats, Rows
from nonneg_core.errors import CheckFailed, DataInvalid, NonnegError
from nonneg_core.pixels.view import Pixels, View, has_simd
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_core.process.long_runs import bounded_map
from nonneg_export.calibrate.photo_folder import Photos, digest_of, load_pixels
from nonneg_runtime.bundle.bundle_folder import storing
from nonneg_runtime.bundle.external_data import external_files
from nonneg_runtime.bundle.manifest import Calibration, Manifest, RankedBy
from nonneg_runtime.inference.encoder import open_session
from nonneg_runtime.inference.runner import Runner


@dataclass(frozen=True)
class PhotoRecord:
    """One photo in the journal."""

    digest: str = ""
    broken: str = ""

    def __str__(self) -> str:
        return f"{self.digest}\t{' '.join(self.broken.split())}\n"


class ActivationStore:
    """The files in one folder, open for appending; `lines` says what they hold."""

    def __init__(self, folder: Path, key: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._key = key
        self._owner, self._rows, self._journal = (folder / name for name in ("key", "rows.f32", "journal.tsv"))
        self.columns, self.lines = self._resume()
        self._row_file = self._rows.open("ab")
        self._journal_file = self._journal.open("a", encoding="utf-8")

    def __enter__(self) -> ActivationStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._row_file.close()
        self._journal_file.close()

    def append(self, line: PhotoRecord, row: Floats | None = None) -> None:
        """Add one more photo: with its row, or broken."""
        if row is not None:
            if not self.columns:
                self.columns = len(row)
                self._owner.write_text(f"{self._key} {self.columns}")
            self._row_file.write(row.tobytes())
        self._journal_file.write(str(line))
        self.lines.append(line)
        if len(self.lines) % 256 == 0:
            self.flush()

    def flush(self) -> None:
        """Write rows first, so that the journal never promises more than there is."""
        self._row_file.flush()
        self._journal_file.flush()

    def values(self) -> Floats:
        """Return all rows, read from the file as they are used."""
        self.flush()
        intact = sum(not line.broken for line in self.lines)
        if not intact:
            return np.zeros((0, self.columns), dtype=np.float32)
        return np.memmap(self._rows, dtype=np.float32, mode="r", shape=(intact, self.columns))

    def _resume(self) -> tuple[int, list[PhotoRecord]]:
        key, _, columns = self._owner.read_text().partition(" ") if self._owner.is_file() else ("", "", "")
        if key != self._key or not columns:
            self._owner.write_text(self._key)
            self._rows.write_bytes(b"")
            self._journal.write_text("")
            return 0, []
        width = 4 * int(columns)
        lines = self._whole_lines(self._rows.stat().st_size // width)
        with self._rows.open("r+b") as file:
            file.truncate(width * sum(not line.broken for line in lines))
        self._journal.write_text("".join(map(str, lines)))
        return int(columns), lines

    def _whole_lines(self, rows: int) -> list[PhotoRecord]:
        """Return the journal as far as its lines are whole and their rows are there."""
        *whole, _ = self._journal.read_text().split("\n")
        lines: list[PhotoRecord] = []
        for text in whole:
            line = PhotoRecord(*text.split("\t", 1))
            rows -= not line.broken
            if rows < 0:
                break
            lines.append(line)
        return lines


# Each job reads, decodes, views and encodes one photo on one thread, with as many threads as cores on one shared
# session: the fastest way on CPUs. Rows are appended in the photos' order, so the result does not depend on threads.

Tick = Callable[[int, int], None]  # done, of how many
PhotoOutcome = tuple[PhotoRecord, Floats | None]


@dataclass(frozen=True, eq=False)
class Activations:
    """The raw outputs for the photos that could be read, in their order; a view of a file, not of memory."""

    values: Floats  # (images, D)
    paths: tuple[Path, ...]
    digests: tuple[str, ...]
    broken: tuple[tuple[Path, str], ...]

    @property
    def digest(self) -> str:
        """One digest for all the photos."""
        return digest_of(self.digests)


def collect(
    encoder: Path,
    photos: Photos,
    view: View,
    folder: Path,
    *,
    precision: str = "fp32",
    tick: Tick | None = None,
) -> Activations:
    """Run every photo through `encoder`; `folder` keeps the rows and what is needed to resume."""
    workers = available_cores()
    session = open_session(encoder, callers=workers, precision=precision)
    with storing(folder), ActivationStore(folder, _key(encoder, photos, view, precision)) as rows:
        _run(rows, session, photos.paths, view, workers, tick)
        return _result(rows, photos)


def calibrated_on(activations: Activations, data: str, ranked_by: RankedBy) -> Calibration:
    """Return the manifest's record of these images, with how they were decoded and resized."""
    resize: Literal["simd", "pillow"] = "simd" if has_simd() else "pillow"
    return Calibration(
        images=len(activations.paths),
        data=data,
        digest=activations.digest,
        ranked_by=ranked_by,
        decode="fast",
        resize=resize,
    )


def _run(
    rows: ActivationStore, session: Runner, paths: Sequence[Path], view: View, workers: int, tick: Tick | None
) -> None:
    def job(path: Path) -> PhotoOutcome:
        try:
            pixels, digest = load_pixels(path, view)
        except (NonnegError, OSError) as error:  # a broken photo is counted, not fatal
            return PhotoRecord(broken=str(error)), None
        return PhotoRecord(digest=digest), _encode(session, pixels[None], path)

    with ThreadPoolExecutor(workers) as pool:
        left = paths[len(rows.lines) :]
        for _, answer in bounded_map(lambda path: pool.submit(job, path), left, ahead=8 * workers):
            line, row = answer.result()
            if row is not None and not np.isfinite(row).all():
                raise _not_finite(paths[len(rows.lines)])
            rows.append(line, row)
            if tick:
                tick(len(rows.lines), len(paths))


def _encode(session: Runner, pixels: Pixels, path: Path) -> Floats:
    try:
        row: Floats = session.run(pixels)[0]
    except Exception as error:  # onnxruntime raises its own classes, none of them public
        raise CheckFailed(
            f"ONNX Runtime cannot run the encoder on {path.name} by itself ({str(error).splitlines()[0]})",
            fix="export the encoder with a dynamic batch",
        ) from error
    return row


def _result(rows: ActivationStore, photos: Photos) -> Activations:
    both = list(zip(photos.paths, rows.lines, strict=True))
    broken = tuple((path, line.broken) for path, line in both if line.broken)
    if len(broken) == len(both):
        raise DataInvalid(
            f"none of the {len(both)} images in {photos.folder} can be read ({broken[0][0].name}: {broken[0][1]})",
            fix="point to a folder of intact images",
            value=str(photos.folder),
        )
    intact = [(path, line.digest) for path, line in both if not line.broken]
    return Activations(rows.values(), tuple(p for p, _ in intact), tuple(d for _, d in intact), broken)


def _key(encoder: Path, photos: Photos, view: View, precision: str) -> str:
    """Name what the rows depend on; another key means to start over."""
    state = hashlib.sha256(encoder.read_bytes())
    for beside in sorted(external_files(encoder)):
        state.update((encoder.parent / beside).read_bytes())
    state.update(f"{view.model_dump_json()} {precision} {has_simd()}".encode())
    for path in photos.paths:
        try:
            status = path.stat()
        except OSError:  # it will be left out and named when its turn comes
            continue
        state.update(os.fsencode(path) + f"\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return state.hexdigest()


def _not_finite(path: Path) -> CheckFailed:
    return CheckFailed(
        f"the encoder answers NaN or infinity to {path}",
        fix="its weights are broken or overflow: train again with a lower learning rate",
        value=str(path),
    )


# The features that an encoder's columns were made of: photos that are run once answer with both.


@dataclass(frozen=True, eq=False)
class Origin:
    """An encoder of features, and how they become the columns of the bundle, in its order."""

    encoder: Path
    columns: Callable[[Rows], Rows]


def features_and_columns(
    encoder: Path, origin: Origin | None, photos: Photos, manifest: Manifest, folder: Path, tick: Tick | None = None
) -> tuple[Activations, Rows]:
    """Return what is run of the photos, the features where the columns have an origin; and the columns."""
    if origin is None:
        activations = collect(encoder, photos, manifest.view, folder, precision=manifest.precision, tick=tick)
        return activations, np.array(activations.values)
    activations = collect(origin.encoder, photos, manifest.view, folder, tick=tick)
    return activations, origin.columns(np.asarray(activations.values))
