"""`nonneg evaluate --captions`: images and captions -> embeddings -> recall both ways at several lengths."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nonneg_client.commands.embedder_options import OF_LABELS, EmbedderOptions, refuse_options
from nonneg_core.terminal.tables import json_line, printable, table

if TYPE_CHECKING:
    from nonneg_client.embedder import Embedder
    from nonneg_vectors.evaluation.caption_retrieval import Captioned, CaptionedImage, CaptionResult
    from nonneg_vectors.evaluation.retrieval import Length
    from nonneg_vectors.storage.embeddings import Embeddings
    from nonneg_vectors.storage.results import Failure


def evaluate_captions(
    path: Path,
    lengths: list[Length] | None,
    through: EmbedderOptions,
    *,
    intervals: bool,
    truncate: bool,
    as_json: bool,
) -> None:
    """Embed both sides of a CSV of captions once, and print how often they find each other."""
    from nonneg_vectors.evaluation.caption_retrieval import check_captioned, read_pairs, recall_by_length
    from nonneg_vectors.evaluation.retrieval import check_lengths

    check_options()
    pairs = read_pairs(path)
    with through.opened() as client:
        if lengths is not None:
            check_captioned(check_lengths(lengths, client.model().dimensions))
        images, texts, of, failures = embedded(client, pairs, truncate=truncate)
    rows = recall_by_length(images, texts, of, lengths)
    records = [row.record(intervals=intervals) for row in rows]
    if as_json:
        about = {"data": str(path), "model": images.model, "fingerprint": images.fingerprint}
        counts = {"images": len(images), "captions": len(texts), "pairs": len(of.image)}
        skipped = [{"id": failure.id, "error": failure.error.body()} for failure in failures]
        click.echo(json_line({**about, **counts, "skipped": skipped, "rows": records}))
        return
    show(path, images, texts, rows, records)


def check_options() -> None:
    """Refuse the options of labelled images, which change nothing for captions."""
    if not click.get_current_context().params["captions"]:
        raise click.UsageError("--truncate goes with --captions")
    refuse_options(*OF_LABELS, reason="is for labelled images: leave it out beside --captions")


def embedded(
    client: Embedder, pairs: list[CaptionedImage], *, truncate: bool
) -> tuple[Embeddings, Embeddings, Captioned, tuple[Failure, ...]]:
    """Return the vectors of images and captions, which belong to which, and what could not be embedded."""
    from nonneg_core.files.image_files import path_text
    from nonneg_vectors.evaluation.caption_retrieval import captioned

    inputs = captioned(pairs)
    texts = client.embed(texts=inputs.captions, truncate=truncate, on_error="return")
    images = client.embed(inputs.images, on_error="return")
    failures = (*texts.failures, *images.failures)
    for failure in failures:
        click.echo(printable(f"skipped {failure.id}: {failure.error}"), err=True)
    image_ids, read = set(images.ids or ()), set(texts.ids or ())
    left = [pair for pair in pairs if path_text(pair.image) in image_ids and pair.caption in read]
    return *of_pairs(images, texts, left), failures


def of_pairs(
    images: Embeddings, texts: Embeddings, pairs: list[CaptionedImage]
) -> tuple[Embeddings, Embeddings, Captioned]:
    """Return both sides' vectors in the order of the pairs' images and captions."""
    from nonneg_core.errors import DataInvalid
    from nonneg_core.files.image_files import path_text
    from nonneg_vectors.evaluation.caption_retrieval import captioned

    if not pairs:
        raise DataInvalid("of no pair both sides could be embedded", fix="check the lines that were skipped")
    of = captioned(pairs)
    image_rows = {name: i for i, name in enumerate(images.ids or ())}
    text_rows = {name: i for i, name in enumerate(texts.ids or ())}
    return (
        images[[image_rows[path_text(path)] for path in of.images]],
        texts[[text_rows[caption] for caption in of.captions]],
        of,
    )


def show(
    path: Path, images: Embeddings, texts: Embeddings, rows: list[CaptionResult], records: list[dict[str, Any]]
) -> None:
    """Print what was measured, for people."""
    hidden = {"dimensions", "top_k", "asked", "intervals", "image nnz", "text nnz"}
    metrics = [name for name in records[0] if name not in hidden]
    click.echo(
        f"{path}: {len(texts)} captions and {len(images)} images, model {images.model} ({images.fingerprint[:8]}); "
        "R@k: a partner is among the first k"
    )
    lines: list[list[Any]] = [
        [str(row.length), *(_cell(r, metric) for metric in metrics), round(row.image_nnz), round(row.text_nnz)]
        for row, r in zip(rows, records, strict=True)
    ]
    click.echo(table(["length", *metrics, "image nnz", "text nnz"], lines))


def _cell(record: dict[str, Any], metric: str) -> Any:
    bounds = record.get("intervals", {}).get(metric)
    return record[metric] if bounds is None else f"{record[metric]:.3f} [{bounds[0]:.3f} {bounds[1]:.3f}]"
