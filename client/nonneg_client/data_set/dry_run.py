"""`--dry-run`: what a run would cost, from a list of all images and a try of some."""

from __future__ import annotations

import hashlib
import heapq
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from nonneg_client.data_set.groups import ImageGroup
from nonneg_client.data_set.shard_job import raise_fault_of_source
from nonneg_client.embedder import Embedder
from nonneg_client.embeddings_builder import EmbeddingsBuilder
from nonneg_client.sources.images import Item
from nonneg_client.storage import parquet
from nonneg_client.wire.protocol import Options
from nonneg_core.errors import DataInvalid

TRIED = 200


@dataclass(frozen=True)
class Forecast:
    """What is to be expected."""

    images: int
    shards: int
    tried: int
    seconds: float  # of one core, an image
    bytes_each: float  # of a vector in a shard
    failed: float  # share of images
    largest: int  # images of the largest shard

    def told(self, workers: int) -> str:
        """Return lines for people."""
        hours = self.images * self.seconds / 3600
        megabytes = self.images * self.bytes_each / 1e6
        worst = min(self.images, workers * self.largest)
        return "\n".join(
            (
                f"{self.images:,} images in {self.shards:,} shards",
                f"{self.tried} tried here: {1000 * self.seconds:.1f} ms of one core and {self.bytes_each:,.0f} bytes "
                f"each, {self.failed:.1%} failed",
                f"{workers} cores: {_hours(hours / workers)}, {_hours(hours)} of one core, {megabytes:,.1f} MB of "
                f"vectors, about {self.images * self.failed:,.0f} failures",
                f"after the loss of every worker at most {worst:,} images ({worst / self.images:.2%}) are done twice",
            )
        )


def estimate(
    groups: Iterable[ImageGroup],
    embedder: Embedder,
    options: Options,
    *,
    downscale: int | None = None,
    tried: int = TRIED,
) -> Forecast:
    """List all images, and embed those whose ids have the least digests: an even choice, and always the same."""
    images = shards = largest = 0
    chosen: list[tuple[int, int, ImageGroup, int]] = []
    for group in groups:
        for i, name in enumerate(group.ids):
            rank = -int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")
            images += 1
            if len(chosen) < tried or rank > chosen[0][0]:
                (heapq.heappush if len(chosen) < tried else heapq.heappushpop)(chosen, (rank, images, group, i))
        shards, largest = shards + 1, max(largest, len(group.ids))
    began = time.perf_counter()
    built = EmbeddingsBuilder("return")
    for part in embedder.stream(_items(chosen), options, downscale=downscale):
        built.add(part)
    raise_fault_of_source(built.failures)
    seconds = (time.perf_counter() - began) / len(chosen)
    if not built.vectors:
        raise DataInvalid(f"none of {len(chosen)} images that were tried could be embedded", fix="embed a few by hand")
    size = len(parquet.to_bytes(built.embeddings(), {})) / len(built.vectors)
    return Forecast(images, shards, len(chosen), seconds, size, len(built.failures) / len(chosen), largest)


def _items(chosen: Iterable[tuple[int, int, ImageGroup, int]]) -> Iterable[Item]:
    return (Item(group.ids[i], partial(group.reader.read, i)) for _, _, group, i in chosen)


def _hours(hours: float) -> str:
    return f"{hours:,.1f} h" if hours >= 1 else f"{60 * hours:.1f} min"
