"""A whole run into a data set: what is there stays, what is missing is made, and the manifest comes last."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from nonneg_client.bulk.groups import ImageGroup
from nonneg_client.bulk.listing import Sources, groups, no_images
from nonneg_client.bulk.run_lock import locked_target
from nonneg_client.bulk.shard_job import MadeShard, ShardJob, ShardWriter
from nonneg_client.embedder import Embedder
from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.terminal.progress import ProgressBar
from nonneg_vectors.storage.addresses import Address
from nonneg_vectors.storage.data_set_files import (
    FAILED,
    JOB,
    MANIFEST,
    SHARDS,
    DataSetManifest,
    Shard,
    read_failed,
    read_job,
    remove_unnamed,
    write_job,
    write_manifest,
)


class ShardRunner(Protocol):
    """What makes the shards of all groups, in any order."""

    def run(self, sources: Sources, job: ShardJob) -> Generator[MadeShard, None, None]:
        """Return the shards as they are made; to be closed when it is left early."""

    def listed(self) -> int | None:
        """Return how many images there are, once all are listed."""


class InProcess:
    """One process: a group after the other."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._listed: int | None = None

    def run(self, sources: Sources, job: ShardJob) -> Generator[MadeShard, None, None]:
        """Yield the shards in the order of the sources."""
        image_groups: list[ImageGroup] = list(groups(sources))
        self._listed = sum(len(group.ids) for group in image_groups)
        yield from map(ShardWriter(job, self._embedder).ensure, image_groups)

    def listed(self) -> int | None:
        return self._listed


@dataclass
class EmbeddingRun:
    """What is embedded into which target, and how far it is."""

    sources: Sources
    job: ShardJob
    quiet: bool = False
    images: int = 0
    fresh: int = 0

    def through(self, runner: ShardRunner, *, replace: bool = False) -> DataSetManifest:
        """Make what is missing, and write the manifest."""
        target = self.job.target
        _apart(target, self.sources)
        with locked_target(target) as check:
            if replace:
                clear(target)
            self._begin()
            shards: dict[str, Shard] = {}
            bar = ProgressBar("embedding", shown=False if self.quiet else None, lines=True)
            with closing(runner.run(self.sources, self.job)) as coming, bar:
                for made in coming:
                    check()
                    shards[made.shard.name] = made.shard
                    self._count(made, bar, runner.listed())
            check()
            return self._finish(list(shards.values()))

    def _count(self, made: MadeShard, bar: ProgressBar, total: int | None) -> None:
        self.images += made.shard.images
        self.fresh += made.shard.images * made.fresh
        bar.move(self.images, total)

    def _begin(self) -> None:
        settings = self._asked()
        before = read_job(self.job.target)
        if before is None:
            write_job(self.job.target, settings)
            return
        for name, value in settings.items():
            if before.get(name) != value:
                raise ConfigInvalid(
                    f"{self.job.target} was begun with {name}={before.get(name)!r}, not {value!r}",
                    fix="give the same command again, another target, or --replace",
                    field=name,
                )

    def _asked(self) -> dict[str, Any]:
        sources = {**asdict(self.sources), "names": [str(Address.of(name)) for name in self.sources.names]}
        options = {**asdict(self.job.options), "downscale": self.job.downscale}
        model = {"model": self.job.model.name, "fingerprint": self.job.model.fingerprint}
        return {**sources, **options, **model, "provider": self.job.provider}

    def _finish(self, shards: list[Shard]) -> DataSetManifest:
        if not shards:
            raise no_images(self.sources)
        shards.sort(key=lambda shard: (shard.first, shard.name))
        form = self.job.empty()
        manifest = DataSetManifest(
            form.model,
            form.fingerprint,
            form.dimensions,
            self.job.options.top_k,
            form.normalized,
            tuple(shards),
        )
        if not manifest.total("vectors"):
            first = next(read_failed(self.job.target, shards))
            raise DataInvalid(
                f"none of {manifest.total('images')} images could be embedded; {first['id']}: {first['message']}",
                fix=first["fix"] or "see the side table of failures",
            )
        write_manifest(self.job.target, manifest)
        remove_unnamed(self.job.target, manifest)
        return manifest


def clear(target: Address) -> None:
    """Forget a data set, and nothing else that lies there."""
    for name in (MANIFEST, JOB):
        if (target / name).kind() == "file":
            (target / name).remove()
    for name in (SHARDS, FAILED):
        (target / name).remove_folder()


def _apart(target: Address, sources: Sources) -> None:
    """Refuse sources that give an image twice, and a target inside a folder that is searched through."""
    sources.root()
    for name in sources.names:
        source = Address.of(name)
        if target == source or (target.within(source) != str(target) and source.kind() == "folder"):
            raise ConfigInvalid(
                f"the target {target} lies in the source {source}", fix="write it to a folder of its own", field="out"
            )
