"""A whole run into a target: what is there stays, what is missing is made, and what makes it one comes last."""

from collections.abc import Generator, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from nonneg_client.bulk.groups import ImageGroup
from nonneg_client.bulk.listing import Sources, groups, no_images
from nonneg_client.bulk.run_lock import LockCheck, locked_target
from nonneg_client.bulk.shard_job import DataSetShards, MadeShard, ShardJob, ShardStore, ShardWriter
from nonneg_client.embedder import Embedder
from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.terminal.progress import ProgressBar
from nonneg_vectors.storage import data_set_files
from nonneg_vectors.storage.addresses import Address
from nonneg_vectors.storage.results import FailureRecord


class ShardRunner(Protocol):
    """What makes the shards of all groups, in any order."""

    def run(self, sources: Sources, job: ShardJob) -> Generator[MadeShard, None, None]:
        """Return the shards as they are made; to be closed when it is left early."""

    def listed(self) -> int | None:
        """Return how many images there are, once all are listed."""


@dataclass(frozen=True)
class RunResult:
    """What a run has made, and what it could not."""

    summary: str
    failed: int
    reasons: Iterable[FailureRecord]
    listed_in: object


class RunTarget(ShardStore, Protocol):
    """Where a run goes: a data set, or a file of vectors."""

    place: Address  # the folder of its shards

    def opened(self, sources: Sources, *, replace: bool) -> AbstractContextManager[LockCheck]:
        """Keep other runs out; with `replace` forget what is there."""

    def settings(self, sources: Sources) -> dict[str, Any]:
        """Return what of the sources a second run must have in common with the first."""

    def left(self, image_groups: list[ImageGroup], sources: Sources, job: ShardJob) -> list[ImageGroup]:
        """Return what is to be made sure of."""

    def finish(self, sources: Sources, job: ShardJob, shards: list[data_set_files.Shard]) -> RunResult:
        """Make the shards one."""

    def remains(self) -> str | None:
        """Say what an interrupted run leaves; None where it is nothing."""


class InProcess:
    """One process: a group after the other."""

    def __init__(self, embedder: Embedder, target: RunTarget, bar: ProgressBar) -> None:
        self._embedder, self._target, self._bar = embedder, target, bar
        self._listed: int | None = None
        self._done = 0

    def run(self, sources: Sources, job: ShardJob) -> Generator[MadeShard, None, None]:
        """Yield the shards in the order of the sources."""
        left = self._target.left(list(groups(sources)), sources, job)
        self._listed = sum(len(group.ids) for group in left)
        writer = ShardWriter(job, self._embedder, self._target, self._move)
        for group in left:
            yield from writer.shards(group)

    def listed(self) -> int | None:
        return self._listed

    def _move(self, images: int) -> None:
        self._done += images
        self._bar.move(self._done, self._listed)


@dataclass
class EmbeddingRun:
    """What is embedded into which target, and how far it is."""

    sources: Sources
    job: ShardJob
    target: RunTarget
    bar: ProgressBar
    images: int = 0

    def through(self, runner: ShardRunner, *, replace: bool = False) -> RunResult:
        """Make what is missing, and make it one."""
        with self.target.opened(self.sources, replace=replace) as check:
            self._begin()
            shards: dict[str, data_set_files.Shard] = {}
            with closing(runner.run(self.sources, self.job)) as coming, self.bar:
                for made in coming:
                    check()
                    shards[made.shard.name] = made.shard
                    self.images += made.shard.images
                    self.bar.move(self.images, runner.listed())
            check()
            return self.target.finish(self.sources, self.job, list(shards.values()))

    def _begin(self) -> None:
        settings = self._settings()
        before = data_set_files.read_job(self.job.target)
        if before is None:
            data_set_files.write_job(self.job.target, settings)
            return
        for name, value in settings.items():
            if before.get(name) != value:
                raise ConfigInvalid(
                    f"{self.job.target} was begun with {name}={before.get(name)!r}, not {value!r}",
                    fix="give the same command again, another target, or --replace",
                    field=name,
                )

    def _settings(self) -> dict[str, Any]:
        options = {**asdict(self.job.options), "downscale": self.job.downscale}
        model = {"model": self.job.model.name, "fingerprint": self.job.model.fingerprint}
        return {**self.target.settings(self.sources), **options, **model, "provider": self.job.provider}


class DataSet(DataSetShards):
    """A data set as the target of a run."""

    @contextmanager
    def opened(self, sources: Sources, *, replace: bool) -> Iterator[LockCheck]:
        _apart(self.place, sources)
        with locked_target(self.place) as check:
            if replace:
                clear(self.place)
            yield check

    def settings(self, sources: Sources) -> dict[str, Any]:
        return {**asdict(sources), "names": [str(Address.of(name)) for name in sources.names]}

    def left(self, image_groups: list[ImageGroup], _: Sources, __: ShardJob) -> list[ImageGroup]:
        return image_groups

    def remains(self) -> str:
        return f"what is finished stays in {self.place}"

    def finish(self, sources: Sources, job: ShardJob, shards: list[data_set_files.Shard]) -> RunResult:
        if not shards:
            raise no_images(sources)
        shards.sort(key=lambda shard: (shard.first, shard.name))
        form = job.empty()
        manifest = data_set_files.DataSetManifest(
            form.model, form.fingerprint, form.dimensions, job.options.top_k, form.normalized, tuple(shards)
        )
        if not manifest.total("vectors"):
            first = next(data_set_files.read_failed(self.place, shards))
            raise DataInvalid(
                f"none of {manifest.total('images')} images could be embedded; {first['id']}: {first['message']}",
                fix=first["fix"] or "see the side table of failures",
            )
        data_set_files.write_manifest(self.place, manifest)
        data_set_files.remove_unnamed(self.place, manifest)
        return RunResult(
            str(manifest),
            manifest.total("failed"),
            data_set_files.read_failed(self.place, shards),
            self.place / data_set_files.FAILED,
        )


def clear(target: Address) -> None:
    """Forget a data set, and nothing else that lies there."""
    for name in (data_set_files.MANIFEST, data_set_files.JOB):
        if (target / name).kind() == "file":
            (target / name).remove()
    for name in (data_set_files.SHARDS, data_set_files.FAILED):
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
