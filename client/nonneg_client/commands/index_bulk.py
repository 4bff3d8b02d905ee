"""`nonneg index --engine`: vectors from files and data sets into an engine that runs elsewhere."""

from __future__ import annotations

import time
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from nonneg_client.commands.embedder_options import Command

if TYPE_CHECKING:
    from nonneg_client.search.bulk import Part, StoreCounts, StoredForm

ALONE = ("attributes", "root", "retry", "prune", "model")  # options that fit no engine that runs elsewhere
ENGINES = ("qdrant", "pgvector", "opensearch", "milvus")


def for_engines(command: Command) -> Command:
    """Add --engine; with it vectors go to a server, and the command's own work is not done."""

    @wraps(command)
    def wrapped(*args: Any, engine: str | None, **rest: Any) -> Any:
        if engine is None:
            return command(*args, **rest)
        from nonneg_client.search.bulk import StoredForm

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
    from nonneg_client.search.bulk import Journal, store
    from nonneg_client.search.connectors.by_url import opened
    from nonneg_client.search.index import Index
    from nonneg_core.errors import DataInvalid
    from nonneg_core.interrupting import Interrupted, Interrupts
    from nonneg_core.progress import ProgressBar

    url = _address()
    parts = _parts(sources)
    if not parts:
        raise DataInvalid(f"{', '.join(sources)}: no vectors", fix="name files or data sets that hold some")
    journal = Journal(engine, url, name, form)
    began = time.monotonic()
    with opened(engine, url, name, form.described(parts[0].read())) as found, Index(found) as index:
        bar = ProgressBar("indexing", _total(sources), unit="vectors", shown=False if quiet else None, lines=True)
        try:
            with Interrupts() as interrupts, bar:
                stored = store(
                    index,
                    parts,
                    journal,
                    form,
                    told=lambda so_far: bar.move(so_far.before + so_far.new),
                    held=interrupts.held,
                )
        except Interrupted as interrupted:
            click.echo(f"{interrupted}: {len(index)} vectors are in {name}; the same command goes on", err=True)
            raise SystemExit(interrupted.exit_code) from None
        click.echo(_told(name, len(index), stored, time.monotonic() - began))


def _address() -> str:
    """Return the engine's address: --url as it was typed, since its default is an embedding server's."""
    from nonneg_client.search.connectors.by_url import check_url

    context = click.get_current_context()
    if context.get_parameter_source("url") is not ParameterSource.COMMANDLINE:
        raise click.UsageError("--engine needs the engine's address: pass --url, such as postgresql://host/database")
    return check_url(str(context.params["url"]))


def _parts(sources: tuple[str, ...]) -> list[Part]:
    from nonneg_client.search.bulk import parts_of

    return [part for name in sources for part in parts_of(name)]


def _total(sources: tuple[str, ...]) -> int | None:
    """Return how many vectors there are, where the sources say so without being read."""
    from nonneg_client.data_set.addresses import Address
    from nonneg_client.data_set.layout import read_manifest

    if not all("://" in name or Path(name).is_dir() for name in sources):
        return None
    return sum(read_manifest(Address.of(name)).total("vectors") for name in sources)


def _told(name: str, vectors: int, stored: StoreCounts, seconds: float) -> str:
    rate = f", {stored.new / seconds:,.0f} vectors/s" if stored.new and seconds > 1 else ""
    return f"{name}: {vectors} vectors; {stored.new} stored now{rate}, {stored.before} before"
