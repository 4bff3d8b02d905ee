"""What runs on a cluster's machines, and what these must have in common: the bundle, its bytes and the target."""

import hashlib
import os
import pickle
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from nonneg_client.bulk.groups import ImageGroup
from nonneg_client.bulk.listing import Piece, Sources, groups_of, pieces
from nonneg_client.bulk.shard_job import MadeShard, ShardJob, ShardWriter
from nonneg_client.embedder import Model, local
from nonneg_core.errors import ConfigInvalid, DataInvalid, DigestMismatch, NonnegError
from nonneg_core.files.atomic import begun, remove_abandoned, storage_error
from nonneg_core.files.user_cache import cache_folder, locked
from nonneg_vectors.storage.addresses import Address
from nonneg_vectors.storage.data_set_files import JOB, read_job

MANIFEST = "manifest.json"  # which lists the digest of every other file
BundleFiles = dict[str, bytes]  # by file name


def packed(folder: Path) -> BundleFiles:
    """Return the files of a bundle."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def digest_of(files: BundleFiles) -> str:
    """Return what names a bundle by its content."""
    return hashlib.sha256(files[MANIFEST]).hexdigest()


def unpacked(digest: str, fetch: Callable[[], BundleFiles]) -> Path:
    """Return the bundle's folder on this machine; fetched by the first process that asks, while others wait."""
    place = cache_folder("bundles") / digest
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with locked(place.with_name(f"{digest}.lock")):
            if not (place / MANIFEST).is_file():
                _unpack(fetch(), place)
            checksum = hashlib.sha256((place / MANIFEST).read_bytes()).hexdigest()
    except OSError as error:
        raise storage_error(place, error) from error
    if checksum != digest:
        raise DigestMismatch(
            f"the bundle {place} on {platform.node()} is not the one that the run was started with",
            fix="remove this folder, and give the same command again",
            value=str(place),
        )
    return place


def _unpack(files: BundleFiles, place: Path) -> None:
    folder, handle = begun(place, folder=True)
    try:
        for name, data in files.items():
            (folder / name).write_bytes(data)
        folder.rename(place)
        remove_abandoned(place)
    finally:
        if handle is not None:
            os.close(handle)
        shutil.rmtree(folder, ignore_errors=True)


# What a worker must have in common with the driver, or it would make other bytes, or put them elsewhere.

DECIDE = ("nonneg", "numpy", "onnxruntime", "pillow", "cykooz-resizer", "pyarrow")  # what bytes depend on


def versions() -> dict[str, str | None]:
    """Return the versions of what the bytes of a shard depend on; None for what is not installed."""
    return {name: _version(name) for name in DECIDE}


def check_versions(expected: Mapping[str, str | None]) -> None:
    """Refuse a machine whose packages would give other bytes."""
    here = versions()
    differing = [f"{name} {here[name]}, not {number}" for name, number in expected.items() if here[name] != number]
    if differing:
        raise ConfigInvalid(
            f"a worker on {platform.node()} has {', '.join(differing)}",
            fix="install the same versions on every machine, with the same constraints.txt",
        )


def check_model(model: Model, expected: Model) -> None:
    """Refuse a bundle that is not the driver's."""
    if model.fingerprint != expected.fingerprint:
        raise ConfigInvalid(
            f"a worker's model has the fingerprint {model.fingerprint}, not {expected.fingerprint}",
            fix="remove the folder nonneg/bundles in that machine's cache",
        )


def check_target(target: Address, begun: Mapping[str, Any] | None) -> None:
    """Refuse a folder that is not the driver's, but one of the same name on this machine's own disk."""
    if target.here and read_job(target) != begun:
        raise not_shared(target, f"on {platform.node()} it does not hold the {JOB} of this run")


def not_shared(target: Address, reason: str) -> ConfigInvalid:
    """Make the error of a target that is not the same folder on every machine."""
    return ConfigInvalid(
        f"{target} is not one folder for all machines of the cluster: {reason}",
        fix="write to a disk that all of them share, or to a store such as s3://bucket/folder",
        field="out",
        value=str(target),
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


# What runs on a cluster's machines: tasks that list, workers that make shards, and an actor that all of them query.
#
# An error of ours goes on as a row, from where it was raised to the driver: raised through Ray it would arrive as a
# part of a text.

RayRow = dict[str, Any]
# Workers that may end while they make one group. A machine that is lost is not the group's fault; a group that ends
# every worker would be tried for ever, since Ray itself is given no limit.
TRIES = 8


@dataclass(frozen=True)
class Expected:
    """What every worker must have: versions, and the bundle by content."""

    versions: Mapping[str, str | None]
    digest: str
    desk: "RunState | RemoteRunState"
    threads: int
    begun: Mapping[str, Any] | None = None  # what the target says that this run is


class RunState:
    """An actor without a core: hands out the bundle, counts what is listed and how often a group was begun.

    It counts by piece, so that a task that runs twice counts once.
    """

    def __init__(self) -> None:
        self._bundle: BundleFiles = {}
        self._loose = 0
        self._containers: int | None = None  # once all pieces are listed
        self._within: dict[str, int] = {}
        self._begun: dict[str, int] = {}

    def keep(self, bundle: BundleFiles) -> None:
        """Take the bundle's files."""
        self._bundle = bundle

    def bundle(self) -> BundleFiles:
        """Return the bundle's files."""
        return self._bundle

    def pieces(self, loose: int, containers: int) -> None:
        """Note that all pieces are listed."""
        self._loose, self._containers = loose, containers

    def opened(self, container: str, images: int) -> None:
        """Note that a container is listed."""
        self._within[container] = images

    def begun(self, group: str) -> int:
        """Note that a worker begins a group; how often that was so without an end."""
        self._begun[group] = self._begun.get(group, 0) + 1
        return self._begun[group]

    def ended(self, group: str) -> None:
        """Note that a worker lived through a group."""
        self._begun.pop(group, None)

    def total(self) -> int | None:
        """Return all images, once they are known."""
        if self._containers is None or len(self._within) < self._containers:
            return None
        return self._loose + sum(self._within.values())


class RemoteRunState:
    """The desk, wherever it is: each method asks the actor."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def keep(self, bundle: BundleFiles) -> None:
        self._answer(self._actor.keep.remote(bundle))

    def bundle(self) -> BundleFiles:
        files: BundleFiles = self._answer(self._actor.bundle.remote())
        return files

    def pieces(self, loose: int, containers: int) -> None:
        self._actor.pieces.remote(loose, containers)

    def opened(self, container: str, images: int) -> None:
        self._actor.opened.remote(container, images)

    def begun(self, group: str) -> int:
        return int(self._answer(self._actor.begun.remote(group)))

    def ended(self, group: str) -> None:
        self._actor.ended.remote(group)

    def total(self) -> int | None:
        count: int | None = self._answer(self._actor.total.remote(), timeout=1)
        return count

    def _answer(self, reference: Any, timeout: float | None = None) -> Any:
        ray: Any = import_module("ray")
        return ray.get(reference, timeout=timeout)


def list_pieces(_: RayRow, *, sources: Sources, desk: RunState | RemoteRunState) -> Iterator[RayRow]:
    """Yield a row for each piece, as it is found; the last one is an error if there was one."""
    loose = containers = 0
    try:
        for piece in pieces(sources):
            loose += len(piece.ids) if isinstance(piece, ImageGroup) else 0
            containers += not isinstance(piece, ImageGroup)
            yield {"piece": pickle.dumps(piece)}
    except NonnegError as error:
        yield {"piece": pickle.dumps(error)}
    desk.pieces(loose, containers)


def open_piece(row: RayRow, *, sources: Sources, desk: RunState | RemoteRunState) -> Iterator[RayRow]:
    """Yield a row for each group of a piece; the last one is an error if there was one."""
    piece: Piece | NonnegError = pickle.loads(row["piece"])
    if isinstance(piece, NonnegError):
        yield {"group": row["piece"]}
        return
    images = 0
    try:
        for group in groups_of(piece, sources):
            images += len(group.ids)
            yield {"group": pickle.dumps(group)}
    except NonnegError as error:
        yield {"group": pickle.dumps(error)}
    if not isinstance(piece, ImageGroup):
        desk.opened(piece.id, images)


class Worker:
    """An actor: opens the bundle with its first group, if it and the versions are the driver's, and makes shards."""

    def __init__(self, job: ShardJob, expected: Expected) -> None:
        self._job, self._expected = job, expected
        self._writer: ShardWriter | None = None

    def __call__(self, batch: Mapping[str, Any]) -> RayRow:
        return {"made": [pickle.dumps(self._made(pickle.loads(group))) for group in batch["group"]]}

    def _made(self, group: ImageGroup | NonnegError) -> MadeShard | NonnegError:
        if isinstance(group, NonnegError):
            return group
        begun = self._expected.desk.begun(group.name)
        if begun > TRIES:
            return _given_up(group)
        try:
            self._writer = self._writer or self._opened()
            return self._writer.ensure(group)
        except NonnegError as error:
            return error
        finally:
            self._expected.desk.ended(group.name)

    def _opened(self) -> ShardWriter:
        check_versions(self._expected.versions)
        check_target(self._job.target, self._expected.begun)
        folder = unpacked(self._expected.digest, self._expected.desk.bundle)
        embedder = local(str(folder), self._expected.threads, self._job.provider)
        check_model(embedder.model(), self._job.model)
        return ShardWriter(self._job, embedder)


def _given_up(group: ImageGroup) -> NonnegError:
    first, last = group.ids[0], group.ids[-1]
    return DataInvalid(
        f"the {len(group.ids)} images from {first} to {last} (group {group.name}) ended their worker {TRIES} times",
        fix="embed them on their own to see why. Where memory is the reason, pass fewer --workers; else take out the "
        "image that does it. The same command goes on",
        value=group.name,
    )
