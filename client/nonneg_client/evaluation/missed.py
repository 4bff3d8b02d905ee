"""The queries that an evaluation missed, whose first hit has another label, and the neighbours that took its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nonneg_client.curation.findings import Finding, Group, Section
from nonneg_client.evaluation.retrieval import LengthResult


@dataclass(frozen=True)
class AskedImages:
    """What was evaluated: the images of the gallery and those that asked, with their labels."""

    ids: Sequence[str]
    labels: Sequence[str]
    query_ids: Sequence[str]
    query_labels: Sequence[str]


def missed(row: LengthResult, images: AskedImages) -> Section:
    """Return each query without a relevant first hit, by the ranking that its length was scored by."""
    heads = row.report.heads
    groups = []
    for i, query in enumerate(row.report.queries.tolist()):
        first = int(heads.first[i])
        if first != 1:
            found = zip(heads.nearest[i].tolist(), heads.cosines[i].tolist(), strict=True)
            wrong = [(j, cosine) for j, cosine in found if j >= 0 and cosine > 0][: first - 1 if first else None]
            groups.append(_group(images, query, first, wrong))
    how = (
        f"Queries of which the nearest image at {row.length} ({row.selection}) has another label, each with the images "
        f"in front of its first right one, at most {heads.nearest.shape[1]}."
    )
    return Section("missed", "Missed by the evaluation", how, tuple(groups))


def _group(images: AskedImages, query: int, first: int, wrong: Sequence[tuple[int, float]]) -> Group:
    name, label = images.query_ids[query], images.query_labels[query]
    taken = tuple(
        Finding(images.ids[j], "", f"place {place}: {images.labels[j]}", name, cosine, images.ids[j])
        for place, (j, cosine) in enumerate(wrong, 1)
    )
    where = f"first of its label at place {first}" if first else "none of its label among those looked at"
    return Group(f"{label}: {where}", (Finding(name, "review", f"{label}: {where}", path=name), *taken))
