"""How often captions and images find each other, at several lengths: recall at some depths, both ways.

A query counts as answered at depth k where one of its partners is among its k nearest. An item that is not a partner
and has the same score stands before the partners, so that equal vectors find nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nonneg_core.arrays import Flags, Numbers
from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.files.csv_table import read_table
from nonneg_core.shortening import Vectors, unit
from nonneg_vectors.evaluation.retrieval import Length, as_queries, check_lengths, cut_to_length, grid
from nonneg_vectors.evaluation.uncertainty import interval
from nonneg_vectors.storage.embeddings import Embeddings

DEPTHS = (1, 5, 10)
AT_ONCE = 1024  # queries


@dataclass(frozen=True)
class CaptionedImage:
    """One line of a file of captions."""

    image: Path
    caption: str


@dataclass(frozen=True, eq=False)
class Captioned:
    """Images and captions, each once; the i-th pair is of images[image[i]] and captions[caption[i]]."""

    images: tuple[Path, ...]
    captions: tuple[str, ...]
    image: Numbers
    caption: Numbers


@dataclass(frozen=True, eq=False)
class Recall:
    """The place of the first partner of each query, from 0."""

    text_to_image: Numbers
    image_to_text: Numbers

    def hits(self, depth: int) -> tuple[Flags, Flags]:
        """Return which texts found an image, and which images a text, among the first `depth`."""
        return self.text_to_image < depth, self.image_to_text < depth


def read_pairs(path: Path) -> list[CaptionedImage]:
    """Return the pairs of a CSV file with the columns `image` (a path, relative to the file) and `caption`."""
    _, rows = read_table(path, ("image", "caption"))
    pairs = [
        CaptionedImage(path.parent / row["image"], row["caption"]) for row in rows if row["image"] and row["caption"]
    ]
    if not pairs:
        raise DataInvalid(f"{path} holds no pair", fix="give at least one image and caption", value=str(path))
    return pairs


def captioned(pairs: list[CaptionedImage]) -> Captioned:
    """List each image and caption once: equal captions of several images are one, and these all its partners."""
    images = {path: i for i, path in enumerate(dict.fromkeys(pair.image for pair in pairs))}
    captions = {text: i for i, text in enumerate(dict.fromkeys(pair.caption for pair in pairs))}
    return Captioned(
        tuple(images),
        tuple(captions),
        np.array([images[pair.image] for pair in pairs], dtype=np.int64),
        np.array([captions[pair.caption] for pair in pairs], dtype=np.int64),
    )


def recall(images: Vectors, texts: Vectors, of: Captioned) -> Recall:
    """Measure by cosine how often texts find their images, and images their texts."""
    return asymmetric((images, images), (texts, texts), of)


def asymmetric(images: tuple[Vectors, Vectors], texts: tuple[Vectors, Vectors], of: Captioned) -> Recall:
    """Return the same where what is stored and what asks differ: (stored, asking) of each side."""
    return Recall(
        first_partner(texts[1], images[0], of.caption, of.image),
        first_partner(images[1], texts[0], of.image, of.caption),
    )


def first_partner(
    asking: Vectors, stored: Vectors, asks: Numbers, answers: Numbers, *, at_once: int = AT_ONCE
) -> Numbers:
    """Return how many of the stored rows that are not partners stand before each asking row's nearest partner."""
    stored, ranks = unit(stored), np.zeros(len(asking), dtype=np.int64)
    for start in range(0, len(asking), at_once):
        scores = unit(asking[start : start + at_once]) @ stored.T
        pairs = (asks >= start) & (asks < start + len(scores))
        mine, theirs = asks[pairs] - start, answers[pairs]
        best = np.full(len(scores), -np.inf, np.float32)
        np.maximum.at(best, mine, scores[mine, theirs])
        scores[mine, theirs] = -np.inf
        ranks[start : start + len(scores)] = (scores >= best[:, None]).sum(axis=1)
    return ranks


# Captions and images that find each other, at several lengths: embedded once at full length, shortened here.

WAYS = ("text to image", "image to text")


@dataclass(frozen=True, eq=False)
class CaptionResult:
    """Recall both ways at one length."""

    length: Length
    recall: Recall
    image_nnz: float
    text_nnz: float

    def record(self, *, intervals: bool = False) -> dict[str, Any]:
        """Return the row as JSON and tables show it."""
        hits = {
            f"{way} R@{depth}": values for i, way in enumerate(WAYS)
            for depth in DEPTHS for values in [self.recall.hits(depth)[i]]
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
    all_lengths = check_lengths(grid(images.dimensions) if lengths is None else lengths, images.dimensions)
    check_captioned(all_lengths)
    faces = images.numpy(), texts.numpy()
    rows = []
    for length in all_lengths:
        stored = [cut_to_length(z, length) for z in faces]
        whole = [as_queries(z, length) for z in faces]
        recall = asymmetric((stored[0], whole[0]), (stored[1], whole[1]), of)
        nnz = [float((z != 0).sum(axis=1).mean()) for z in stored]
        rows.append(CaptionResult(length, recall, *nnz))
    return rows


def check_captioned(lengths: Sequence[Length]) -> None:
    """Raise for a length that re-ranks: of captions this is not measured."""
    for length in lengths:
        if length.reranked:
            raise ConfigInvalid(
                f"captions are not re-ranked: {length}", fix=f"write {str(length)[:-1]}", field="lengths"
            )
