"""Evaluation in one call, images or vectors in; and a server or a bundle as a model of MTEB."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Floats
from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.shortening import unit
from nonneg_core.terminal.installing import needing
from nonneg_vectors.evaluation.labelled_images import read_dataset
from nonneg_vectors.evaluation.retrieval import Length, LengthResult, by_length
from nonneg_vectors.storage.embeddings import Embeddings

if TYPE_CHECKING:
    from nonneg_client.embedder import Embedder
    from nonneg_client.sources.image_sources import ImageSources

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
    lengths, k, selections, others, seed: as `nonneg_vectors.evaluation.retrieval.by_length` has them.
    """
    rest: dict[str, Any] = {"lengths": lengths, "k": k, "selections": selections, "seed": seed}
    rest["others"] = None if others is None else _embedded(others, through)
    if labels is None:
        return _of_data_set(gallery, queries, through, rest)
    embeddings = _embedded(gallery, through)
    asking = None if queries is None else _embedded(queries, through)
    of_gallery, of_queries = _labels(labels, embeddings, asking)
    return by_length(embeddings, of_gallery, asking, of_queries, **rest)


def _of_data_set(gallery: Any, queries: Any, through: Embedder | None, rest: dict[str, Any]) -> list[LengthResult]:
    if not isinstance(gallery, (str, os.PathLike)) or queries is not None:
        raise DataInvalid(
            "labels=None: no labels to evaluate with", fix="give labels=, or a folder with a subfolder for each label"
        )
    data = read_dataset(Path(gallery))
    return by_length(*data.sides(_embedded(data.paths, through)), **rest)


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


# A server, or a bundle in this process, as a model of MTEB: for its tasks of images (retrieval, clustering, pairs).
#
#     import mteb
#     from nonneg_client import Client
#     from nonneg_client.evaluation import MTEBEncoder
#
#     model = MTEBEncoder(Client(), dimensions=512)
#     results = mteb.evaluate(model, mteb.get_tasks(tasks=["CUB200I2IRetrieval"]))
#
# MTEB is not a dependency of this package: `pip install mteb`.


class MTEBEncoder:
    """MTEB's encoder protocol over a client or an encoder; vectors are dense float32 there, cosines as everywhere."""

    def __init__(self, client: Embedder, *, dimensions: int | None = None, top_k: int | None = None) -> None:
        self._client = client
        self._dimensions = dimensions
        self._top_k = top_k
        self._served = client.model()

    def encode(self, inputs: Iterable[Mapping[str, Any]], **_: Any) -> Floats:
        """Return the vectors of a data loader's batches, each of which has its images under `image`."""
        parts = [self._batch(batch) for batch in inputs]
        width = self._dimensions or self._served.dimensions
        return np.concatenate(parts) if parts else np.zeros((0, width), np.float32)

    def similarity(self, a: Any, b: Any) -> Floats:
        """Return cosines of all with all."""
        return np.asarray(unit(_array(a)) @ unit(_array(b)).T, dtype=np.float32)

    def similarity_pairwise(self, a: Any, b: Any) -> Floats:
        """Return cosines of each with its partner."""
        return np.asarray((unit(_array(a)) * unit(_array(b))).sum(axis=1), dtype=np.float32)

    @property
    def mteb_model_meta(self) -> Any:
        """What MTEB writes beside the results: name, fingerprint and length of the vectors."""
        with needing("an MTEB model", package="mteb"):
            from mteb.models.model_meta import ModelMeta, ScoringFunction
        unknown = ["release_date", "n_parameters", "memory_usage_mb", "max_tokens", "license", "public_training_code"]
        return ModelMeta(
            loader=None,
            name=f"nonneg/{self._served.name}",
            revision=self._served.fingerprint,
            languages=None,
            embed_dim=self._dimensions or self._served.dimensions,
            open_weights=None,
            public_training_data=None,
            similarity_fn_name=ScoringFunction.COSINE,
            framework=["ONNX"],
            reference=None,
            use_instructions=False,
            training_datasets=None,
            modalities=["image"],
            **dict.fromkeys(unknown),
        )

    def _batch(self, batch: Mapping[str, Any]) -> Floats:
        if "image" not in batch:
            raise ConfigInvalid(
                f"this task gives {', '.join(batch)} and no images", fix="choose tasks of images only", field="tasks"
            )
        embeddings = self._client.embed(
            iter(batch["image"]), dimensions=self._dimensions, top_k=self._top_k, progress=False
        )
        return embeddings.numpy()


def _array(z: Any) -> Floats:
    return np.atleast_2d(np.asarray(z, dtype=np.float32))
