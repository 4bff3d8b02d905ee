"""A Qdrant server as an engine: a collection with one sparse vector, searched exactly.

    client = QdrantClient(url="http://...")       # of qdrant-client
    index = Index(QdrantEngine(client, "photos", made_for=describe(embeddings)))

Whose vectors a collection holds stands in a point of its own, which no search finds since it has no vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_client import converters
from nonneg_client.embeddings import Embeddings
from nonneg_client.search.engine import Description, Found, Payload, Where, parted
from nonneg_client.search.points import NAME, point_id
from nonneg_client.search.rerank import reranked
from nonneg_client.search.weights import Weights
from nonneg_core.errors import DataInvalid, FingerprintMismatch, MissingExtra
from nonneg_core.installing import package_hint

BATCH = 500
PAGE = 1000
_DESCRIPTION = point_id("\0description")


class QdrantEngine:
    """A collection; the client is the caller's, to be closed by the caller."""

    def __init__(self, client: Any, collection: str, made_for: Description | None = None) -> None:
        try:
            from qdrant_client import models
        except ModuleNotFoundError:
            raise MissingExtra("a Qdrant server needs qdrant-client", fix=package_hint("qdrant-client")) from None
        self._models: Any = models
        self._client = client
        self._collection = collection
        self.description = self._describe(made_for)

    def upsert(self, embeddings: Embeddings, payloads: Sequence[Payload]) -> None:
        m = self._models
        points = [
            m.PointStruct(id=point_id(name), vector={NAME: m.SparseVector(**row)}, payload={**payload, "id": name})
            for name, row, payload in zip(embeddings.ids or (), converters.qdrant(embeddings), payloads, strict=True)
        ]
        for start in range(0, len(points), BATCH):
            self._client.upsert(self._collection, points[start : start + BATCH], wait=True)

    def delete(self, ids: Sequence[str]) -> None:
        selector = self._models.PointIdsList(points=[point_id(name) for name in ids])
        self._client.delete(self._collection, selector, wait=True)

    def nearest(
        self, indices: NDArray[np.int32], values: NDArray[np.float32], limit: int, where: Where | None
    ) -> list[Found]:
        m = self._models
        answer = self._client.query_points(
            self._collection,
            query=m.SparseVector(indices=indices.tolist(), values=values.tolist()),
            using=NAME,
            limit=limit,
            query_filter=self._filter(where),
            with_payload=True,
        )
        return [Found(*_parted(p.payload, p.score)) for p in answer.points if p.score > 0]

    def reranked(self, cut: Weights, query: Weights, among: int, limit: int, where: Where | None) -> list[Found]:
        return reranked(self, cut, query, among, limit, where)

    def get(self, ids: Sequence[str]) -> Embeddings:
        points = [point_id(name) for name in ids]
        records = self._client.retrieve(self._collection, points, with_payload=True, with_vectors=True)
        held = self.description
        return Embeddings.from_rows(
            [_pair(record.vector[NAME]) for record in records],
            dimensions=held.dimensions,
            fingerprint=held.fingerprint,
            model=held.model,
            ids=tuple(record.payload["id"] for record in records),
        )

    def payloads(self) -> dict[str, Payload]:
        found: dict[str, Payload] = {}
        offset = None
        while True:
            records, offset = self._client.scroll(self._collection, limit=PAGE, offset=offset, with_payload=True)
            for record in records:
                if "id" in record.payload:
                    rest = dict(record.payload)
                    found[rest.pop("id")] = rest
            if offset is None:
                return found

    def count(self) -> int:
        return int(self._client.count(self._collection, exact=True).count) - 1  # the description

    def close(self) -> None:
        """Nothing: the client is the caller's."""

    def _describe(self, made_for: Description | None) -> Description:
        m = self._models
        if not self._client.collection_exists(self._collection):
            if made_for is None:
                raise DataInvalid(f"there is no collection {self._collection}", fix="give made_for= to make it")
            index = m.SparseIndexParams(on_disk=False)
            self._client.create_collection(
                self._collection, vectors_config={}, sparse_vectors_config={NAME: m.SparseVectorParams(index=index)}
            )
            point = m.PointStruct(id=_DESCRIPTION, vector={}, payload={"description": asdict(made_for)})
            self._client.upsert(self._collection, [point], wait=True)
            return made_for
        records = self._client.retrieve(self._collection, [_DESCRIPTION], with_payload=True)
        if not records:
            raise DataInvalid(f"{self._collection} is no collection of ours", fix="use another name")
        held = Description(**records[0].payload["description"])
        if made_for is not None and made_for.fingerprint != held.fingerprint:
            raise FingerprintMismatch(
                f"{self._collection} holds vectors of {held.fingerprint}, not of {made_for.fingerprint}",
                fix="use the model it was made with, or another collection",
            )
        return held

    def _filter(self, where: Where | None) -> Any:
        m = self._models
        must, must_not = [], []
        for name, wanted in (where or {}).items():
            if isinstance(wanted, dict):
                bounds, unwanted = parted(wanted)
                must += [m.FieldCondition(key=name, range=m.Range(**bounds))] if bounds else []
                must_not += [self._condition(name, value) for value in unwanted]
            else:
                must.append(self._condition(name, wanted))
        return m.Filter(must=must, must_not=must_not) if where else None

    def _condition(self, name: str, wanted: Any) -> Any:
        m = self._models
        if isinstance(wanted, float):
            return m.FieldCondition(key=name, range=m.Range(gte=wanted, lte=wanted))
        match = m.MatchAny(any=list(wanted)) if isinstance(wanted, (list, tuple)) else m.MatchValue(value=wanted)
        return m.FieldCondition(key=name, match=match)


def _parted(payload: dict[str, Any], score: float) -> tuple[str, float, Payload]:
    rest = dict(payload)
    return str(rest.pop("id")), float(score), rest


def _pair(vector: Any) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    order = np.argsort(vector.indices)
    return np.asarray(vector.indices, np.int32)[order], np.asarray(vector.values, np.float32)[order]
