"""A Qdrant server as an engine: a collection of sparse vectors, searched in two stages.

    client = QdrantClient(url="http://...")       # of qdrant-client
    index = Index(QdrantEngine(client, "photos", made_for=describe(embeddings)))

Beside its sparse vector a point has the dense one `active`: 1 where a dimension is above zero. The points where it
differs least from the query's are the candidates, which their sparse vectors rank.

Whose vectors a collection holds stands in a point of its own, which no search finds since it has no vector, and in
the payload of each other point. A name may be an alias.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Floats
from nonneg_core.terminal.installing import needing
from nonneg_vectors.search import converters
from nonneg_vectors.search.converters import ACTIVE, FINGERPRINT, NAME, as_float, point_id
from nonneg_vectors.search.vector_engine import (
    FEW,
    Description,
    Engine,
    EngineHit,
    Payload,
    Where,
    candidates_for,
    split_condition,
)
from nonneg_vectors.storage.embeddings import Embeddings

BATCH = 500
PAGE = 1000
_DESCRIPTION = point_id("\0description")


class QdrantEngine(Engine):
    """A collection; the client is the caller's, to be closed by the caller."""

    noun = "collection"

    def __init__(self, client: Any, collection: str, made_for: Description | None = None) -> None:
        with needing("a Qdrant server", package="qdrant-client"):
            from qdrant_client import models
        self._models: Any = models
        self._client = client
        self._collection = collection
        self.description = self._open(collection, made_for)

    def upsert(self, embeddings: Embeddings, payloads: Sequence[Payload]) -> None:
        m = self._models
        points = [
            m.PointStruct(**{**point, "vector": {**point["vector"], ACTIVE: z.tolist()}})
            for point, z in zip(
                converters.qdrant_points(embeddings, payloads, name=NAME), _active(embeddings), strict=True
            )
        ]
        for start in range(0, len(points), BATCH):
            self._client.upsert(self._collection, points[start : start + BATCH], wait=True)

    def delete(self, ids: Sequence[str]) -> None:
        selector = self._models.PointIdsList(points=[point_id(name) for name in ids])
        self._client.delete(self._collection, selector, wait=True)

    def nearest(
        self, indices: NDArray[np.int32], values: Floats, limit: int, where: Where | None, *, exact: bool = False
    ) -> list[EngineHit]:
        m = self._models
        conditions, exact = self._filter(where), exact or len(indices) <= FEW
        (z,) = _active(
            Embeddings.from_rows([(indices, values)], dimensions=self.description.dimensions, fingerprint="")
        )
        first = m.Prefetch(query=z.tolist(), using=ACTIVE, limit=candidates_for(limit), filter=conditions)
        answer = self._client.query_points(
            self._collection,
            prefetch=None if exact else first,
            query=m.SparseVector(indices=indices.tolist(), values=values.tolist()),
            using=NAME,
            limit=limit,
            query_filter=conditions,
            with_payload=True,
        )
        for point in answer.points:  # an alias may have moved to a collection of another model
            self._check_model(point.payload.get(FINGERPRINT))
        return [EngineHit(*_parted(p.payload, p.score), exact) for p in answer.points if p.score > 0]

    def get(self, ids: Sequence[str]) -> Embeddings:
        points = [point_id(name) for name in ids]
        records = self._client.retrieve(self._collection, points, with_payload=True, with_vectors=True)
        vectors = [record.vector[NAME] for record in records]
        return self._embeddings(((v.indices, v.values) for v in vectors), (r.payload["id"] for r in records))

    def payloads(self) -> dict[str, Payload]:
        by_id: dict[str, Payload] = {}
        offset = None
        while True:
            records, offset = self._client.scroll(self._collection, limit=PAGE, offset=offset, with_payload=True)
            for record in records:
                if "id" in record.payload:
                    name, _, rest = _parted(record.payload)
                    by_id[name] = rest
            if offset is None:
                return by_id

    def count(self) -> int:
        return int(self._client.count(self._collection, exact=True).count) - 1  # the description

    def _held(self) -> Description | None:
        if not self._client.collection_exists(self._collection):
            return None
        records = self._client.retrieve(self._collection, [_DESCRIPTION], with_payload=True)
        if not records:
            raise self._not_ours(self._collection)
        return Description(**records[0].payload["description"])

    def _create(self, made_for: Description) -> None:
        m = self._models
        index = m.SparseIndexParams(on_disk=False)
        self._client.create_collection(
            self._collection,
            vectors_config={
                ACTIVE: m.VectorParams(
                    size=made_for.dimensions, distance=m.Distance.MANHATTAN, datatype=m.Datatype.UINT8, on_disk=True
                )
            },
            sparse_vectors_config={NAME: m.SparseVectorParams(index=index)},
        )
        point = m.PointStruct(id=_DESCRIPTION, vector={}, payload={"description": asdict(made_for)})
        self._client.upsert(self._collection, [point], wait=True)

    def _filter(self, where: Where | None) -> Any:
        m = self._models
        must, must_not = [], []
        for name, condition in (where or {}).items():
            if isinstance(condition, dict):
                bounds, unwanted = split_condition(condition)
                must += [m.FieldCondition(key=name, range=m.Range(**bounds))] if bounds else []
                must_not += [self._condition(name, value) for value in unwanted]
            else:
                must.append(self._condition(name, condition))
        return m.Filter(must=must, must_not=must_not) if where else None

    def _condition(self, name: str, condition: Any) -> Any:
        m = self._models
        if isinstance(condition, (list, tuple)) and any(isinstance(value, (float, dict)) for value in condition):
            return m.Filter(should=[self._condition(name, as_float(value)) for value in condition])
        if isinstance(condition, dict):
            return m.FieldCondition(key=name, range=m.Range(**split_condition(condition)[0]))
        if isinstance(condition, float):
            return m.FieldCondition(key=name, range=m.Range(gte=condition, lte=condition))
        match = (
            m.MatchAny(any=list(condition)) if isinstance(condition, (list, tuple)) else m.MatchValue(value=condition)
        )
        return m.FieldCondition(key=name, match=match)


def _active(embeddings: Embeddings) -> NDArray[np.uint8]:
    """Return 1 where a dimension is above zero, whose Manhattan distance is that of bits."""
    return np.asarray(embeddings.numpy() > 0, np.uint8)


def _parted(payload: dict[str, Any], score: float = 0.0) -> tuple[str, float, Payload]:
    rest = {field: value for field, value in payload.items() if field != FINGERPRINT}
    return str(rest.pop("id")), float(score), rest
