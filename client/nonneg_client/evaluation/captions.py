"""Captions and images that find each other, at several lengths: embedded once at full length, shortened here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nonneg_client.embeddings import Embeddings
from nonneg_client.evaluation.retrieval import check_lengths, grid
from nonneg_core.errors import ConfigInvalid
from nonneg_core.evaluation.captions import DEPTHS, Captioned, Recall, asymmetric
from nonneg_core.evaluation.lengths import Length, asked, cut
from nonneg_core.evaluation.uncertainty import interval

WAYS = ("text to image", "image to text")


@dataclass(frozen=True, eq=False)
class CaptionResult:
    """Recall both ways at one length."""

    length: Length
    found: Recall
    image_nnz: float
    text_nnz: float

    def record(self, *, intervals: bool = False) -> dict[str, Any]:
        """Return the row as JSON and tables show it."""
        hits = {
            f"{way} R@{depth}": values for i, way in enumerate(WAYS)
            for depth in DEPTHS for values in [self.found.hits(depth)[i]]
        }  # fmt: skip
        record: dict[str, Any] = {
            "dimensions": self.length.dimensions,
            "top_k": self.length.top_k,
            "asked": "whole" if self.length.asked_whole else "cut",
            **{name: float(values.mean()) for name, values in hits.items()},
            "image nnz": self.image_nnz,
            "text nnz": self.text_nnz,
        }
        if intervals:
            bounds = {name: interval(values) for name, values in hits.items()}
            record["intervals"] = {name: [bound.low, bound.high] for name, bound in bounds.items()}
        return record


def recall_by_length(
    images: Embeddings, texts: Embeddings, of: Captioned, lengths: Sequence[Length | int] | None = None
) -> list[CaptionResult]:
    """Return recall at each length; rows are in the order of `of`."""
    images.same_form(texts)
    wanted = check_lengths(grid(images.dimensions) if lengths is None else lengths, images.dimensions)
    check_captioned(wanted)
    faces = images.numpy(), texts.numpy()
    rows = []
    for length in wanted:
        stored = [cut(z, length) for z in faces]
        whole = [asked(z, length) for z in faces]
        found = asymmetric((stored[0], whole[0]), (stored[1], whole[1]), of)
        nnz = [float((z != 0).sum(axis=1).mean()) for z in stored]
        rows.append(CaptionResult(length, found, *nnz))
    return rows


def check_captioned(lengths: Sequence[Length]) -> None:
    """Raise for a length that re-ranks: of captions this is not measured."""
    for length in lengths:
        if length.reranked:
            raise ConfigInvalid(
                f"captions are not re-ranked: {length}", fix=f"write {str(length)[:-1]}", field="lengths"
            )
