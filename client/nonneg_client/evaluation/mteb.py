"""A server, or a bundle in this process, as a model of MTEB: for its tasks of images (retrieval, clustering, pairs).

    import mteb
    from nonneg_client import Client
    from nonneg_client.evaluation.mteb import MTEBEncoder

    model = MTEBEncoder(Client(), dimensions=512)
    results = mteb.evaluate(model, mteb.get_tasks(tasks=["CUB200I2IRetrieval"]))

MTEB is not a dependency of this package: `pip install mteb`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import ConfigInvalid
from nonneg_core.installing import needing
from nonneg_core.shortening import unit

if TYPE_CHECKING:
    from nonneg_client.embedder import Embedder


class MTEBEncoder:
    """MTEB's encoder protocol over a client or an encoder; vectors are dense float32 there, cosines as everywhere."""

    def __init__(self, client: Embedder, *, dimensions: int | None = None, top_k: int | None = None) -> None:
        self._client = client
        self._dimensions = dimensions
        self._top_k = top_k
        self._served = client.model()

    def encode(self, inputs: Iterable[Mapping[str, Any]], **_: Any) -> NDArray[np.float32]:
        """Return the vectors of a data loader's batches, each of which has its images under `image`."""
        parts = [self._batch(batch) for batch in inputs]
        width = self._dimensions or self._served.dimensions
        return np.concatenate(parts) if parts else np.zeros((0, width), np.float32)

    def similarity(self, a: Any, b: Any) -> NDArray[np.float32]:
        """Return cosines of all with all."""
        return np.asarray(unit(_array(a)) @ unit(_array(b)).T, dtype=np.float32)

    def similarity_pairwise(self, a: Any, b: Any) -> NDArray[np.float32]:
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

    def _batch(self, batch: Mapping[str, Any]) -> NDArray[np.float32]:
        if "image" not in batch:
            raise ConfigInvalid(
                f"this task gives {', '.join(batch)} and no images", fix="choose tasks of images only", field="tasks"
            )
        found = self._client.embed(iter(batch["image"]), dimensions=self._dimensions, top_k=self._top_k, progress=False)
        return found.numpy()


def _array(z: Any) -> NDArray[np.float32]:
    return np.atleast_2d(np.asarray(z, dtype=np.float32))
