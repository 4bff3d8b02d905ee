"""Groups become shards on a Ray cluster: Ray Data lists, schedules, restarts and holds back; this file says of what.

Each worker is an actor that opens the model once. It is booked with nine tenths of the cores that it computes on.
Actors that took whole cores would leave none for the tasks that list the sources, and the run would wait for ever.
What goes through the driver is a line a shard; vectors go from worker to target.
"""

import os
import pickle
import sys
import tempfile
import warnings
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, chdir, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from types import TracebackType
from typing import Any, Self

from nonneg_client.bulk import ray_tasks
from nonneg_client.bulk.listing import Sources
from nonneg_client.bulk.shard_job import MadeShard, ShardJob
from nonneg_core.errors import ConfigInvalid, ConnectionFailed, NonnegError
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_core.process.python_child import PLACE
from nonneg_core.terminal.installing import needing
from nonneg_vectors.storage.addresses import Address
from nonneg_vectors.storage.data_set_files import is_there, read_job

STANDARD_ERROR = 2


@contextmanager
def without_line(known: str) -> Iterator[None]:
    """Hold back standard error of the whole process, and pass on at the end what does not contain `known`."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as buffer:
        before = os.dup(STANDARD_ERROR)
        os.dup2(buffer.fileno(), STANDARD_ERROR)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(before, STANDARD_ERROR)
            os.close(before)
            buffer.seek(0)
            for line in buffer:
                if known.encode() not in line:
                    os.write(STANDARD_ERROR, line)


THIS_MACHINE = "local"  # the address that starts a cluster of this machine alone
LOG_LEVEL = "RAY_BACKEND_LOG_LEVEL"


@contextmanager
def joined(address: str) -> Iterator[Any]:
    """Join the cluster at an address, or start one on this machine; give the package `ray`, connected."""
    ray = import_ray()
    shown = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": True}
    started = {"num_cpus": available_cores(), "include_dashboard": False} if address == THIS_MACHINE else {}
    try:
        # Ray says a line of the variable that keeps it silent; its workers look for modules first where it is called
        with without_line(LOG_LEVEL), chdir(PLACE):
            ray.init(address, ignore_reinit_error=True, **shown, **started)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ConnectionFailed(
            f"no Ray cluster answers at {address} ({error})",
            fix=f"start it, `ray start --head`, or name {THIS_MACHINE} for this machine alone",
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def import_ray() -> Any:
    """Return the package with its data part; MissingExtra where it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it reports to its makers otherwise
    os.environ.setdefault("RAY_DATA_LOG_LEVEL", "ERROR")  # it speaks of itself otherwise
    os.environ.setdefault(LOG_LEVEL, "fatal")  # errors that matter come as exceptions
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")  # each lost worker takes a paragraph on standard output
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or it warns of a change to come
    with needing("a Ray cluster", extra="ray"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray = import_module("ray")
        import_module("ray.data")
    return ray


BOOKED = 0.9  # of a core, for each that a worker computes on
LISTING, OPENING = 0.02, 0.03  # cores booked by the two kinds of tasks that list; two numbers, or Ray makes one of them


@dataclass(frozen=True)
class WorkerShape:
    """How many workers, by default as many as fit, and what each computes on."""

    number: int | None = None
    threads: int = 1
    gpus: float | None = None  # of one, less where workers share it

    def fitting(self, resources: Mapping[str, float]) -> int:
        """Return how many workers a cluster gets; a typed error where these do not fit."""
        cores, gpus = resources.get("CPU", 0), resources.get("GPU", 0)
        most = int(cores // self.threads)
        if self.gpus is not None:
            most = min(most, int(gpus / self.gpus + 1e-6))
        workers = most if self.number is None else self.number
        if not 1 <= workers <= most:
            each, there = f"{self.threads} cores", f"{cores:g} cores"
            if self.gpus is not None:
                each, there = f"{each} and {self.gpus:g} GPUs", f"{there} and {gpus:g} GPUs"
            raise ConfigInvalid(
                f"{workers} workers of {each} do not fit the cluster's {there}",
                fix="pass fewer --workers, less --worker-threads or --worker-gpus, or add machines",
                field="workers",
                value=workers,
                limit=most,
            )
        return workers


class OnRay:
    """A cluster that is joined, or started on this machine."""

    def __init__(self, address: str, bundle: str | None, shape: WorkerShape) -> None:
        self._ray: Any = None  # until the cluster is joined
        self._address, self._bundle = address, bundle
        self._shape = shape
        self._desk: ray_tasks.RemoteRunState | None = None
        self._listed: int | None = None

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            self._ray = opening.enter_context(joined(self._address))
            self.workers = self._shape.fitting(self._ray.cluster_resources())
            self._joined = opening.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._joined.close()

    def run(self, sources: Sources, job: ShardJob) -> Generator[MadeShard, None, None]:
        """Yield the shards as they are made, in any order."""
        absolute = tuple(str(Address.of(name)) for name in sources.names)  # workers have other current folders
        sources = replace(sources, names=absolute)
        warnings.filterwarnings("ignore", module=r"ray\.")  # advice to who wrote the pipeline
        self._desk = desk = ray_tasks.RemoteRunState(self._ray.remote(num_cpus=0)(ray_tasks.RunState).remote())
        batches = iter(self._pipeline(sources, job, desk).iter_batches(batch_size=None, prefetch_batches=0))
        with closing(batches):  # left to Python's exit, Ray waits there for ever
            while (batch := next_of(batches)) is not None:
                for made in map(pickle.loads, batch["made"]):
                    if isinstance(made, NonnegError):
                        raise made
                    check_seen(job.target, made)
                    yield made

    def listed(self) -> int | None:
        """Return how many images there are, once all are listed; what is not known at once is asked again later."""
        if self._listed is None and self._desk is not None:
            with suppress(self._ray.exceptions.RayError):
                self._listed = self._desk.total()
        return self._listed

    def _pipeline(self, sources: Sources, job: ShardJob, desk: ray_tasks.RemoteRunState) -> Any:
        context = self._ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        context.issue_detectors_config.detectors = []
        context.target_max_block_size = context.target_min_block_size = 1  # each group goes to the next free worker
        expected = self._expected(job, desk)
        booked = {"num_cpus": BOOKED * self._shape.threads}
        if self._shape.gpus is not None:
            booked["num_gpus"] = self._shape.gpus
        return (
            self._ray.data.from_items([{"begin": 0}])
            .flat_map(partial(ray_tasks.list_pieces, sources=sources, desk=desk), num_cpus=LISTING)
            .flat_map(partial(ray_tasks.open_piece, sources=sources, desk=desk), num_cpus=OPENING)
            .map_batches(
                ray_tasks.Worker,
                fn_constructor_args=(job, expected),
                batch_size=1,
                compute=self._ray.data.ActorPoolStrategy(size=self.workers),
                **booked,
            )
        )

    def _expected(self, job: ShardJob, desk: ray_tasks.RemoteRunState) -> ray_tasks.Expected:
        from nonneg_client.local import folder_of

        files = ray_tasks.packed(folder_of(self._bundle))
        desk.keep(files)
        return ray_tasks.Expected(
            ray_tasks.versions(), ray_tasks.digest_of(files), desk, self._shape.threads, read_job(job.target)
        )


def check_seen(target: Address, made: MadeShard) -> None:
    """Refuse a shard that a worker wrote to a disk of its own."""
    if target.here and not is_there(target, made.shard):
        raise ray_tasks.not_shared(target, f"the shard {made.shard.name} that a worker has made is not here")


def next_of(batches: Iterator[ray_tasks.RayRow]) -> ray_tasks.RayRow | None:
    """Return the next batch; what fails in Ray itself becomes an error of ours."""
    try:
        return next(batches, None)
    except Exception as error:  # a class for each part of Ray
        raise NonnegError(f"the run on Ray failed ({error})", fix="give the same command again: it goes on") from error
