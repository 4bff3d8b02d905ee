"""Where a subcommand gets the vectors of labelled images: from a server, a bundle, or a file of vectors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from nonneg_client.commands.embedder_options import EmbedderOptions
    from nonneg_client.embeddings import Embeddings
    from nonneg_client.evaluation.datasets import Labelled
    from nonneg_core.evaluation.lengths import Length


def vectors_of(
    data: Labelled, source: Path | None, through: EmbedderOptions, lengths: list[Length] | None = None
) -> Embeddings:
    """Return the vectors of every image that can be had; the others are named on standard error.

    lengths: to which they will be cut; one that the model has not is refused before anything is embedded.
    """
    from nonneg_client.embeddings import Embeddings
    from nonneg_client.evaluation.retrieval import check_lengths

    if source is not None:
        return of_these(Embeddings.load(source), data, source)
    with through.opened() as client:
        if lengths is not None:
            check_lengths(lengths, client.model().dimensions)
        embeddings = client.embed(data.paths, on_error="return")
    for failure in embeddings.failures:
        click.echo(f"skipped {failure.id}: {failure.error}", err=True)
    return embeddings


def of_these(embeddings: Embeddings, data: Labelled, source: Path) -> Embeddings:
    """Return the vectors of a file that belong to labelled images, under the images' own names."""
    from nonneg_core.errors import DataInvalid

    held = set(embeddings.ids or ())
    names = max(_namings(data, source), key=lambda naming: len(held & naming.keys()))
    rows = [i for i, name in enumerate(embeddings.ids or ()) if name in names]
    if not rows:
        raise DataInvalid(
            f"{source} holds none of these images", fix="embed this folder, or one that it lies in, into that file"
        )
    absent = names.keys() - held
    if absent:
        click.echo(f"{len(absent)} images are not in {source}, such as {min(absent)}", err=True)
    found = embeddings if len(rows) == len(embeddings) else embeddings[rows]
    return found.named(tuple(names[name] for name in found.ids or ()))


def _namings(data: Labelled, source: Path) -> Iterator[dict[str, str]]:
    """Yield what images may be called in a file of vectors -> what they are called here: within the root that the file
    keeps, within the labelled folder, and as typed, which is what the library's own calls name them by."""
    from nonneg_client.sources.image_ids import identity
    from nonneg_client.vector_file_record import read_record
    from nonneg_core.image_files import path_text

    origins = read_record(source)
    real = {path: Path(os.path.realpath(data.root)) / os.path.relpath(path, data.root) for path in data.paths}
    if origins is not None:
        yield {identity(real[path], Path(origins.root)): path_text(path) for path in data.paths}
    yield {path_text(Path(os.path.relpath(path, data.root))): path_text(path) for path in data.paths}
    yield {path_text(path): path_text(path) for path in data.paths}
