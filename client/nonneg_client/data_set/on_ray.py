"""Groups become shards on a Ray cluster: Ray Data lists, schedules, restarts and holds back; this file says of what.

Each worker is an actor that opens the model once. It is booked with nine tenths of the cores that it computes on:
actors that took whole cores would leave none for the tasks that list the sources, and the run would wait for ever.
What goes through the driver is a line a shard; vectors go from worker to target.

An error of ours goes on as a row, from where it was raised to the driver: raised through Ray it would arrive as a part
of a text.
"""

from __future__ import annotations

import os
import pickle
import platform
import warnings
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import Any, Self

from nonneg_client.data_set.bundle_copy import BundleFiles, digest_of, packed, unpacked
from nonneg_client.data_set.groups import ImageGroup
from nonneg_client.data_set.listing import Piece, Sources, groups_of, pieces
from nonneg_client.data_set.shard_job import MadeShard, ShardJob, ShardWriter
from nonneg_client.embedder import Model, local
from nonneg_core.cores import available_cores
from nonneg_core.errors import ConfigInvalid, ConnectionFailed, NonnegError
from nonneg_core.installing import needing

THIS_MACHINE = "local"  # the address that starts a cluster of this machine alone
BOOKED = 0.9  # of a core, for each that a worker computes on
LISTING, OPENING = 0.02, 0.03  # cores booked by the two kinds of tasks that list; two numbers, or Ray makes one of them
DECIDE = ("nonneg", "numpy", "onnxruntime", "pillow", "cykooz-resizer", "pyarrow")  # what bytes depend on

RayRow = dict[str, Any]


@dataclass(frozen=True)
class Expected:
    """What every worker must have: versions, and the bundle by content."""

    versions: Mapping[str, str | None]
    digest: str
    desk: Any  # the actor that has the bundle's files
    threads: int


class OnRay:
    """A cluster that is joined, or started on this machine."""

    def __init__(self, address: str, bundle: str | None, *, workers: int | None, threads: int) -> None:
        self._ray = import_ray()
        self._address, self._bundle = address, bundle
        self._workers, self._threads = workers, threads
        self._desk: Any = None
        self._listed: int | None = None

    def __enter__(self) -> Self:
        here = self._address == THIS_MACHINE
        shown = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": True}
        started = {"num_cpus": available_cores(), "include_dashboard": False}
        try:
            self._ray.init(self._address, ignore_reinit_error=True, **shown, **(started if here else {}))
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ConnectionFailed(
                f"no Ray cluster answers at {self._address} ({error})",
                fix=f"start it, `ray start --head`, or pass --ray {THIS_MACHINE} for this machine alone",
            ) from error
        try:
            self.workers = self._fitting()
        except BaseException:
            self._ray.shutdown()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._ray.shutdown()

    def run(self, sources: Sources, job: ShardJob) -> Generator[MadeShard, None, None]:
        """Yield the shards as they are made, in any order."""
        warnings.filterwarnings("ignore", module=r"ray\.")  # advice to who wrote the pipeline
        self._desk = self._ray.remote(num_cpus=0)(Desk).remote()
        batches = iter(self._pipeline(sources, job).iter_batches(batch_size=None, prefetch_batches=0))
        with closing(batches):  # left to Python's exit, Ray waits there for ever
            while (batch := next_of(batches)) is not None:
                for made in map(pickle.loads, batch["made"]):
                    if isinstance(made, NonnegError):
                        raise made
                    yield made

    def listed(self) -> int | None:
        """Return how many images there are, once all are listed; what is not known at once is asked again later."""
        if self._listed is None:
            with suppress(self._ray.exceptions.RayError):
                self._listed = self._ray.get(self._desk.total.remote(), timeout=1)
        return self._listed

    def _fitting(self) -> int:
        cores = self._ray.cluster_resources().get("CPU", 0)
        most = int(cores // self._threads)
        wanted = most if self._workers is None else self._workers
        if not 1 <= wanted <= most:
            raise ConfigInvalid(
                f"{wanted} workers of {self._threads} cores do not fit the cluster's {cores:g} cores",
                fix="pass fewer --workers or --worker-threads, or add machines",
                field="workers",
                value=wanted,
                limit=most,
            )
        return wanted

    def _pipeline(self, sources: Sources, job: ShardJob) -> Any:
        context = self._ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        context.issue_detectors_config.detectors = []
        context.target_max_block_size = context.target_min_block_size = 1  # each group goes to the next free worker
        expected = self._expected()
        return (
            self._ray.data.from_items([{"begin": 0}])
            .flat_map(partial(list_pieces, sources=sources, desk=self._desk), num_cpus=LISTING)
            .flat_map(partial(open_piece, sources=sources, desk=self._desk), num_cpus=OPENING)
            .map_batches(
                Worker,
                fn_constructor_args=(job, expected),
                batch_size=1,
                compute=self._ray.data.ActorPoolStrategy(size=self.workers),
                num_cpus=BOOKED * self._threads,
            )
        )

    def _expected(self) -> Expected:
        from nonneg_client.local import folder_of

        files = packed(folder_of(self._bundle))
        self._ray.get(self._desk.keep.remote(files))
        return Expected(versions(), digest_of(files), self._desk, self._threads)


def next_of(batches: Iterator[RayRow]) -> RayRow | None:
    """Return the next batch; what fails in Ray itself becomes an error of ours."""
    try:
        return next(batches, None)
    except Exception as error:  # a class for each part of Ray
        raise NonnegError(f"the run on Ray failed ({error})", fix="give the same command again: it goes on") from error


class Desk:
    """An actor without a core: hands out the bundle, and counts what is listed.

    It counts by piece, so that a task that runs twice counts once.
    """

    def __init__(self) -> None:
        self._bundle: BundleFiles = {}
        self._loose = 0
        self._containers: int | None = None  # once all pieces are listed
        self._within: dict[str, int] = {}

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

    def total(self) -> int | None:
        """Return all images, once they are known."""
        if self._containers is None or len(self._within) < self._containers:
            return None
        return self._loose + sum(self._within.values())


def list_pieces(_: RayRow, *, sources: Sources, desk: Any) -> Iterator[RayRow]:
    """Yield a row for each piece, as it is found; the last one is an error if there was one."""
    loose = containers = 0
    try:
        for piece in pieces(sources):
            loose += len(piece.ids) if isinstance(piece, ImageGroup) else 0
            containers += not isinstance(piece, ImageGroup)
            yield {"piece": pickle.dumps(piece)}
    except NonnegError as error:
        yield {"piece": pickle.dumps(error)}
    desk.pieces.remote(loose, containers)


def open_piece(row: RayRow, *, sources: Sources, desk: Any) -> Iterator[RayRow]:
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
        desk.opened.remote(piece.id, images)


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
        try:
            self._writer = self._writer or self._opened()
            return self._writer.ensure(group)
        except NonnegError as error:
            return error

    def _opened(self) -> ShardWriter:
        ray: Any = import_module("ray")
        check_versions(self._expected.versions)
        folder = unpacked(self._expected.digest, lambda: ray.get(self._expected.desk.bundle.remote()))
        embedder = local(str(folder), self._expected.threads)
        check_model(embedder.model(), self._job.model)
        return ShardWriter(self._job, embedder)


def versions() -> dict[str, str | None]:
    """Return the versions of what the bytes of a shard depend on; None for what is not installed."""
    return {name: _version(name) for name in DECIDE}


def check_versions(expected: Mapping[str, str | None]) -> None:
    """Refuse a machine whose packages would give other bytes."""
    here = versions()
    differing = [f"{name} {here[name]}, not {wanted}" for name, wanted in expected.items() if here[name] != wanted]
    if differing:
        raise ConfigInvalid(
            f"a worker on {platform.node()} has {', '.join(differing)}",
            fix="install the same versions on every machine, with the same constraints.txt",
        )


def check_model(found: Model, expected: Model) -> None:
    """Refuse a bundle that is not the driver's."""
    if found.fingerprint != expected.fingerprint:
        raise ConfigInvalid(
            f"a worker's model has the fingerprint {found.fingerprint}, not {expected.fingerprint}",
            fix="remove the folder nonneg/bundles in that machine's cache",
        )


def import_ray() -> Any:
    """Return the package with its data part; MissingExtra where it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it reports to its makers otherwise
    os.environ.setdefault("RAY_DATA_LOG_LEVEL", "ERROR")  # it speaks of itself otherwise
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # errors that matter come as exceptions
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or it warns of a change to come
    with needing("--ray", extra="ray"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray = import_module("ray")
        import_module("ray.data")
    return ray


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
