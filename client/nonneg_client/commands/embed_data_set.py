"""`nonneg embed SOURCES -o FOLDER`: images of any number into a data set of shards, here or on a Ray cluster."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nonneg_client.commands.embedder_options import DEFAULT_BUNDLE, Command
from nonneg_core.terminal.tables import printable

if TYPE_CHECKING:
    from nonneg_client.bulk.data_set_run import EmbeddingRun, ShardRunner
    from nonneg_client.bulk.file_run import Kind
    from nonneg_client.bulk.listing import Sources
    from nonneg_client.commands.embedder_options import EmbedderOptions
    from nonneg_client.wire.protocol import Options
    from nonneg_vectors.storage.data_set_files import DataSetManifest

SHARD = 500  # images of a shard, if nothing else is asked for
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
class DataSetRun:
    """What is asked for."""

    names: tuple[str, ...]
    out: str
    options: Options
    downscale: int | None
    shard_size: int | None
    kind: Kind
    quiet: bool
    how: DataSetOptions

    def run(self, through: EmbedderOptions, root: Path | None) -> int:
        """Embed what is missing, or say what that would take; return the number of failed images."""
        if self.kind == "update" or root is not None:
            raise click.UsageError("--root and --update are for files of vectors, not for data sets")
        return report_dry_run(self, through) if self.how.dry_run else into_data_set(self, through)

    @property
    def sources(self) -> Sources:
        """What is to be listed."""
        from nonneg_client.bulk.listing import Sources

        return Sources(self.names, self.shard_size or SHARD, self.how.column, self.how.id_column)


def is_data_set(out: str) -> bool:
    """Return whether a target's name means a folder of shards: an address, a folder, or a name without a suffix."""
    return "://" in out or out.endswith("/") or not Path(out).suffix or Path(out).is_dir()


def into_data_set(run: DataSetRun, through: EmbedderOptions) -> int:
    """Embed what is missing; return the number of failed images."""
    from nonneg_core.process.long_runs import Interrupted, Interrupts

    with ExitStack() as stack:
        runner, embedding = _opened(stack, run, through)
        try:
            with Interrupts():
                manifest = embedding.through(runner, replace=run.kind == "replace")
        except Interrupted as interrupted:
            click.echo(
                f"{interrupted}: what is finished stays in {run.out}; the same command "
                f"{'without --replace ' * (run.kind == 'replace')}goes on",
                err=True,
            )
            raise SystemExit(interrupted.exit_code) from None
    return _told(run, manifest)


def report_dry_run(run: DataSetRun, through: EmbedderOptions) -> int:
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


def _opened(stack: ExitStack, run: DataSetRun, through: EmbedderOptions) -> tuple[ShardRunner, EmbeddingRun]:
    """Return what does the work, and the run that it is for."""
    from nonneg_client.bulk.data_set_run import EmbeddingRun, InProcess
    from nonneg_client.bulk.shard_job import ShardJob
    from nonneg_client.embedder import local
    from nonneg_vectors.storage.addresses import Address

    target = Address.of(run.out)
    runner: Any
    if run.how.ray is None:
        embedder = stack.enter_context(through.opened())
        model, runner = embedder.model(run.options.model), InProcess(embedder)
    else:
        from nonneg_client.bulk.on_ray import OnRay, WorkerShape

        with local(_named(through), 1) as embedder:
            model = embedder.model(run.options.model)
        shape = WorkerShape(run.how.workers, run.how.worker_threads or 1, run.how.worker_gpus)
        runner = stack.enter_context(OnRay(run.how.ray, _named(through), shape))
    provider = None if run.how.worker_gpus is None else "cuda"
    job = ShardJob(target, run.options, model, run.downscale, retry_failed=run.kind == "retry", provider=provider)
    return runner, EmbeddingRun(run.sources, job, run.quiet)


def _named(through: EmbedderOptions) -> str | None:
    return None if through.bundle in (None, DEFAULT_BUNDLE) else through.bundle


def _told(run: DataSetRun, manifest: DataSetManifest) -> int:
    """Say what was written and what was not."""
    from itertools import islice

    from nonneg_vectors.storage.addresses import Address
    from nonneg_vectors.storage.data_set_files import FAILED, read_failed

    click.echo(f"{run.out}: {manifest}")
    failed = manifest.total("failed")
    for reason in islice(read_failed(Address.of(run.out), manifest.shards), SHOWN):
        click.echo(printable(f"failed {reason['id']}: {reason['message']}"), err=True)
    if failed:
        click.echo(f"{failed} failed, listed in {Address.of(run.out) / FAILED}; --retry-failed tries again", err=True)
    return failed
