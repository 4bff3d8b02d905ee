"""`nonneg embed`: images -> a server -> a file of vectors."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nonneg_client.commands.embed_data_set import BulkRun, DataSetOptions, for_data_sets, into_target, report_dry_run
from nonneg_client.commands.embedder_options import EmbedderOptions, embeds, served_model
from nonneg_core.terminal.tables import json_line, printable

if TYPE_CHECKING:
    from nonneg_client.bulk.file_run import Kind
    from nonneg_client.embedder import Embedder
    from nonneg_client.wire.protocol import Options


@click.command()
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
    """Embed images through a server, or with --bundle in this process.

    IMAGES are files, folders, globs, .tar files or URLs; `-` reads them from standard input, one a line. Without
    --out, one line of JSON is printed for each image. In the file an image's id is its path within the folder that was
    named, so that the same folder typed otherwise is the same images.

    A run that was interrupted, or killed, goes on where it stopped when the same command is given again. What is done
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
    from nonneg_client.wire.protocol import Options

    options = Options(dimensions, top_k, normalize, model)
    kind = kind_of(update=update, retry_failed=retry_failed, replace=replace)
    is_set = data_set.meant(out)
    if is_set and (update or root is not None):
        raise click.UsageError("--root and --update are for files of vectors, not for data sets")
    if out is None:
        if kind != "new" or root is not None:
            raise click.UsageError("--root, --update, --retry-failed and --replace need a file: name it with --out")
        with through.opened(in_flight=in_flight, batch_size=batch_size) as client:
            if print_lines(client, _named(images), options, downscale, quiet):
                raise SystemExit(1)
        return
    names = tuple(_named(images))
    place = None if is_set else folder_of(names, root, Path(out), kind, listed="-" in images)
    if place is not None and kind in ("update", "retry"):
        from nonneg_client.bulk.file_run import as_before

        options = as_before(Path(out), options)
    run = BulkRun(names, out, options, downscale, shard_size, kind, quiet, in_flight, batch_size, data_set, place)
    if report_dry_run(run, through) if data_set.dry_run else into_target(run, through):
        raise SystemExit(1)


def kind_of(*, update: bool, retry_failed: bool, replace: bool) -> Kind:
    """Return what is to happen with a file that is there."""
    if update + retry_failed + replace > 1:
        raise click.UsageError("give one of --update, --retry-failed and --replace")
    return "update" if update else "retry" if retry_failed else "replace" if replace else "new"


def folder_of(names: Sequence[str], root: Path | None, out: Path, kind: Kind, *, listed: bool) -> Path:
    """Choose the folder within which images are named: what is asked for, the file's own, or what names share."""
    from nonneg_client.sources.rooted_images import kept_root, root_of
    from nonneg_vectors.storage.vector_files import read_record

    if root is not None:
        return root.resolve()
    origins = read_record(out) if kind in ("update", "retry") else None
    if origins is not None:
        return kept_root(origins.root, names, out)
    return Path.cwd().resolve() if listed else root_of(names)


def print_lines(client: Embedder, names: Iterator[str], options: Options, downscale: int | None, quiet: bool) -> int:
    """Print one JSON object a vector, as they come; return how many images failed."""
    from contextlib import closing

    from nonneg_client.embedder import EmbeddingProgress
    from nonneg_client.sources.image_sources import items
    from nonneg_vectors.storage.results import Failure

    failed = 0
    parts = client.stream(items(names), options, downscale=downscale)
    with closing(parts), EmbeddingProgress(None, False if quiet else None, lines=True) as watch:
        for answer, result in ((part, result) for part in watch.over(parts) for result in part.results):
            if isinstance(result, Failure):
                failed += 1
                click.echo(printable(f"failed {result.id}: {result.error}"), err=True)
                continue
            line = {
                "id": result.id,
                "dimensions": answer.dimensions,
                "fingerprint": answer.fingerprint,
                "indices": result.indices.tolist(),
                "values": [float(f"{value:.7g}") for value in result.values],
            }
            click.echo(json_line(line))
    return failed


def _named(images: tuple[str, ...]) -> Iterator[str]:
    for name in images:
        if name == "-":
            yield from (line.rstrip("\r\n") for line in sys.stdin if line.strip())
        else:
            yield name
