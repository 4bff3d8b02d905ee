"""`nonneg index`: images or files of vectors -> an index; what has not changed is not embedded again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nonneg_client.commands.connection import embeds, served_model

if TYPE_CHECKING:
    from nonneg_client.commands.connection import Through
    from nonneg_client.results import Part
    from nonneg_client.search.engine import Payload

AT_ONCE = 1000  # images added to the index


@click.command()
@click.argument("sources", nargs=-1, required=True)
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="Folder of the index.")
@click.option("--dimensions", type=click.IntRange(min=1), help="Keep the first N dimensions.")
@click.option("--top-k", type=click.IntRange(min=1), help="Of these keep each vector's N largest.")
@served_model
@click.option("--prune", is_flag=True, help="Forget what is indexed but no longer among SOURCES.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
@embeds
def index(
    sources: tuple[str, ...],
    out: Path,
    dimensions: int | None,
    top_k: int | None,
    model: str | None,
    prune: bool,
    quiet: bool,
    through: Through,
) -> None:
    """Make a folder searchable.

    SOURCES are images, folders, globs, .tar files or URLs, or files that `nonneg embed` wrote. Given again, only new
    and changed images are embedded. Each image can be filtered by `folder`, the name of the folder it lies in.

    \b
      nonneg index photos/ -o photos.index
      nonneg index photos.parquet -o photos.index
      nonneg search photos.index photo.jpg
    """
    from nonneg_core.errors import DataInvalid

    vectors = [name for name in sources if _is_vectors(name)]
    images = [name for name in sources if not _is_vectors(name)]
    seen: set[str] = set()
    failed = 0
    if vectors:
        seen |= add_files(out, vectors, dimensions, top_k)
    if images:
        found, failed = add_images(out, images, dimensions, top_k, model, quiet, through)
        seen |= found
    if not (out / "index.json").exists():
        raise DataInvalid(f"nothing could be indexed, so there is no {out}", fix="see why each image failed")
    told(out, seen if prune else None)
    if failed:
        raise SystemExit(1)


def add_files(out: Path, names: list[str], dimensions: int | None, top_k: int | None) -> set[str]:
    """Put files of vectors into the index; their ids."""
    from nonneg_client.embeddings import Embeddings
    from nonneg_client.search.index import Index

    seen: set[str] = set()
    for name in names:
        embeddings = Embeddings.load(name)
        if dimensions is not None or top_k is not None:
            embeddings = embeddings.shorten(dimensions, top_k)
        with Index.open(out, like=embeddings) as index:
            index.add(embeddings, [_folder(n) for n in embeddings.ids or ()])
        seen |= set(embeddings.ids or ())
    return seen


def add_images(
    out: Path,
    names: list[str],
    dimensions: int | None,
    top_k: int | None,
    model: str | None,
    quiet: bool,
    through: Through,
) -> tuple[set[str], int]:
    """Embed what is new or changed and put it into the index; all ids, and how many failed."""
    from nonneg_client.sources.images import items
    from nonneg_client.watch import Watch
    from nonneg_client.wire.protocol import Options

    everything = list(items(names))
    known, held = _known(out)
    _at_its_length(out, held, dimensions)
    left = [item for item in everything if known.get(item.id) is None or known[item.id] != payload_of(item.id)]
    with (
        through.opened() as client,
        Watch(len(left), False if quiet else None) as watch,
    ):
        parts = client.stream(left, Options(held or dimensions, top_k, model=model))
        failed = put(out, watch.over(parts))
    return {item.id for item in everything}, failed


def _at_its_length(out: Path, held: int | None, dimensions: int | None) -> None:
    """All vectors of an index are as long as its first: asking for others is no request to be passed over."""
    from nonneg_core.errors import ConfigInvalid

    if held is not None and dimensions not in (None, held):
        raise ConfigInvalid(
            f"{out} holds vectors of {held} dimensions, not of {dimensions}",
            fix="leave --dimensions out, or make another index with --out",
            field="dimensions",
            value=dimensions,
        )


def put(out: Path, parts: Iterable[Part]) -> int:
    """Put vectors into the index as they come, also when they end with an error; how many images failed."""
    from nonneg_client.collect import Collected, gathered
    from nonneg_client.search.index import Index
    from nonneg_core.interrupting import Interrupted, Interrupts

    failed = done = 0
    with Interrupts() as interrupts, ExitStack() as stack:
        index: Index | None = None
        try:
            for some in gathered(parts, AT_ONCE):
                with interrupts.held():
                    collected = Collected("return")
                    for part in some:
                        collected.add(part)
                    for failure in collected.failures:
                        click.echo(f"failed {failure.id}: {failure.error}", err=True)
                    failed += len(collected.failures)
                    if collected.vectors:
                        embeddings = collected.embeddings()
                        index = index or stack.enter_context(Index.open(out, like=embeddings))
                        index.add(embeddings, [payload_of(name) for name in embeddings.ids or ()])
                        done += len(embeddings)
        except Interrupted as interrupted:
            click.echo(f"{interrupted}: {done} images added to {out}; the same command goes on", err=True)
            raise SystemExit(interrupted.exit_code) from None
    return failed


def payload_of(name: str) -> dict[str, Any]:
    """What is kept beside a vector: the folder, and by what a change of the file shows."""
    path = Path(name)
    try:
        found = path.stat()
    except OSError:
        return _folder(name)
    return {**_folder(name), "bytes": found.st_size, "changed": int(found.st_mtime)}


def told(out: Path, keep: set[str] | None) -> None:
    """Forget what is not to be kept, and say what the index holds."""
    from nonneg_client.search.index import Index

    with Index.open(out) as index:
        gone = [] if keep is None else [name for name in index.engine.payloads() if name not in keep]
        index.delete(gone)
        held = index.description
        click.echo(
            f"{out}: {len(index)} images, {held.dimensions} dimensions, model {held.model} ({held.fingerprint[:8]})"
            + (f"; {len(gone)} forgotten" if gone else "")
        )


def _known(out: Path) -> tuple[Mapping[str, Payload], int | None]:
    from nonneg_client.search.index import Index

    if not (out / "index.json").exists():
        return {}, None
    with Index.open(out) as index:
        return index.engine.payloads(), index.description.dimensions


def _folder(name: str) -> dict[str, Any]:
    return {"folder": Path(name).parent.name}


def _is_vectors(name: str) -> bool:
    from nonneg_client.storage import FORMATS

    return Path(name).suffix.lower() in FORMATS and not Path(name).is_dir()
