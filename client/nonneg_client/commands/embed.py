"""`nonneg embed`: images -> a server -> a file of vectors."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nonneg_client.commands.embed_data_set import DataSetOptions, DataSetRun, for_data_sets
from nonneg_client.commands.embedder_options import embeds, served_model
from nonneg_core.terminal.tables import printable

if TYPE_CHECKING:
    from nonneg_client.bulk.file_run import Kind
    from nonneg_client.commands.embedder_options import EmbedderOptions
    from nonneg_client.embedder import Embedder
    from nonneg_client.sources.image_sources import Item
    from nonneg_client.wire.protocol import Options
    from nonneg_vectors.storage.results import BatchResult, FailureRecord
    from nonneg_vectors.storage.vector_files import Summary

SHARD_OF_A_FILE = 2000  # images put away at once

HELP = """Embed images through a server, or with --bundle in this process.

IMAGES are files, folders, globs, .tar files or URLs; `-` reads them from standard input, one a line. Without
--out, one line of JSON is printed for each image. In the file an image's id is its path within the folder that was
named, so that the same folder typed otherwise is the same images.

A run that was interrupted, or killed, goes on where it stopped when the same command is given again: what is done
is put away every ten seconds, and on Ctrl-C and SIGTERM. An image that fails is named with its reason in
FILE.failed.jsonl, the others go on, and the exit code is 1.

\b
  nonneg embed photos/ -o photos.npz
  nonneg embed shards/*.tar -o photos.parquet --dimensions 512
  find . -name '*.jpg' | nonneg embed - -o photos.parquet
  nonneg embed photos/ -o photos.npz --update
  nonneg embed photos/ -o photos.npz --retry-failed
  nonneg embed s3://lake/photos -o s3://lake/vectors --bundle photo --ray auto
"""


@click.command(help=HELP)
@click.argument("images", nargs=-1, required=True)
@click.option(
    "-o",
    "--out",
    metavar="TARGET",
    help="File: .npz, .parquet, .safetensors, .packed or .npy. Or a folder, here or s3://..., for a data set.",
)
@click.option("--dimensions", type=click.IntRange(min=1), help="Keep the first N dimensions.")
@click.option("--top-k", type=click.IntRange(min=1), help="Of these keep each vector's N largest.")
@click.option("--normalize/--raw", default=True, show_default=True, help="Divide by the length, or not.")
@click.option("--downscale", type=click.IntRange(min=16), metavar="PIXELS", help="Shrink to this short side first.")
@served_model
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Name images by their paths within this folder, not within what IMAGES have in common.",
)
@click.option("--update", is_flag=True, help="Only what is new or changed; forget what is gone from IMAGES.")
@click.option("--retry-failed", is_flag=True, help="Only what failed last time; add it to the file.")
@click.option("--replace", is_flag=True, help="Begin again, over an existing file or an unfinished run.")
@click.option(
    "--shard-size", type=click.IntRange(min=1), help="Images put away at once: 2000, about 500 in a data set."
)
@click.option(
    "--in-flight", type=click.IntRange(min=1), default=4, show_default=True, help="Requests under way at once."
)
@click.option("--batch-size", type=click.IntRange(min=1), default=16, show_default=True, help="Images in a request.")
@click.option("--quiet", is_flag=True, help="No progress bar, and no lines in its place.")
@for_data_sets
@embeds
def embed(
    images: tuple[str, ...],
    out: str | None,
    dimensions: int | None,
    top_k: int | None,
    normalize: bool,
    downscale: int | None,
    model: str | None,
    root: Path | None,
    update: bool,
    retry_failed: bool,
    replace: bool,
    shard_size: int | None,
    in_flight: int,
    batch_size: int,
    quiet: bool,
    through: EmbedderOptions,
    data_set: DataSetOptions,
) -> None:
    """Embed images through a server, or with --bundle in this process."""
    from nonneg_client.commands.embed_update import as_before
    from nonneg_client.wire.protocol import Options

    options = Options(dimensions, top_k, normalize, model)
    kind = kind_of(update=update, retry_failed=retry_failed, replace=replace)
    if data_set.meant(out):
        data_set_run = DataSetRun(
            tuple(_named(images)), str(out), options, downscale, shard_size, kind, quiet, data_set
        )
        raise SystemExit(min(1, data_set_run.run(through, root)))
    if out is None and (kind != "new" or root is not None):
        raise click.UsageError("--root, --update, --retry-failed and --replace need a file: name it with --out")
    run = None if out is None else run_of(images, Path(out), root, kind, shard_size or SHARD_OF_A_FILE, data_set)
    if run is not None and kind in ("update", "retry"):
        options = as_before(run.out, options)
    stream = EmbedStream(options, downscale, quiet)
    with through.opened(in_flight=in_flight, batch_size=batch_size) as client:
        failed = print_lines(client, stream, images) if run is None else into_file(client, stream, run)
    if failed:
        raise SystemExit(1)


@dataclass(frozen=True)
class FileRun:
    """Which file is made, in which way, of which images in which folder."""

    names: list[str]
    out: Path
    kind: Kind
    root: Path
    shard_size: int
    column: str | None
    id_column: str | None


def run_of(
    images: tuple[str, ...], out: Path, root: Path | None, kind: Kind, shard_size: int, how: DataSetOptions
) -> FileRun:
    """Return the run that is asked for; `-` is read to its end."""
    names = list(_named(images))
    place = folder_of(names, root, out, kind, listed="-" in images)
    return FileRun(names, out, kind, place, shard_size, how.column, how.id_column)


def kind_of(*, update: bool, retry_failed: bool, replace: bool) -> Kind:
    """Return what is to happen with a file that is there."""
    if update + retry_failed + replace > 1:
        raise click.UsageError("give one of --update, --retry-failed and --replace")
    return "update" if update else "retry" if retry_failed else "replace" if replace else "new"


def folder_of(names: list[str], root: Path | None, out: Path, kind: Kind, *, listed: bool) -> Path:
    """Choose the folder within which images are named: what is asked for, the file's own, or what names share."""
    from nonneg_client.sources.rooted_images import kept_root, root_of
    from nonneg_vectors.storage.vector_files import read_record

    if root is not None:
        return root.resolve()
    origins = read_record(out) if kind in ("update", "retry") else None
    if origins is not None:
        return kept_root(origins.root, names, out)
    return Path.cwd().resolve() if listed else root_of(names)


class EmbedStream:
    """How images go through the client: what is asked for, and whether a bar is shown."""

    def __init__(self, options: Options, downscale: int | None, quiet: bool) -> None:
        self.options = options
        self._downscale = downscale
        self._quiet = quiet

    def of(self, client: Embedder, source: Iterable[Item], total: int | None = None) -> Iterator[BatchResult]:
        """Yield the answers in order, watched."""
        from contextlib import closing

        from nonneg_client.embedder import EmbeddingProgress

        parts = client.stream(source, self.options, downscale=self._downscale)
        with closing(parts), EmbeddingProgress(total, False if self._quiet else None, lines=True) as watch:
            yield from watch.over(parts)


def into_file(client: Embedder, stream: EmbedStream, run: FileRun) -> int:
    """Embed everything that an earlier, interrupted run did not; return the number of failed images."""
    from nonneg_client.bulk.file_run import BulkJob
    from nonneg_client.bulk.groups import AT_ONCE
    from nonneg_client.bulk.shard_job import read_ahead
    from nonneg_client.sources.rooted_images import rooted
    from nonneg_core.process.long_runs import Interrupted, Interrupts
    from nonneg_vectors.storage.results import read_failures
    from nonneg_vectors.storage.vector_files import Summary, load

    names, out, kind = run.names, run.out, run.kind
    with Interrupts() as interrupts, BulkJob(out, stream.options, root=run.root, kind=kind) as job:
        try:
            items = list(rooted(names, run.root, column=run.column, id_column=run.id_column))
            if not job.adopted:
                from nonneg_client.commands.embed_update import adopt

                if not adopt(job, items, names, run.root):
                    return report_written(out, Summary.of(load(out)), read_failures(out))
            elif job.done:
                click.echo(f"{out}: going on after {len(job.done)} images", err=True)
            if job.kind == "retry":
                failed = {r["id"] for r in read_failures(out)}
                items = [item for item in items if item.id in failed]
            left = list(job.left(items))
            coming = read_ahead(left, AT_ONCE) if any(item.path is None for item in left) else left
            job.write(stream.of(client, coming, len(left)), shard_size=run.shard_size, guard=interrupts.deferred)
            summary = job.finish()
        except Interrupted as interrupted:
            done = len(job.done) if job.adopted else 0
            click.echo(f"{interrupted}: {left_by_interruption(done, replace=kind == 'replace')}", err=True)
            raise SystemExit(interrupted.exit_code) from None
    return report_written(out, summary, job.reasons)


def left_by_interruption(images: int, *, replace: bool) -> str:
    """Say what an interrupted run leaves, and how it goes on."""
    if not images:
        return "nothing was embedded yet"
    return f"{images} kept; the same command {'without --replace ' if replace else ''}goes on"


def report_written(out: Path, summary: Summary, failed: list[FailureRecord]) -> int:
    """Say what was written and what was not."""
    from nonneg_vectors.storage.results import failures_of

    click.echo(f"{out}: {summary}")
    for reason in failed[:20]:
        click.echo(printable(f"failed {reason['id']}: {reason['message']}"), err=True)
    if failed:
        click.echo(f"{len(failed)} failed, listed in {failures_of(out)}; --retry-failed tries them again", err=True)
    return len(failed)


def print_lines(client: Embedder, stream: EmbedStream, images: tuple[str, ...]) -> int:
    """Print one JSON object a vector, as they come; return how many images failed."""
    from nonneg_client.sources.image_sources import items
    from nonneg_vectors.storage.results import Failure

    failed = 0
    for part in stream.of(client, items(_named(images))):
        for result in part.results:
            if isinstance(result, Failure):
                failed += 1
                click.echo(printable(f"failed {result.id}: {result.error}"), err=True)
                continue
            line = {
                "id": result.id,
                "dimensions": part.dimensions,
                "fingerprint": part.fingerprint,
                "indices": result.indices.tolist(),
                "values": [float(f"{value:.7g}") for value in result.values],
            }
            click.echo(json.dumps(line, ensure_ascii=False))
    return failed


def _named(images: tuple[str, ...]) -> Iterator[str]:
    for name in images:
        if name == "-":
            yield from (line.rstrip("\r\n") for line in sys.stdin if line.strip())
        else:
            yield name
