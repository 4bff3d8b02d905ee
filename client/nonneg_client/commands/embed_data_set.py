"""`nonneg embed SOURCES -o FOLDER`: images of any number into a data set of shards, here or on a Ray cluster."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, fields
from functools import partial, wraps
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nonneg_client.commands.embedder_options import DEFAULT_BUNDLE, Command, EmbedderOptions
from nonneg_core.terminal.tables import printable

if TYPE_CHECKING:
    from nonneg_client.bulk.data_set_run import EmbeddingRun, RunTarget, ShardRunner
    from nonneg_client.bulk.file_run import Kind
    from nonneg_client.bulk.listing import Sources
    from nonneg_client.wire.protocol import Options

SHARD, SHARD_OF_A_FILE = 500, 2000  # images, if nothing else is asked for
SHOWN = 20  # failures that are printed


@dataclass(frozen=True)
class DataSetOptions:
    """How a data set is made, and of which columns; without `ray` in this process."""

    column: str | None
    id_column: str | None
    ray: str | None
    workers: int | None
    worker_threads: int | None
    worker_gpus: float | None
    dry_run: bool

    def meant(self, out: str | None) -> bool:
        """Return whether a data set is to be made; options that only fit one are refused for a file of vectors."""
        if self.ray is None and any(
            option is not None for option in (self.workers, self.worker_threads, self.worker_gpus)
        ):
            raise click.UsageError("--workers, --worker-threads and --worker-gpus say how --ray works: pass it too")
        if self.ray is not None and Path(self.ray).exists():
            raise click.UsageError(f"--ray took {self.ray!r} for its address: put --ray last, or write --ray=local")
        meant = out is not None and is_data_set(out)
        if not meant and (self.ray or self.dry_run):
            raise click.UsageError("--ray and --dry-run are for data sets: name a folder with --out")
        return meant


def for_data_sets(command: Command) -> Command:
    """Add the options of data sets; the command gets what they say as `data_set`."""
    names = [field.name for field in fields(DataSetOptions)]

    @wraps(command)
    def wrapped(*args: Any, **rest: Any) -> Any:
        return command(*args, data_set=DataSetOptions(**{name: rest.pop(name) for name in names}), **rest)

    for option in (
        click.option("--dry-run", is_flag=True, help="List, try 200 images, and say what a data set would take."),
        click.option(
            "--worker-gpus",
            type=click.FloatRange(0, 1, min_open=True),
            help="With --ray: compute on GPUs (CUDA); 1 for each worker, .5 where two share one.",
        ),
        click.option("--worker-threads", type=click.IntRange(min=1), help="With --ray: cores of a worker; 1."),
        click.option("--workers", type=click.IntRange(min=1), help="With --ray: how many; as many as there are cores."),
        click.option(
            "--ray",
            is_flag=False,
            flag_value="local",
            metavar="[ADDRESS]",
            help="Make a data set on a Ray cluster: `auto` or host:port; without an address on this machine's cores.",
        ),
        click.option("--id-column", help="Column of ids in Parquet files; without it rows are numbered."),
        click.option("--column", help="Column of images in Parquet files; folders are searched for such files too."),
    ):
        wrapped = option(wrapped)
    return wrapped


@dataclass(frozen=True)
class BulkRun:
    """What is asked for."""

    names: tuple[str, ...]
    out: str
    options: Options
    downscale: int | None
    shard_size: int | None
    kind: Kind
    quiet: bool
    in_flight: int
    batch_size: int
    how: DataSetOptions
    root: Path | None  # of a file of vectors; None for a data set

    @property
    def sources(self) -> Sources:
        """What is to be listed."""
        from nonneg_client.bulk.listing import Sources

        if self.root is None:
            return Sources(self.names, self.shard_size or SHARD, self.how.column, self.how.id_column)
        size = self.shard_size or SHARD_OF_A_FILE
        return Sources(self.names, size, self.how.column, self.how.id_column, str(self.root), apart=False)


def is_data_set(out: str) -> bool:
    """Return whether a target's name means a folder of shards: an address, a folder, or a name without a suffix."""
    return "://" in out or out.endswith("/") or not Path(out).suffix or Path(out).is_dir()


def into_target(run: BulkRun, through: EmbedderOptions) -> int:
    """Embed what is missing; return the number of failed images."""
    from nonneg_client.bulk.data_set_run import DataSet
    from nonneg_client.bulk.file_run import VectorFile
    from nonneg_core.process.long_runs import Interrupted, Interrupts
    from nonneg_vectors.storage.addresses import Address

    interrupts = Interrupts()
    target: RunTarget = DataSet(Address.of(run.out))
    if run.root is not None:
        target = VectorFile(Path(run.out), run.root, run.kind, interrupts.deferred, partial(click.echo, err=True))
    with ExitStack() as stack:
        runner, embedding = _opened(stack, run, target, through)
        try:
            with interrupts:
                result = embedding.through(runner, replace=run.kind == "replace")
        except Interrupted as interrupted:
            goes_on = f"; the same command {'without --replace ' * (run.kind == 'replace')}goes on"
            remains = target.remains()
            click.echo(f"{interrupted}: {remains + goes_on if remains else 'nothing was embedded yet'}", err=True)
            raise SystemExit(interrupted.exit_code) from None
    click.echo(f"{run.out}: {result.summary}")
    for reason in islice(result.reasons, SHOWN):
        click.echo(printable(f"failed {reason['id']}: {reason['message']}"), err=True)
    if result.failed:
        click.echo(f"{result.failed} failed, listed in {result.listed_in}; --retry-failed tries them again", err=True)
    return result.failed


def report_dry_run(run: BulkRun, through: EmbedderOptions) -> int:
    """List everything, try some, and print what the run would take; nothing fails by it."""
    from nonneg_client.bulk.listing import groups
    from nonneg_client.bulk.shard_job import estimate
    from nonneg_client.embedder import local
    from nonneg_core.process.cores_and_allocator import available_cores

    if run.how.ray is None and through.bundle is None:
        raise click.UsageError("--dry-run tries a bundle in this process: name it by --bundle, or pass --ray")
    with local(_named(through), 1) as embedder:
        forecast = estimate(groups(run.sources), embedder, run.options, downscale=run.downscale)
    click.echo(forecast.summary((run.how.workers or 0) * (run.how.worker_threads or 1) or available_cores()))
    return 0


def _opened(
    stack: ExitStack, run: BulkRun, target: RunTarget, through: EmbedderOptions
) -> tuple[ShardRunner, EmbeddingRun]:
    """Return what does the work, and the run that it is for."""
    from nonneg_client.bulk.data_set_run import EmbeddingRun, InProcess
    from nonneg_client.bulk.shard_job import ShardJob
    from nonneg_client.embedder import local
    from nonneg_core.terminal.progress import ProgressBar

    bar = ProgressBar("embedding", shown=False if run.quiet else None, lines=True)
    runner: Any
    if run.how.ray is None:
        embedder = stack.enter_context(through.opened(in_flight=run.in_flight, batch_size=run.batch_size))
        model, runner = embedder.model(run.options.model), InProcess(embedder, target, bar)
    else:
        from nonneg_client.bulk.on_ray import OnRay, WorkerShape

        with local(_named(through), 1) as embedder:
            model = embedder.model(run.options.model)
        shape = WorkerShape(run.how.workers, run.how.worker_threads or 1, run.how.worker_gpus)
        runner = stack.enter_context(OnRay(run.how.ray, _named(through), shape))
    provider = None if run.how.worker_gpus is None else "cuda"
    job = ShardJob(target.place, run.options, model, run.downscale, retry_failed=run.kind == "retry", provider=provider)
    return runner, EmbeddingRun(run.sources, job, target, bar)


def _named(through: EmbedderOptions) -> str | None:
    return None if through.bundle in (None, DEFAULT_BUNDLE) else through.bundle
