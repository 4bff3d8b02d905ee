"""What the encoder answers to many photos, streamed through ONNX Runtime into a file; an interrupted run resumes.

Each job reads, decodes, views and encodes one photo on one thread, with as many threads as cores on one shared
session: the fastest way on CPUs. Rows are appended in the photos' order, so the result does not depend on threads.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nonneg_core.cores import available_cores
from nonneg_core.errors import CheckFailed, DataInvalid, NonnegError
from nonneg_core.lookahead import bounded_map
from nonneg_core.pixels.resizing import has_simd
from nonneg_core.pixels.view import Pixels, View
from nonneg_export.activation_store import Activation, ActivationStore, PhotoRecord
from nonneg_export.photo_folder import Photos, digest_of, load_pixels
from nonneg_runtime.bundle import storing
from nonneg_runtime.external_data import external_files
from nonneg_runtime.inference.open_session import open_session
from nonneg_runtime.inference.providers import Runner
from nonneg_runtime.manifest import Calibration, RankedBy

Tick = Callable[[int, int], None]  # done, of how many
PhotoOutcome = tuple[PhotoRecord, Activation | None]


@dataclass(frozen=True, eq=False)
class Activations:
    """The raw outputs for the photos that could be read, in their order; a view of a file, not of memory."""

    values: NDArray[np.float32]  # (images, D)
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


def calibrated_on(seen: Activations, data: str, ranked_by: RankedBy) -> Calibration:
    """Return the manifest's record of these images, with how they were decoded and resized."""
    resize: Literal["simd", "pillow"] = "simd" if has_simd() else "pillow"
    return Calibration(
        images=len(seen.paths), data=data, digest=seen.digest, ranked_by=ranked_by, decode="fast", resize=resize
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


def _encode(session: Runner, pixels: Pixels, path: Path) -> Activation:
    try:
        row: Activation = session.run(pixels)[0]
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
    kept = [(path, line.digest) for path, line in both if not line.broken]
    return Activations(rows.values(), tuple(p for p, _ in kept), tuple(d for _, d in kept), broken)


def _key(encoder: Path, photos: Photos, view: View, precision: str) -> str:
    """Name what the rows depend on; another key means to start over."""
    state = hashlib.sha256(encoder.read_bytes())
    for beside in sorted(external_files(encoder)):
        state.update((encoder.parent / beside).read_bytes())
    state.update(f"{view.model_dump_json()} {precision} {has_simd()}".encode())
    for path in photos.paths:
        try:
            found = path.stat()
        except OSError:  # it will be left out and named when its turn comes
            continue
        state.update(os.fsencode(path) + f"\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    return state.hexdigest()


def _not_finite(path: Path) -> CheckFailed:
    return CheckFailed(
        f"the encoder answers NaN or infinity to {path}",
        fix="its weights are broken or overflow: train again with a lower learning rate",
        value=str(path),
    )
