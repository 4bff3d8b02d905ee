"""`nonneg embed`: images -> a server -> a file of vectors."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nonneg_client.commands.connection import embeds, served_model

if TYPE_CHECKING:
    from nonneg_client.commands.connection import Through
    from nonneg_client.embedder import Embedder
    from nonneg_client.failures import Reason
    from nonneg_client.results import Part
    from nonneg_client.sources.images import Item
    from nonneg_client.storage.merging import Summary
    from nonneg_client.wire.protocol import Options


@click.command()
@click.argument("images", nargs=-1, required=True)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="File: .npz, .parquet, .safetensors or .npy.")
@click.option("--dimensions", type=click.IntRange(min=1), help="Keep the first N dimensions.")
@click.option("--top-k", type=click.IntRange(min=1), help="Of these keep each vector's N largest.")
@click.option("--normalize/--raw", default=True, show_default=True, help="Divide by the length, or not.")
@click.option("--downscale", type=click.IntRange(min=16), metavar="PIXELS", help="Shrink to this short side first.")
@served_model
@click.option("--retry-failed", is_flag=True, help="Only what failed last time; add it to the file.")
@click.option("--replace", is_flag=True, help="Begin anew, over an existing file or an unfinished run.")
@click.option(
    "--shard-size", type=click.IntRange(min=1), default=2000, show_default=True, help="Images put away at once."
)
@click.option(
    "--in-flight", type=click.IntRange(min=1), default=4, show_default=True, help="Requests under way at once."
)
@click.option("--batch-size", type=click.IntRange(min=1), default=16, show_default=True, help="Images in a request.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
@embeds
def embed(
    images: tuple[str, ...],
    out: Path | None,
    dimensions: int | None,
    top_k: int | None,
    normalize: bool,
    downscale: int | None,
    model: str | None,
    retry_failed: bool,
    replace: bool,
    shard_size: int,
    in_flight: int,
    batch_size: int,
    quiet: bool,
    through: Through,
) -> None:
    """Embed images through a server, or with --bundle in this process.

    IMAGES are files, folders, globs, .tar files or URLs; `-` reads them from standard input, one a line. Without
    --out, one line of JSON is printed for each image.

    A run that was interrupted, or killed, goes on where it stopped when the same command is given again: what is done
    is put away every ten seconds, and on Ctrl-C and SIGTERM. An image that fails is named with its reason in
    FILE.failed.jsonl, the others go on, and the exit code is 1.

    \b
      nonneg embed photos/ -o photos.npz
      nonneg embed shards/*.tar -o photos.parquet --dimensions 512
      find . -name '*.jpg' | nonneg embed - -o photos.parquet
      nonneg embed photos/ -o photos.npz --retry-failed
    """
    from nonneg_client.sources.images import items
    from nonneg_client.wire.protocol import Options

    options = Options(dimensions, top_k, normalize, model)
    source = items(_named(images))
    stream = Stream(options, downscale, quiet)
    with through.opened(in_flight=in_flight, batch_size=batch_size) as client:
        if out is None:
            failed = print_lines(stream.of(client, source))
        elif retry_failed:
            failed = again(client, stream, source, out)
        else:
            failed = into_file(client, stream, source, out, replace=replace, shard_size=shard_size)
    if failed:
        raise SystemExit(1)


class Stream:
    """How images go through the client: what is asked for, and whether a bar is shown."""

    def __init__(self, options: Options, downscale: int | None, quiet: bool) -> None:
        self.options = options
        self._downscale = downscale
        self._quiet = quiet

    def of(self, client: Embedder, source: Iterable[Item], total: int | None = None) -> Iterator[Part]:
        """The answers in order, watched."""
        from contextlib import closing

        from nonneg_client.watch import Watch

        parts = client.stream(source, self.options, downscale=self._downscale)
        with closing(parts), Watch(total, False if self._quiet else None) as watch:
            yield from watch.over(parts)


def into_file(
    client: Embedder, stream: Stream, source: Iterable[Item], out: Path, *, replace: bool, shard_size: int
) -> int:
    """Embed everything that an earlier, interrupted run did not; how many images failed."""
    from nonneg_client.bulk import Job, begin_anew, finished_before
    from nonneg_client.failures import read_failures
    from nonneg_client.storage import load
    from nonneg_client.storage.merging import Summary
    from nonneg_core.interrupting import Interrupted, Interrupts

    if replace:
        begin_anew(out)
    elif finished_before(out):
        return told(out, Summary.of(load(out)), read_failures(out))
    with Interrupts() as interrupts, Job(out, stream.options, replaces=replace) as job:
        if job.done:
            click.echo(f"{out}: going on after {len(job.done)} images", err=True)
        try:
            left = list(job.left(source))
            job.write(stream.of(client, left, len(left)), shard_size=shard_size, held=interrupts.held)
            summary = job.finish()
        except Interrupted as interrupted:
            click.echo(f"{interrupted}: {kept(len(job.done), replace)}", err=True)
            raise SystemExit(interrupted.exit_code) from None
    return told(out, summary, job.reasons)


def kept(images: int, replace: bool) -> str:
    """What an interrupted run leaves, and how it goes on."""
    if not images:
        return "nothing was embedded yet"
    return f"{images} kept; the same command {'without --replace ' if replace else ''}goes on"


def again(client: Embedder, stream: Stream, source: Iterable[Item], out: Path) -> int:
    """Embed what failed last time and add it to the file; how many images failed again."""
    from nonneg_client.collect import Collected
    from nonneg_client.embeddings import Embeddings
    from nonneg_client.failures import list_failures, read_failures, reason
    from nonneg_client.storage.merging import Summary
    from nonneg_core.errors import DataInvalid

    before = {r["id"]: r for r in read_failures(out)}
    if not before:
        fix = "there is nothing to do" if out.exists() else "embed it first, without --retry-failed"
        raise DataInvalid(f"nothing is listed as failed for {out}", fix=fix)
    found = [item for item in source if item.id in before]
    collected = Collected("return")
    for part in stream.of(client, found, len(found)):
        collected.add(part)
    whole = Embeddings.load(out)
    if collected.vectors:
        whole = Embeddings.concatenate([whole, collected.embeddings()])
        whole.save(out)
    still = {failure.id: reason(failure) for failure in collected.failures}
    absent = {name: r for name, r in before.items() if name not in {item.id for item in found}}
    reasons = [*absent.values(), *still.values()]
    list_failures(out, reasons, out.parent)
    return told(out, Summary.of(whole), reasons)


def told(out: Path, summary: Summary, failed: list[Reason]) -> int:
    """Say what was written and what was not."""
    from nonneg_client.failures import failures_of

    click.echo(f"{out}: {summary}")
    for reason in failed[:20]:
        click.echo(f"failed {reason['id']}: {reason['message']}", err=True)
    if failed:
        click.echo(f"{len(failed)} failed, listed in {failures_of(out)}; --retry-failed tries them again", err=True)
    return len(failed)


def print_lines(parts: Iterable[Part]) -> int:
    """One JSON object a vector, as they come; how many images failed."""
    from nonneg_client.results import Failure

    failed = 0
    for part in parts:
        for result in part.results:
            if isinstance(result, Failure):
                failed += 1
                click.echo(f"failed {result.id}: {result.error}", err=True)
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
