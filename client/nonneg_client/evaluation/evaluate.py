"""Evaluation in one call: images or vectors in, retrieval at several lengths out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nonneg_client.embeddings import Embeddings
from nonneg_client.evaluation.datasets import read_dataset
from nonneg_client.evaluation.retrieval import LengthResult, by_length
from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.evaluation.lengths import Length

if TYPE_CHECKING:
    from nonneg_client.embedder import Embedder
    from nonneg_client.sources.images import ImageSources

GivenLabels: TypeAlias = Mapping[str, Any] | Sequence[Any] | NDArray[Any]


def evaluate(
    gallery: Embeddings | ImageSources,
    queries: Embeddings | ImageSources | None = None,
    labels: GivenLabels | None = None,
    *,
    through: Embedder | None = None,
    lengths: Sequence[Length | int] | None = None,
    k: int = 100,
    selections: Sequence[str] = ("prefix",),
    others: Embeddings | ImageSources | None = None,
    seed: int = 0,
) -> list[LengthResult]:
    """Score retrieval at each length; without `queries` every image asks for all the others.

    with Client() as client:  # or nonneg_client.Encoder(): the same without a server
        rows = evaluate("photos/", through=client, lengths=[2048, 256])

    gallery, queries: vectors, or images that are embedded `through` a client or an encoder, once and at full length.
    labels: by id, or one an image in their order, those of the queries behind those of the gallery. Without any the
        gallery is a folder with a subfolder for each label, or a CSV file (which may say what asks).
    lengths, k, selections, others, seed: as `nonneg_client.evaluation.retrieval.by_length` has them.
    """
    rest: dict[str, Any] = {"lengths": lengths, "k": k, "selections": selections, "seed": seed}
    rest["others"] = None if others is None else _embedded(others, through)
    if labels is None:
        return _of_data_set(gallery, queries, through, rest)
    held = _embedded(gallery, through)
    asking = None if queries is None else _embedded(queries, through)
    of_gallery, of_queries = _labels(labels, held, asking)
    return by_length(held, of_gallery, asking, of_queries, **rest)


def _of_data_set(gallery: Any, queries: Any, through: Embedder | None, rest: dict[str, Any]) -> list[LengthResult]:
    if not isinstance(gallery, (str, os.PathLike)) or queries is not None:
        raise DataInvalid(
            "labels=None: no labels to evaluate with", fix="give labels=, or a folder with a subfolder for each label"
        )
    data = read_dataset(Path(gallery))
    embeddings = _embedded(data.paths, through)
    labels, asks = np.array(data.labels), data.asks
    if asks is None:
        return by_length(embeddings, labels, **rest)
    ask = np.array(asks)
    return by_length(embeddings[~ask], labels[~ask], embeddings[ask], labels[ask], **rest)


def _embedded(images: Embeddings | ImageSources, through: Embedder | None) -> Embeddings:
    if isinstance(images, Embeddings):
        return images
    if through is None:
        raise ConfigInvalid("these images have no vectors yet", fix="give through=, a Client or an Encoder")
    return through.embed(images)


def _labels(labels: GivenLabels, gallery: Embeddings, queries: Embeddings | None) -> tuple[list[Any], list[Any] | None]:
    """Return the labels of the gallery and of the queries."""
    sides = [gallery] if queries is None else [gallery, queries]
    if isinstance(labels, Mapping):
        names = [name for side in sides for name in side.ids or ()]
        unknown = [name for name in names if name not in labels]
        if unknown:
            raise DataInvalid(f"{unknown[0]} has no label", fix="give a label for every id", value=unknown[0])
        labels = [labels[name] for name in names]
    given, size = list(labels), sum(map(len, sides))
    if len(given) != size:
        raise DataInvalid(
            f"{len(given)} labels for {size} vectors", fix="give one a vector, the gallery's first, then the queries'"
        )
    return given[: len(gallery)], None if queries is None else given[len(gallery) :]
