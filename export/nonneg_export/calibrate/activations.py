"""What an encoder answers to many photos, streamed through ONNX Runtime into a file; an interrupted run resumes.

key           names what the rows depend on (encoder, photos, view)
records       a record a photo (`photo_records.py`)

Each job reads, decodes, views and encodes one photo on one thread, with as many threads as cores on one shared
session: the fastest way on CPUs. Rows are appended in the photos' order, so the result does not depend on threads.
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Floats, Rows
from nonneg_core.errors import CheckFailed, NonnegError
from nonneg_core.pixels.view import Pixels, View, has_simd
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_export.calibrate import photo_records
from nonneg_export.calibrate.photo_folder import Photos, digest_of, load_pixels
from nonneg_runtime.bundle.bundle_folder import storing
from nonneg_runtime.bundle.external_data import external_files
from nonneg_runtime.bundle.manifest import Calibration, Manifest, RankedBy
from nonneg_runtime.inference.encoder import open_session
from nonneg_runtime.inference.runner import Runner


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
    tick: photo_records.Tick | None = None,
) -> Activations:
    """Run every photo through `encoder`; `folder` keeps the rows and what is needed to resume."""
    session = open_session(encoder, callers=available_cores(), precision=precision)
    black = np.zeros((1, view.size, view.size, 3), np.uint8)
    form = photo_records.activation_form(len(_encode(session, black, "a black picture")))

    def record(path: Path, key: int) -> NDArray[Any] | str:
        try:
            pixels, digest = load_pixels(path, view)
        except (NonnegError, OSError) as error:  # a broken photo is counted, not fatal
            return photo_records.reason_of(error)
        row = _encode(session, pixels[None], path.name)
        if not np.isfinite(row).all():
            raise _not_finite(path)
        return photo_records.filled(form, key, bytes.fromhex(digest), row=row)

    with storing(folder):
        records, keys = _resumed(folder, _key(encoder, photos, view, precision), form), photo_records.photo_keys(photos)
        missing = np.flatnonzero(records.stored().rows(keys) < 0)
        lost = photo_records.complete(records, photos, keys, missing, record, tick)
        readings = photo_records.readable(records, photos, keys, lost)
    rows = np.memmap(records.path, dtype=form, mode="r")["row"]
    in_order = np.array_equal(readings.rows, np.arange(len(rows)))
    paths = tuple(photos.paths[place] for place in readings.places.tolist())
    digests = tuple(bytes(seal).hex() for seal in readings.seals)
    return Activations(rows if in_order else rows[readings.rows], paths, digests, readings.broken)


def _resumed(folder: Path, key: str, form: np.dtype[Any]) -> photo_records.Records:
    """Return the whole records of an earlier run on the same photos; none of another."""
    folder.mkdir(parents=True, exist_ok=True)
    owner, place = folder / "key", folder / "records"
    if not owner.is_file() or owner.read_text() != key:
        place.unlink(missing_ok=True)
        owner.write_text(key)
    records = photo_records.Records(place, form)
    records.cut(len(records.stored()))
    return records


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


def _encode(session: Runner, pixels: Pixels, name: str) -> Floats:
    try:
        row: Floats = session.run(pixels)[0]
    except Exception as error:  # onnxruntime raises its own classes, none of them public
        raise CheckFailed(
            f"ONNX Runtime cannot run the encoder on {name} by itself ({str(error).splitlines()[0]})",
            fix="export the encoder with a dynamic batch",
        ) from error
    return row


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
    encoder: Path,
    origin: Origin | None,
    photos: Photos,
    manifest: Manifest,
    folder: Path,
    tick: photo_records.Tick | None = None,
) -> tuple[Activations, Rows]:
    """Return what is run of the photos, the features where the columns have an origin; and the columns."""
    if origin is None:
        activations = collect(encoder, photos, manifest.view, folder, precision=manifest.precision, tick=tick)
        return activations, np.array(activations.values)
    activations = collect(origin.encoder, photos, manifest.view, folder, tick=tick)
    return activations, origin.columns(np.asarray(activations.values))
