"""Where a subcommand gets the vectors of labelled images: from a server, a bundle, or a file of vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from nonneg_client.commands.connection import Through
    from nonneg_client.embeddings import Embeddings
    from nonneg_client.evaluation.datasets import Labelled


def vectors_of(data: Labelled, source: Path | None, through: Through) -> Embeddings:
    """The vectors of every image that can be had; the others are named on standard error."""
    from nonneg_client.embeddings import Embeddings
    from nonneg_core.errors import DataInvalid
    from nonneg_core.image_files import named

    if source is not None:
        embeddings = Embeddings.load(source)
        wanted = {named(path) for path in data.paths}
        rows = [i for i, name in enumerate(embeddings.ids or ()) if name in wanted]
        if not rows:
            raise DataInvalid(f"{source} holds none of these images", fix="embed them by the same paths")
        absent = wanted - set(embeddings.ids or ())
        if absent:
            click.echo(f"{len(absent)} images are not in {source}, such as {min(absent)}", err=True)
        return embeddings if len(rows) == len(embeddings) else embeddings[rows]
    with through.opened() as client:
        embeddings = client.embed(data.paths, on_error="return")
    for failure in embeddings.failures:
        click.echo(f"skipped {failure.id}: {failure.error}", err=True)
    return embeddings
