"""The feature cache: a backbone's features of a data set, computed once, memory-mapped, shared between runs.

A folder per (weights, data, views): about.json says what of, features.npy holds (views, images, width), done.json how
far it got, so that a run that was stopped goes on from there. View 0 is the evaluation view, the others are random.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nonneg_core.atomic import atomic_write, storage_error
from nonneg_core.cache_folder import cache_folder, locked
from nonneg_training.data import Images
from nonneg_training.encoder import EncoderModule
from nonneg_training.prefetch import Prefetcher
from nonneg_training.seeds import generator
from nonneg_training.settings import Views
from nonneg_training.views import pipeline_for

BATCH = 64
CachedFeatures = NDArray[np.float32]  # (views, images, width)
Tick = Callable[[int, int], None]


@dataclass(frozen=True)
class FeatureRequest:
    """What is to be cached."""

    encoder: EncoderModule
    images: Images
    views: Views
    random: int  # random views beside the evaluation view
    seed: int

    def about(self) -> dict[str, Any]:
        """Return all that the numbers depend on."""
        settings = self.views.model_dump(mode="json", exclude={"size"})  # that of the view counts
        drawn = {"settings": settings, "seed": self.seed} if self.random else None
        return {
            "format": "nonneg-features-1",
            "backbone": hashlib.sha256(self.encoder.backbone.identity()).hexdigest(),
            "data": self.images.digest(),
            "images": len(self.images),
            "width": self.encoder.backbone.width,
            "view": self.encoder.view.model_dump(mode="json"),
            "random": self.random,
            "drawn": drawn,
        }


def default_folder() -> Path:
    """Return $NONNEG_FEATURE_CACHE, or the user's cache folder."""
    asked = os.environ.get("NONNEG_FEATURE_CACHE")
    return Path(asked) / "features" if asked else cache_folder("features")


def features(wanted: FeatureRequest, folder: Path | None = None, *, tick: Tick | None = None) -> CachedFeatures:
    """Return the features, read from the cache; what is missing there is computed first."""
    about = wanted.about()
    key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:32]
    place = (folder or default_folder()) / key
    try:
        place.mkdir(parents=True, exist_ok=True)
        with locked(place / "lock"):
            return _filled(place, wanted, about, tick)
    except OSError as error:
        raise storage_error(place, error) from error


def _filled(place: Path, wanted: FeatureRequest, about: dict[str, Any], tick: Tick | None) -> CachedFeatures:
    path, done = place / "features.npy", place / "done.json"
    shape = (1 + wanted.random, len(wanted.images), about["width"])
    if not path.exists():
        _note(place / "about.json", json.dumps(about, indent=1))
        with atomic_write(path) as reserved:
            _reserve(reserved, shape)
        done.unlink(missing_ok=True)
    start = json.loads(done.read_text()) if done.exists() else 0
    if start < shape[1]:
        rows: CachedFeatures = np.load(path, mmap_mode="r+")
        _fill(rows, wanted, start, lambda n: _note(done, str(n)), tick)
    kept: CachedFeatures = np.load(path, mmap_mode="r")
    return kept


def _note(path: Path, text: str) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _reserve(path: Path, shape: tuple[int, ...]) -> None:
    """Reserve all the space that will be needed, so that a full disk shows now and not as a crash in a memory map."""
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        os.posix_fallocate(file.fileno(), 0, file.tell() + int(np.prod(shape)) * 4)


@torch.inference_mode()
def _fill(
    rows: CachedFeatures, wanted: FeatureRequest, start: int, save: Callable[[int], None], tick: Tick | None
) -> None:
    encoder, count = wanted.encoder.eval(), len(wanted.images)
    device = encoder.output.weight.device
    pipeline = pipeline_for(wanted.images, wanted.views, encoder.view.size, device)
    batches = -(-count // BATCH)

    def fetch(number: int) -> tuple[Any, Any, torch.Generator]:
        indices, g = range(number * BATCH, min((number + 1) * BATCH, count)), generator(wanted.seed, "cache", number)
        drawn = pipeline.fetch(wanted.images, indices, g, wanted.random) if wanted.random else None
        return pipeline.evaluate(wanted.images, indices, encoder.view), drawn, g

    def finish(fetched: tuple[Any, Any, torch.Generator]) -> list[torch.Tensor]:
        pixels, drawn, g = fetched
        views = [encoder.features(torch.from_numpy(pixels).to(device))]
        if wanted.random:
            views += map(encoder.see, pipeline.finish(drawn, g, wanted.random).chunk(wanted.random))
        return views

    with Prefetcher(fetch, finish, batches) as ahead:
        for number in range(start // BATCH, batches):
            found = [x.float().cpu().numpy() for x in ahead.take(number)]
            end = min((number + 1) * BATCH, count)
            rows[:, number * BATCH : end] = np.stack(found)
            if (number + 1) % 16 == 0 or end == count:
                rows.flush()  # type: ignore[attr-defined]
                save(end)
            if tick:
                tick(end, count)
