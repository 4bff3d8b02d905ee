"""Features of a data set, a block of images at a time: a block depends on its number alone."""

import hashlib
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nonneg_training.data import Images
from nonneg_training.encoder.encoder_module import EncoderModule
from nonneg_training.setup.batch_order import Prefetcher, generator
from nonneg_training.setup.run_settings import Views
from nonneg_training.views import pipeline_for

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
