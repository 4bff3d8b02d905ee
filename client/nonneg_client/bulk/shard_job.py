"""A group becomes a shard, unless the shard is there; and what a run would cost, by a try of some."""

import hashlib
import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from nonneg_client.bulk.groups import ContainerGone, ImageGroup
from nonneg_client.embedder import Embedder, EmbeddingsBuilder, Model, grouped
from nonneg_client.sources.image_sources import Item
from nonneg_client.wire.protocol import Options
from nonneg_core.errors import ConnectionFailed, DataInvalid, FingerprintMismatch
from nonneg_core.process.long_runs import bounded_map
from nonneg_vectors.storage import parquet
from nonneg_vectors.storage.addresses import Address
from nonneg_vectors.storage.data_set_files import Shard, finished_shard, shard_names, write_shard
from nonneg_vectors.storage.embeddings import Embeddings
from nonneg_vectors.storage.results import BatchResult, Failure, FailureRecord, reason


@dataclass(frozen=True)
class ShardJob:
    """Where shards go, and what is asked of the model."""

    target: Address
    options: Options
    model: Model
    downscale: int | None = None
    retry_failed: bool = False  # make a shard again of which images failed
    provider: str | None = None  # what computes, if not the processor: its vectors differ in their last bits

    def empty(self) -> Embeddings:
        """Return no vectors, of the form that all shards have."""
        return Embeddings.from_rows(
            [],
            dimensions=self.options.dimensions or self.model.dimensions,
            fingerprint=self.model.fingerprint,
            model=self.model.name,
            ids=(),
            normalized=self.options.normalize,
        )


@dataclass(frozen=True)
class MadeShard:
    """A shard, and whether it was made now."""

    shard: Shard
    fresh: bool


class ShardStore(Protocol):
    """Where shards are written."""

    partial: bool  # whether a group may become several shards: after some seconds, and where a run is interrupted

    def finished(self, name: str) -> Shard | None:
        """Return what is said of a shard that is there."""

    def write(self, vectors: Embeddings, reasons: Sequence[FailureRecord], described: Shard) -> Shard:
        """Write a shard, whole or not at all, and return it with its size."""


class DataSetShards:
    """The shards of a data set."""

    partial = False

    def __init__(self, target: Address) -> None:
        self.place = target
        self._there: frozenset[str] | None = None  # listed once: to open each that may be there is a request a shard

    def finished(self, name: str) -> Shard | None:
        if self._there is None:
            self._there = shard_names(self.place)
        return finished_shard(self.place, name) if name in self._there else None

    def write(self, vectors: Embeddings, reasons: Sequence[FailureRecord], described: Shard) -> Shard:
        return write_shard(self.place, vectors, reasons, described)


class ShardWriter:
    """Turns groups into shards with one embedder.

    on_images: called with the number of images of each batch.
    """

    def __init__(
        self,
        job: ShardJob,
        embedder: Embedder,
        store: ShardStore | None = None,
        on_images: Callable[[int], object] = lambda _: None,
    ) -> None:
        self._job = job
        self._embedder = embedder
        self._store = store or DataSetShards(job.target)
        self._on_images = on_images

    def ensure(self, group: ImageGroup) -> MadeShard:
        """Return the group's shard in a store of whole groups."""
        (made,) = self.shards(group)
        return made

    def shards(self, group: ImageGroup) -> Iterator[MadeShard]:
        """Yield the group's shard that is there, or what is made of it."""
        there = self._store.finished(group.name)
        if there is not None and not (there.failed and self._job.retry_failed):
            self._on_images(there.images)
            yield MadeShard(there, False)
            return
        items = read_ahead(group.items(), group.reader.threads)
        with closing(self._embedder.stream(items, self._job.options, downscale=self._job.downscale)) as stream:
            parts = self._counted(stream)
            for some in grouped(parts, len(group.ids)) if self._store.partial else [list(parts)]:
                yield MadeShard(self._written(group, some), True)

    def _counted(self, parts: Iterable[BatchResult]) -> Iterator[BatchResult]:
        for part in parts:
            self._on_images(len(part.results))
            yield part

    def _written(self, group: ImageGroup, parts: Iterable[BatchResult]) -> Shard:
        built = EmbeddingsBuilder("return")
        for part in parts:
            built.add(part)
        raise_fault_of_source(built.failures)
        vectors = built.embeddings() if built.vectors else self._job.empty()
        if vectors.fingerprint != self._job.model.fingerprint:
            raise FingerprintMismatch(
                f"the vectors are of {vectors.fingerprint}, and the run is of {self._job.model.fingerprint}",
                fix="embed into another target, or begin again with --replace",
                value=vectors.fingerprint,
            )
        reasons = [reason(failure) for failure in built.failures]
        entries = int((vectors.values.astype(np.float16) > 0).sum())
        ids, images = group.ids, len(vectors) + len(reasons)
        shard = Shard(group.name, ids[0], ids[-1], images, len(vectors), entries, len(reasons), 0)
        return self._store.write(vectors, reasons, shard)


def raise_fault_of_source(failures: Iterable[Failure]) -> None:
    """Raise the error of a store or a container that failed, which is not its images' fault."""
    for failure in failures:
        if isinstance(failure.error, (ConnectionFailed, ContainerGone)):
            raise failure.error


def read_ahead(items: Iterable[Item], threads: int) -> Iterator[Item]:
    """Yield images that some threads read before their turn comes."""
    with ThreadPoolExecutor(threads, thread_name_prefix="read") as pool:
        coming = bounded_map(lambda item: pool.submit(item.load), items, ahead=2 * threads)
        with closing(coming):
            for item, data in coming:
                yield replace(item, load=data.result)


# `--dry-run`: what a run would cost, from a list of all images and a try of some.

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

    def summary(self, workers: int) -> str:
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
