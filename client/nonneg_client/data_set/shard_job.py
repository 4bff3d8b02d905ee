"""A group becomes a shard, unless the shard is there: the one step that a single process and every worker take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from nonneg_client.data_set.addresses import Address
from nonneg_client.data_set.groups import ContainerGone, ImageGroup
from nonneg_client.data_set.layout import Shard, finished_shard, shard_names, write_shard
from nonneg_client.embedder import Embedder, Model
from nonneg_client.embeddings import Embeddings
from nonneg_client.embeddings_builder import EmbeddingsBuilder
from nonneg_client.failures import reason
from nonneg_client.results import Failure
from nonneg_client.sources.images import Item
from nonneg_client.wire.protocol import Options
from nonneg_core.errors import ConnectionFailed, FingerprintMismatch
from nonneg_core.lookahead import bounded_map


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


class ShardWriter:
    """Turns groups into shards with one embedder."""

    def __init__(self, job: ShardJob, embedder: Embedder) -> None:
        self._job = job
        self._embedder = embedder
        self._there: frozenset[str] | None = None  # listed once: to open each that may be there is a request a shard

    def ensure(self, group: ImageGroup) -> MadeShard:
        """Return the group's shard: the one that is there, or a new one."""
        if self._there is None:
            self._there = shard_names(self._job.target)
        there = finished_shard(self._job.target, group.name) if group.name in self._there else None
        if there is None or (there.failed and self._job.retry_failed):
            return MadeShard(self._made(group), True)
        return MadeShard(there, False)

    def _made(self, group: ImageGroup) -> Shard:
        built = EmbeddingsBuilder("return")
        with closing(self._embedder.stream(images(group), self._job.options, downscale=self._job.downscale)) as parts:
            for part in parts:
                built.add(part)
        raise_fault_of_source(built.failures)
        vectors = built.embeddings() if built.vectors else self._job.empty()
        if vectors.fingerprint != self._job.model.fingerprint:
            raise FingerprintMismatch(
                f"the vectors are of {vectors.fingerprint}, and the data set of {self._job.model.fingerprint}",
                fix="embed into another target, or begin again with --replace",
                value=vectors.fingerprint,
            )
        reasons = [reason(failure) for failure in built.failures]
        entries = int((vectors.values.astype(np.float16) > 0).sum())
        ids = group.ids
        said = Shard(group.name, ids[0], ids[-1], len(ids), len(vectors), entries, len(reasons), 0)
        return write_shard(self._job.target, vectors, reasons, said)


def raise_fault_of_source(failures: Iterable[Failure]) -> None:
    """Raise the error of a store or a container that failed, which is not its images' fault."""
    for failure in failures:
        if isinstance(failure.error, (ConnectionFailed, ContainerGone)):
            raise failure.error


def images(group: ImageGroup) -> Iterator[Item]:
    """Yield the images of a group, read ahead by some threads."""
    threads = group.reader.threads
    with ThreadPoolExecutor(threads, thread_name_prefix="read") as pool:
        coming = bounded_map(lambda i: pool.submit(group.reader.read, i), range(len(group.ids)), ahead=2 * threads)
        with closing(coming):
            for i, data in coming:
                yield Item(group.ids[i], data.result)
