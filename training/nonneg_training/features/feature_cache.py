"""The feature cache: a backbone's features of a data set, computed once, memory-mapped, shared between runs.

A folder per (weights, data, views): about.json says what of, features.npy holds (views, images, width), done.json says
how far it got. A run that was stopped goes on from there. View 0 is the evaluation view, the others are random.
"""

import hashlib
import json
import os
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nonneg_core.files.atomic import atomic_write, storage_error
from nonneg_core.files.user_cache import LOCK, cache_folder, locked
from nonneg_training.data import Images
from nonneg_training.encoder.encoder_module import EncoderModule
from nonneg_training.setup.batch_order import Prefetcher, generator
from nonneg_training.setup.run_settings import Views
from nonneg_training.views import pipeline_for

CachedFeatures = NDArray[np.float32]  # (views, images, width)
Tick = Callable[[int, int], None]


def cached_features(
    request: "FeatureRequest", folder: Path | None = None, *, tick: Tick | None = None
) -> CachedFeatures:
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


def _filled(place: Path, request: "FeatureRequest", about: dict[str, Any], tick: Tick | None) -> CachedFeatures:
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
    rows: CachedFeatures, request: "FeatureRequest", start: int, save: Callable[[int], None], tick: Tick | None
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


# Features of a data set, a block of images at a time: a block depends on its number alone.

BLOCK = 64  # images
Block = NDArray[np.float32]  # (views, images, width)
FetchedBlock = tuple[Any, Any, torch.Generator]


@dataclass(frozen=True)
class FeatureRequest:
    """Which features are wanted: of which encoder and images, through which views."""

    encoder: EncoderModule
    images: Images
    views: Views
    random: int  # random views beside the evaluation view
    seed: int

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return -(-len(self.images) // BLOCK)

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


class BlockMaker:
    """Makes blocks: reads and cuts the images of one, runs the backbone over its views."""

    def __init__(self, request: FeatureRequest) -> None:
        self._of, self._encoder = request, request.encoder.eval()
        self._device = request.encoder.output.weight.device
        self._pipeline = pipeline_for(request.images, request.views, request.encoder.view.size, self._device)

    def fetch(self, number: int) -> FetchedBlock:
        """Read the images of a block and cut their views."""
        of = self._of
        indices = range(number * BLOCK, min((number + 1) * BLOCK, len(of.images)))
        draw = generator(of.seed, "cache", number)
        drawn = self._pipeline.fetch(of.images, indices, draw, of.random) if of.random else None
        return self._pipeline.evaluate(of.images, indices, self._encoder.view), drawn, draw

    @torch.inference_mode()
    def finish(self, fetched: FetchedBlock) -> Block:
        """Return the features of what was fetched."""
        pixels, drawn, draw = fetched
        views = [self._encoder.features(torch.from_numpy(pixels).to(self._device))]
        if self._of.random:
            finished = self._pipeline.finish(drawn, draw, self._of.random)
            views += map(self._encoder.see, finished.chunk(self._of.random))
        return np.stack([view.float().cpu().numpy() for view in views])

    def from_block(self, first: int) -> Generator[Block]:
        """Yield the blocks from number `first` on; the next one is read while one is computed."""
        with Prefetcher(self.fetch, self.finish, self._of.blocks) as ahead:
            for number in range(first, self._of.blocks):
                yield ahead.take(number)
