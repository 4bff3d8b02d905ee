"""`nonneg evaluate`: labelled images -> embeddings -> retrieval at several lengths."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nonneg_client.commands.embedder_options import EmbedderOptions, embeds, read_lengths
from nonneg_core.terminal.tables import json_line, printable, table

if TYPE_CHECKING:
    from nonneg_vectors.evaluation.labelled_images import Labelled
    from nonneg_vectors.evaluation.retrieval import Length, LengthResult
    from nonneg_vectors.storage.embeddings import Embeddings

_HIDDEN = {"selection", "dimensions", "top_k", "asked", "sparse_bytes", "dense_bytes", "intervals"}


@click.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "--lengths",
    callback=read_lengths,
    metavar="N,N:M,…",
    help="Dimensions; N:M keeps the M largest of N, N/M of what is stored alone, N/M+ re-ranks.",
)
@click.option("--k", type=click.IntRange(min=1), default=100, show_default=True, help="The k of mAP, recall, nDCG.")
@click.option("--vectors", type=click.Path(path_type=Path), help="Use this file of vectors instead of a server.")
@click.option(
    "--selections", metavar="NAME,…", default="prefix", show_default=True, help="prefix,activation,random,variance,pca."
)
@click.option("--intervals", is_flag=True, help="Add 95 % intervals (bootstrap over queries).")
@click.option("--probe", "with_probe", is_flag=True, help="Add a linear probe: half the images teach, half are asked.")
@click.option("--plot", "picture", type=click.Path(path_type=Path), help="Draw mAP over length (.png, .svg, .pdf).")
@click.option("--save-vectors", "vector_file", type=click.Path(path_type=Path), help="Keep the vectors in this file.")
@click.option(
    "--missed",
    type=click.Path(path_type=Path),
    help="Write the queries whose first hit has another label, and what took its place (.csv, .html).",
)
@click.option(
    "--captions", is_flag=True, help="DATA is a CSV of image,caption: recall at 1, 5 and 10, texts to images and back."
)
@click.option("--truncate", is_flag=True, help="With --captions: read the beginning of a caption that is too long.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@embeds
def evaluate(
    data: Path,
    lengths: list[Length] | None,
    k: int,
    vectors: Path | None,
    selections: str,
    intervals: bool,
    with_probe: bool,
    picture: Path | None,
    vector_file: Path | None,
    missed: Path | None,
    captions: bool,
    truncate: bool,
    as_json: bool,
    through: EmbedderOptions,
) -> None:
    """Measure retrieval at several lengths.

    DATA is a folder with one subfolder of images for each label, or a CSV file of path,label and perhaps split (query
    or gallery). Every image is embedded once, at full length; the shorter vectors are cut from the full ones, as the
    server would cut them. Without a split every image asks for the others of its label. With --captions it is a CSV
    file of image,caption, and each side asks for the other.

    \b
      nonneg evaluate photos/
      nonneg evaluate photos/ --lengths 2048,512,128,512:32 --json
      nonneg evaluate photos/ --selections prefix,random,pca --intervals --plot quality.png
      nonneg evaluate photos/ --save-vectors photos.npz
      nonneg evaluate photos/ --lengths 256 --missed missed.html
      nonneg evaluate --captions captions.csv --bundle clip.bundle
    """
    from nonneg_client.commands.embedder_options import tell_fitted, vectors_of
    from nonneg_client.commands.evaluate_reports import check_missed_form, write_missed
    from nonneg_client.model_of_vectors import known_model
    from nonneg_vectors.evaluation.labelled_images import read_dataset
    from nonneg_vectors.evaluation.retrieval import by_length, check_selections

    if captions or truncate:
        from nonneg_client.commands.evaluate_captions import evaluate_captions

        evaluate_captions(data, lengths, through, intervals=intervals, truncate=truncate, as_json=as_json)
        return
    chosen = selections.split(",")
    check_selections(chosen)
    check_files(vector_file, vectors, picture)
    check_missed_form(missed)
    labelled = read_dataset(data)
    embeddings = vectors_of(labelled, vectors, through, lengths)
    model = known_model(embeddings.fingerprint, embeddings.dimensions, labelled.paths, through.bundle)
    tell_fitted("", model, embeddings)
    keep(embeddings, labelled, vector_file)
    evaluated, others = separated(embeddings, chosen)
    rows = by_length(*labelled.sides(evaluated), lengths=lengths, k=k, selections=chosen, others=others)
    records = [row.record(intervals=intervals) for row in rows]
    if with_probe:
        add_probe(records, rows, evaluated, others, labelled.labels_of(evaluated.ids))
    if picture is not None:
        draw(rows, picture, f"mAP@{k}", f"{data.name}, {embeddings.model}")
    if missed is not None:
        write_missed(missed, data, labelled, evaluated, rows[0])
    if as_json:
        record = {**summary(data, embeddings, labelled, rows, records), "fitted_on": model.fitted}
        click.echo(json_line(record))
        return
    show(data, embeddings, labelled, rows, records)


def draw(rows: list[LengthResult], picture: Path, metric: str, title: str) -> None:
    """Plot a metric over length into a file."""
    from nonneg_client.commands.evaluate_reports import plot

    plot(rows, picture, metric=metric, title=title)


def check_files(out: Path | None, vectors: Path | None, picture: Path | None) -> None:
    """Raise if vectors or plot could not be written there: before anything is embedded."""
    from nonneg_core.errors import StorageFailed
    from nonneg_vectors.storage.vector_files import check_writable

    if picture is not None:
        from nonneg_client.commands.evaluate_reports import check_picture_form

        check_picture_form(picture)
    if out is None:
        return
    if vectors is not None:
        raise click.UsageError("--save-vectors has no meaning beside --vectors: they are in a file already")
    check_writable(out)
    if out.exists():
        raise StorageFailed(f"{out} exists", fix="choose another name, or evaluate it with --vectors")


def keep(embeddings: Embeddings, data: Labelled, out: Path | None) -> None:
    """Save the vectors if a file is named, under their paths within the data's folder as `nonneg embed` would."""
    if out is None:
        return
    from nonneg_core.files.image_files import identity, path_text, stamp
    from nonneg_vectors.storage.vector_files import VectorFileRecord, record_path, write_record

    root = data.root.resolve()
    places = {path_text(path): root / os.path.relpath(path, data.root) for path in data.paths}
    ids = {name: identity(places[name], root) for name in embeddings.ids or ()}
    options = {"dimensions": None, "top_k": None, "normalize": True, "model": None}
    stamps = {ids[name]: looks for name in ids if (looks := stamp(places[name])) is not None}
    write_record(record_path(out), VectorFileRecord(str(root), options, stamps))
    embeddings.named(tuple(ids[name] for name in embeddings.ids or ())).save(out)
    click.echo(f"{out}: {len(embeddings)} vectors kept", err=True)


def separated(embeddings: Embeddings, selections: list[str]) -> tuple[Embeddings, Embeddings | None]:
    """Return the vectors to evaluate, and the others that selections look at where they look at vectors."""
    from nonneg_vectors.evaluation.retrieval import ON_OTHERS, split_off

    if not set(ON_OTHERS) & set(selections):
        return embeddings, None
    rows, fit = split_off(len(embeddings))
    return embeddings[rows], embeddings[fit]


def add_probe(
    records: list[dict[str, Any]],
    rows: list[LengthResult],
    embeddings: Embeddings,
    others: Embeddings | None,
    labels: list[str],
) -> None:
    """Add the accuracy of a linear probe at each length of each selection."""
    import numpy as np

    from nonneg_vectors.evaluation.linear_probes import halves, probe
    from nonneg_vectors.evaluation.retrieval import choice, cut_to_length

    z, named = embeddings.numpy(), np.array(labels)
    teach, ask = halves(labels)
    rest = None if others is None else others.numpy()
    choices = {name: choice(name, z.shape[1], rest) for name in dict.fromkeys(row.selection for row in rows)}
    for record, row in zip(records, rows, strict=True):
        short = cut_to_length(choices[row.selection](z, row.length.dimensions), row.length)
        record["probe"] = probe(short[teach], named[teach], short[ask], named[ask])


def summary(
    data: Path, embeddings: Embeddings, labelled: Labelled, rows: list[LengthResult], records: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return what was measured, for programs."""
    return {
        "data": str(data),
        "model": embeddings.model,
        "fingerprint": embeddings.fingerprint,
        "images": len(embeddings),
        "labels": len(set(labelled.labels_of(embeddings.ids))),
        "queries": len(rows[0].report.queries),
        "skipped": [{"id": failure.id, "error": failure.error.body()} for failure in embeddings.failures],
        "rows": records,
    }


def show(
    data: Path,
    embeddings: Embeddings,
    labelled: Labelled,
    rows: list[LengthResult],
    records: list[dict[str, Any]],
) -> None:
    """Print what was measured, for people."""
    several = len({row.selection for row in rows}) > 1
    metrics = list(dict.fromkeys(name for record in records for name in record if name not in _HIDDEN))
    asking = "each image asks for the others of its label" if labelled.asks is None else "queries ask the gallery"
    click.echo(
        f"{data}: {len(embeddings)} images of {len(set(labelled.labels_of(embeddings.ids)))} labels, model "
        f"{printable(embeddings.model)} ({embeddings.fingerprint[:8]}); {asking}"
    )
    lines: list[list[Any]] = [
        [*([row.selection] if several else []), str(row.length), *(_cell(r, m) for m in metrics), round(row.bytes)]
        for row, r in zip(rows, records, strict=True)
    ]
    click.echo(table([*(["selection"] if several else []), "length", *metrics, "bytes"], lines))
    if several:
        click.echo("activation, variance and pca are measured on a fifth of the images, which is then not evaluated")
    click.echo("bytes: the smaller of sparse (u16, f16) and dense (f32). The NCL authors' mAP@10 is P@10.")


def _cell(record: dict[str, Any], metric: str) -> Any:
    bounds = record.get("intervals", {}).get(metric)
    value = record.get(metric)
    if metric == "nnz":
        return round(record["nnz"])
    return value if bounds is None else f"{value:.3f} [{bounds[0]:.3f} {bounds[1]:.3f}]"
