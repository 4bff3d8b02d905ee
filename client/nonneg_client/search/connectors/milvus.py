"""Milvus as an engine: a collection with a sparse vector field, SPARSE_INVERTED_INDEX, inner product.

    client = MilvusClient("http://...")       # of pymilvus; a file name runs Milvus Lite in process
    index = Index(MilvusEngine(client, "photos", made_for=describe(embeddings)))

Whose vectors a collection holds stands in a row of its own, whose only dimension no query has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_client import converters
from nonneg_client.embeddings import Embeddings
from nonneg_client.search.connectors.engine import (
    SIGNS,
    Description,
    Engine,
    EngineHit,
    Payload,
    Where,
    split_condition,
)
from nonneg_core.installing import needing

BATCH = 1000
LONGEST_ID = 4096
_DESCRIPTION = "\0description"


class MilvusEngine(Engine):
    """A collection; the client is the caller's, to be closed by the caller. Milvus stores no zero vectors."""

    noun = "collection"

    def __init__(self, client: Any, collection: str, made_for: Description | None = None) -> None:
        self._client = client
        self._collection = collection
        self.description = self._open(collection, made_for)

    def upsert(self, embeddings: Embeddings, payloads: Sequence[Payload]) -> None:
        rows = [
            {"id": name, "vector": vector, "payload": dict(payload)}
            for name, vector, payload in zip(embeddings.ids or (), converters.milvus(embeddings), payloads, strict=True)
            if vector
        ]
        for start in range(0, len(rows), BATCH):
            self._client.upsert(self._collection, rows[start : start + BATCH])

    def delete(self, ids: Sequence[str]) -> None:
        if ids:
            self._client.delete(self._collection, ids=list(ids))

    def nearest(
        self, indices: NDArray[np.int32], values: NDArray[np.float32], limit: int, where: Where | None
    ) -> list[EngineHit]:
        (hits,) = self._client.search(
            self._collection,
            data=[dict(zip(indices.tolist(), values.tolist(), strict=True))],
            anns_field="vector",
            limit=limit,
            filter=expression(where),
            output_fields=["payload"],
            search_params={"metric_type": "IP", "params": {"drop_ratio_search": 0.0}},
            consistency_level="Strong",
        )
        return [EngineHit(hit["id"], float(hit["distance"]), hit["entity"]["payload"]) for hit in hits]

    def get(self, ids: Sequence[str]) -> Embeddings:
        rows = self._client.get(self._collection, ids=list(ids), output_fields=["vector"]) if ids else []
        vectors = [row["vector"] for row in rows]
        return self._embeddings(((list(v), list(v.values())) for v in vectors), (row["id"] for row in rows))

    def payloads(self) -> dict[str, Payload]:
        found: dict[str, Payload] = {}
        pages = self._client.query_iterator(self._collection, batch_size=BATCH, output_fields=["payload"])
        while page := pages.next():
            found |= {row["id"]: row["payload"] for row in page}
        pages.close()
        del found[_DESCRIPTION]
        return found

    def count(self) -> int:
        (row,) = self._client.query(self._collection, filter="", output_fields=["count(*)"], consistency_level="Strong")
        return int(row["count(*)"]) - 1  # the description

    def _held(self) -> Description | None:
        if not self._client.has_collection(self._collection):
            return None
        rows = self._client.get(self._collection, ids=[_DESCRIPTION], output_fields=["payload"])
        if not rows:
            raise self._not_ours(self._collection)
        return Description(**rows[0]["payload"])

    def _create(self, made_for: Description) -> None:
        with needing("Milvus", package="pymilvus"):
            from pymilvus import DataType
        schema = self._client.create_schema(auto_id=False)
        schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=LONGEST_ID)
        schema.add_field("vector", DataType.SPARSE_FLOAT_VECTOR)
        schema.add_field("payload", DataType.JSON)
        params = self._client.prepare_index_params()
        params.add_index("vector", index_type="SPARSE_INVERTED_INDEX", metric_type="IP")
        self._client.create_collection(self._collection, schema=schema, index_params=params)
        described = {"id": _DESCRIPTION, "vector": {made_for.dimensions: 1.0}, "payload": asdict(made_for)}
        self._client.upsert(self._collection, [described])


def expression(where: Where | None) -> str:
    """Return conditions as Milvus writes them; names and values are quoted as JSON."""
    parts = []
    for name, wanted in (where or {}).items():
        field = f"payload[{json.dumps(name)}]"
        if isinstance(wanted, Mapping):
            bounds, unwanted = split_condition(wanted)
            parts += [_one(field, bounds)] if bounds else []
            parts += [f"not ({_one(field, value)})" for value in unwanted]
        elif isinstance(wanted, (list, tuple)):
            parts.append("(" + " or ".join(f"({_one(field, value)})" for value in wanted) + ")")
        else:
            parts.append(_one(field, wanted))
    return " and ".join(parts)


def _one(field: str, wanted: Any) -> str:
    """Return what says that a field has this value, or lies in this range."""
    if isinstance(wanted, Mapping):
        bounds = split_condition(wanted)[0]
        return " and ".join(f"{field} {SIGNS[bound]} {json.dumps(value)}" for bound, value in bounds.items())
    return f"{field} == {json.dumps(wanted)}"
