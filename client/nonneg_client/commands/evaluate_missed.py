"""`nonneg evaluate --missed`: the queries without a right first hit, as a table or as a sheet with thumbnails."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from nonneg_client.embeddings import Embeddings
    from nonneg_client.evaluation.datasets import Labelled
    from nonneg_client.evaluation.missed import AskedImages
    from nonneg_client.evaluation.retrieval import LengthResult

FORMS = (".csv", ".html")


def check_form(path: Path | None) -> None:
    """Raise unless the file's suffix names a form: before anything is embedded."""
    from nonneg_core.errors import ConfigInvalid

    if path is not None and path.suffix.lower() not in FORMS:
        raise ConfigInvalid(
            f"--missed {path} is neither a table nor a sheet", fix=f"end it with {' or '.join(FORMS)}", field="missed",
            value=str(path),
        )  # fmt: skip


def write_missed(path: Path, data: Path, labelled: Labelled, embeddings: Embeddings, row: LengthResult) -> None:
    """Write the queries that were missed at one length, and say how many they are."""
    from nonneg_client.curation.collection import Collection
    from nonneg_client.curation.findings import as_csv
    from nonneg_client.curation.page import write_page
    from nonneg_client.evaluation.missed import missed
    from nonneg_core.atomic import atomic_write

    found = missed(row, asked_images(labelled, embeddings))
    if path.suffix.lower() == ".html":
        held = Collection(str(data), embeddings, [{}] * len(embeddings))
        write_page(path, f"{data}: missed at {row.length}", [found], held)
    else:
        with atomic_write(path) as temporary:
            temporary.write_text(as_csv([found]), encoding="utf-8")
    queries = len(row.report.queries)
    click.echo(f"{path}: {len(found.groups)} of {queries} queries have no right first hit at {row.length}", err=True)


def asked_images(labelled: Labelled, embeddings: Embeddings) -> AskedImages:
    """Return the gallery and the queries by their names, in the order in which they were scored."""
    from nonneg_client.evaluation.missed import AskedImages

    images = list(zip(embeddings.ids or (), labelled.kept(embeddings.ids), strict=True))
    asks = labelled.kept_asks(embeddings.ids)
    gallery = images if asks is None else [image for image, ask in zip(images, asks, strict=True) if not ask]
    queries = images if asks is None else [image for image, ask in zip(images, asks, strict=True) if ask]
    names, labels = zip(*gallery, strict=True)
    query_names, query_labels = zip(*queries, strict=True)
    return AskedImages(names, labels, query_names, query_labels)
