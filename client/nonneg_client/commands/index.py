"""`nonneg index`: images or files of vectors -> an index; or, with --engine, into an engine that runs elsewhere."""

from __future__ import annotations

import time
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from nonneg_client.commands.embedder_options import Command, EmbedderOptions, embeds, served_model

if TYPE_CHECKING:
    from nonneg_client.engines.engine_upload import Part, StoreCounts, StoredForm

ALONE = ("attributes", "root", "like", "retry", "prune", "model")  # options that fit no engine that runs elsewhere
ENGINES = ("qdrant", "pgvector")


def for_engines(command: Command) -> Command:
    """Add --engine; with it vectors go to a server, and the command's own work is not done."""

    @wraps(command)
    def wrapped(*args: Any, engine: str | None, **rest: Any) -> Any:
        if engine is None:
            return command(*args, **rest)
        from nonneg_client.engines.engine_upload import StoredForm

        for name in ALONE:
            if rest[name]:
                flag = "retry-failed" if name == "retry" else name
                raise click.UsageError(f"--{flag} is for an index in a folder: leave it out with --engine")
        form = StoredForm(rest["dimensions"], rest["keep"])
        return into_engine(engine, rest["sources"], str(rest["out"]), form, quiet=rest["quiet"])

    return click.option(
        "--engine",
        type=click.Choice(ENGINES),
        help="Store vectors in a server, by --url, under the name --out: files of vectors or data sets, in bulk.",
    )(wrapped)


def into_engine(engine: str, sources: tuple[str, ...], name: str, form: StoredForm, *, quiet: bool) -> None:
    """Store what is not stored yet."""
    from nonneg_client.engines.engine_upload import Journal, opened, store
    from nonneg_client.model_of_vectors import Index
    from nonneg_core.errors import DataInvalid
    from nonneg_core.process.long_runs import Interrupted, Interrupts
    from nonneg_core.terminal.progress import ProgressBar

    url = _address()
    parts = _parts(sources)
    if not parts:
        raise DataInvalid(f"{', '.join(sources)}: no vectors", fix="name files or data sets that hold some")
    journal = Journal(engine, url, name, form)
    began = time.monotonic()
    with opened(engine, url, name, form.described(parts[0].read())) as backend, Index(backend) as index:
        bar = ProgressBar("indexing", _total(sources), unit="vectors", shown=False if quiet else None, lines=True)
        try:
            with Interrupts() as interrupts, bar:
                stored = store(
                    index,
                    parts,
                    journal,
                    form,
                    report=lambda so_far: bar.move(so_far.before + so_far.new),
                    guard=interrupts.deferred,
                )
        except Interrupted as interrupted:
            click.echo(f"{interrupted}: {len(index)} vectors are in {name}; the same command goes on", err=True)
            raise SystemExit(interrupted.exit_code) from None
        click.echo(_told(name, len(index), stored, time.monotonic() - began))


def _address() -> str:
    """Return the engine's address: --url as it was typed, since its default is an embedding server's."""
    from nonneg_client.engines.engine_upload import check_url

    context = click.get_current_context()
    if context.get_parameter_source("url") is not ParameterSource.COMMANDLINE:
        raise click.UsageError("--engine needs the engine's address: pass --url, such as postgresql://host/database")
    return check_url(str(context.params["url"]))


def _parts(sources: tuple[str, ...]) -> list[Part]:
    from nonneg_client.engines.engine_upload import parts_of

    return [part for name in sources for part in parts_of(name)]


def _total(sources: tuple[str, ...]) -> int | None:
    """Return how many vectors there are, where the sources say so without being read."""
    from nonneg_vectors.storage.addresses import Address
    from nonneg_vectors.storage.data_set_files import read_manifest

    if not all("://" in name or Path(name).is_dir() for name in sources):
        return None
    return sum(read_manifest(Address.of(name)).total("vectors") for name in sources)


def _told(name: str, vectors: int, stored: StoreCounts, seconds: float) -> str:
    rate = f", {stored.new / seconds:,.0f} vectors/s" if stored.new and seconds > 1 else ""
    return f"{name}: {vectors} vectors; {stored.new} stored now{rate}, {stored.before} before"


# `nonneg index`: images or files of vectors -> an index; what has not changed is not embedded again.


@click.command()
@click.argument("sources", nargs=-1)
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="Folder of the index.")
@click.option("--dimensions", type=click.IntRange(min=1), help="Keep the first N dimensions.")
@click.option(
    "--keep",
    "--top-k",
    "keep",
    type=click.IntRange(min=1),
    help="Store each vector's N largest values; images are searched with their whole vectors.",
)
@served_model
@click.option(
    "--attributes",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="CSV",
    help="More to filter by: a column `path` (within the root) or `id`, and others such as price, brand, date.",
)
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Name images by their paths within this folder; for an index, where its images are now.",
)
@click.option(
    "--like",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="INDEX",
    help="Take images, root, attributes and --keep from another index, in place of SOURCES: for a change of model.",
)
@click.option("--retry-failed", "retry", is_flag=True, help="Try images again that could not be read and are the same.")
@click.option("--prune", is_flag=True, help="Forget what is indexed but no longer among SOURCES.")
@click.option("--quiet", is_flag=True, help="No progress bar, and no lines in its place.")
@for_engines
@embeds
def index(
    sources: tuple[str, ...],
    out: Path,
    dimensions: int | None,
    keep: int | None,
    model: str | None,
    attributes: Path | None,
    root: Path | None,
    like: Path | None,
    retry: bool,
    prune: bool,
    quiet: bool,
    through: EmbedderOptions,
) -> None:
    """Make a folder searchable.

    SOURCES are images, folders, globs, .tar files or URLs, or files that `nonneg embed` wrote. Given again, only new
    and changed images are embedded; an image is known by its path within the folder that was named first, however that
    folder is typed.

    Each image can be filtered by `folder` (the name of the folder it lies in), `bytes` and `changed`. Its pixels give
    more fields: width, height, ratio, sharpness, brightness, contrast, and dark, flat, blurred, tiny, odd_ratio (true
    or false). The columns of --attributes are fields, too: numbers, true/false, dates (2024-05-31) and text.

    \b
      nonneg index photos/ -o photos.index
      nonneg index photos/ -o photos.index --attributes products.csv
      nonneg index photos.parquet -o photos.index
      nonneg search photos.index photo.jpg --where 'price<30'
      nonneg index photos.parquet -o photos --engine pgvector --url postgresql://host/database
      nonneg index --like photos.index -o next.index --model next
    """
    from nonneg_client.commands.index_update import OtherIndex, begin
    from nonneg_core.errors import DataInvalid

    if bool(sources) == (like is not None):
        raise click.UsageError("give SOURCES or --like, one of them")
    if like is not None:
        other = OtherIndex.read(like)
        sources, root, keep = other.photos, other.root, keep or other.keep
    vectors = [name for name in sources if _is_vectors(name)]
    images = [name for name in sources if not _is_vectors(name)]
    with begin(out, images, vectors, root, attributes) as update:
        if like is not None and attributes is None:
            update.attributes = other.attributes
        if vectors:
            update.add_files(vectors, dimensions, keep)
        if images:
            update.add_images(images, dimensions, keep, model, quiet, through, retry=retry)
        if not (out / "index.json").exists():
            raise DataInvalid(f"nothing could be indexed, so {out} was not written", fix="see why each image failed")
        update.tell(prune=prune)
        update.remember_broken()
    if update.failed:
        raise SystemExit(1)


def _is_vectors(name: str) -> bool:
    from nonneg_vectors.storage.vector_files import FORMATS

    if Path(name).is_dir():
        return (Path(name) / "manifest.json").is_file()  # of a data set; hundreds of photos do not come with one
    return Path(name).suffix.lower() in FORMATS
