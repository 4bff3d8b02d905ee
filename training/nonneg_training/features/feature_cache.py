"""The feature cache: a backbone's features of a data set, computed once, memory-mapped, shared between runs.

A folder per (weights, data, views): about.json says what of, features.npy holds (views, images, width), done.json says
how far it got. A run that was stopped goes on from there. View 0 is the evaluation view, the others are random.
"""

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.files.atomic import atomic_write, storage_error
from nonneg_core.files.user_cache import LOCK, cache_folder, locked
from nonneg_training.features.feature_blocks import BLOCK, BlockMaker, FeatureRequest

CachedFeatures = NDArray[np.float32]  # (views, images, width)
Tick = Callable[[int, int], None]


def cached_features(request: FeatureRequest, folder: Path | None = None, *, tick: Tick | None = None) -> CachedFeatures:
    """Return the features, read from the cache; what is missing there is computed first."""
    about = request.about()
    key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:32]
    place = (folder or cache_folder("features")) / key
    try:
        place.mkdir(parents=True, exist_ok=True)
        with locked(place / LOCK):
            return _filled(place, request, about, tick)
    except OSError as error:
        raise storage_error(place, error) from error


def _filled(place: Path, request: FeatureRequest, about: dict[str, Any], tick: Tick | None) -> CachedFeatures:
    path, done = place / "features.npy", place / "done.json"
    shape = (1 + request.random, len(request.images), about["width"])
    if not path.exists():
        _write_note(place / "about.json", json.dumps(about, indent=1))
        with atomic_write(path) as reserved:
            _reserve(reserved, shape)
        done.unlink(missing_ok=True)
    start = json.loads(done.read_text()) if done.exists() else 0
    if start < shape[1]:
        rows: CachedFeatures = np.load(path, mmap_mode="r+")
        _fill(rows, request, start, lambda n: _write_note(done, str(n)), tick)
    mapped: CachedFeatures = np.load(path, mmap_mode="r")
    return mapped


def _write_note(path: Path, text: str) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _reserve(path: Path, shape: tuple[int, ...]) -> None:
    """Reserve all the space that will be needed, so that a full disk shows now and not as a crash in a memory map."""
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        os.posix_fallocate(file.fileno(), 0, file.tell() + int(np.prod(shape)) * 4)


def _fill(
    rows: CachedFeatures, request: FeatureRequest, start: int, save: Callable[[int], None], tick: Tick | None
) -> None:
    count, first = len(request.images), start // BLOCK
    with closing(BlockMaker(request).from_block(first)) as blocks:
        for number, block in enumerate(blocks, first):
            end = min((number + 1) * BLOCK, count)
            rows[:, number * BLOCK : end] = block
            if (number + 1) % 16 == 0 or end == count:
                rows.flush()  # type: ignore[attr-defined]
                save(end)
            if tick:
                tick(end, count)
