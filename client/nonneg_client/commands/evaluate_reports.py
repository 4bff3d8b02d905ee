"""What `nonneg evaluate` shows beside its table: missed queries, and retrieval over length, drawn."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from nonneg_core.errors import ConfigInvalid
from nonneg_core.files.atomic import atomic_write
from nonneg_core.terminal.tables import figure
from nonneg_vectors.curation.collection import Finding, Group, Section
from nonneg_vectors.evaluation.labelled_images import Labelled
from nonneg_vectors.evaluation.retrieval import LengthResult
from nonneg_vectors.storage.embeddings import Embeddings


@dataclass(frozen=True)
class EvaluatedImages:
    """What was evaluated: the images of the gallery and those that asked, with their labels."""

    ids: Sequence[str]
    labels: Sequence[str]
    query_ids: Sequence[str]
    query_labels: Sequence[str]


def missed(row: LengthResult, images: EvaluatedImages) -> Section:
    """Return each query without a relevant first hit, by the ranking that its length was scored by."""
    heads = row.report.heads
    groups = []
    for i, query in enumerate(row.report.queries.tolist()):
        first = int(heads.first[i])
        if first != 1:
            neighbours = zip(heads.nearest[i].tolist(), heads.cosines[i].tolist(), strict=True)
            wrong = [(j, cosine) for j, cosine in neighbours if j >= 0 and cosine > 0][: first - 1 if first else None]
            groups.append(_group(images, query, first, wrong))
    how = (
        f"Queries of which the nearest image at {row.length} ({row.selection}) has another label, each with the images "
        f"in front of its first right one, at most {heads.nearest.shape[1]}."
    )
    return Section("missed", "Missed by the evaluation", how, tuple(groups))


def _group(images: EvaluatedImages, query: int, first: int, wrong: Sequence[tuple[int, float]]) -> Group:
    name, label = images.query_ids[query], images.query_labels[query]
    taken = tuple(
        Finding(images.ids[j], "", f"place {place}: {images.labels[j]}", name, cosine, images.ids[j])
        for place, (j, cosine) in enumerate(wrong, 1)
    )
    where = f"first of its label at place {first}" if first else "none of its label among those looked at"
    return Group(f"{label}: {where}", (Finding(name, "review", f"{label}: {where}", path=name), *taken))


# Retrieval over length, drawn: one line a selection, the share of zero vectors below.

PICTURE_FORMS = (".png", ".svg", ".pdf")


def check_picture_form(path: Path) -> None:
    """Raise before the work if the picture could not be written after it."""
    if path.suffix.lower() not in PICTURE_FORMS:
        raise ConfigInvalid(f"{path} is not a picture", fix=f"call it {', '.join(PICTURE_FORMS)}")
    figure()


def plot(rows: Sequence[LengthResult], path: Path, *, metric: str, title: str = "") -> None:
    """Draw a metric and the share of zero vectors over the number of dimensions."""
    drawn = figure(figsize=(7, 5))
    above, below = drawn.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    for selection in dict.fromkeys(row.selection for row in rows):
        lines = sorted(
            (row.length.dimensions, row.report.means()[metric], row.zero_share)
            for row in rows
            if row.selection == selection and row.length.top_k is None
        )
        lengths, scores, zeros = zip(*lines, strict=True)
        above.plot(lengths, scores, marker="o", label=selection)
        below.plot(lengths, zeros, marker="o")
    above.set(title=title, ylabel=metric, ylim=(0, 1))
    above.legend()
    below.set(xscale="log", xlabel="dimensions", ylabel="zero vectors")
    ticks = sorted({row.length.dimensions for row in rows})
    below.set_xticks(ticks, labels=[str(tick) for tick in ticks], rotation=45)
    below.minorticks_off()
    with atomic_write(path) as temporary:
        drawn.savefig(temporary, format=path.suffix[1:].lower(), dpi=150)


# `nonneg evaluate --missed`: the queries without a right first hit, as a table or as a sheet with thumbnails.

MISSED_FORMS = (".csv", ".html")


def check_missed_form(path: Path | None) -> None:
    """Raise unless the file's suffix names a form: before anything is embedded."""
    if path is not None and path.suffix.lower() not in MISSED_FORMS:
        raise ConfigInvalid(
            f"--missed {path} is neither a table nor a sheet",
            fix=f"end it with {' or '.join(MISSED_FORMS)}",
            field="missed",
            value=str(path),
        )


def write_missed(path: Path, data: Path, labelled: Labelled, embeddings: Embeddings, row: LengthResult) -> None:
    """Write the queries that were missed at one length, and say how many they are."""
    from nonneg_client.commands.contact_sheets import write_page
    from nonneg_vectors.curation.collection import Collection, write_csv

    section = missed(row, asked_images(labelled, embeddings))
    if path.suffix.lower() == ".html":
        root = os.path.commonpath([path.absolute() for path in labelled.paths])  # the data's own, wherever a CSV lies
        collection = Collection(str(data), embeddings, [{}] * len(embeddings), root)
        write_page(path, f"{data}: missed at {row.length}", [section], collection)
    else:
        write_csv(path, [section])
    queries = len(row.report.queries)
    click.echo(f"{path}: {len(section.groups)} of {queries} queries have no right first hit at {row.length}", err=True)


def asked_images(labelled: Labelled, embeddings: Embeddings) -> EvaluatedImages:
    """Return the gallery and the queries by their names, in the order in which they were scored."""
    gallery, labels, queries, query_labels = labelled.sides(embeddings)
    asking = gallery if queries is None else queries
    return EvaluatedImages(
        gallery.ids or (),
        labels.tolist(),
        asking.ids or (),
        (labels if query_labels is None else query_labels).tolist(),
    )
