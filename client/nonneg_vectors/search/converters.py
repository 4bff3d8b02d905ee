"""Sparse vectors and payloads in the forms that databases and libraries take; their packages are not needed."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

import numpy as np

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_vectors.storage.bits import BitForm
from nonneg_vectors.storage.embeddings import Embeddings

__all__ = [
    "Sparse",
    "active",
    "binary",
    "elasticsearch",
    "elasticsearch_points",
    "elasticsearch_without",
    "milvus",
    "milvus_points",
    "milvus_without",
    "opensearch",
    "pgvector",
    "pgvector_binary",
    "pgvector_bit",
    "pgvector_points",
    "pgvector_without",
    "pinecone",
    "pinecone_points",
    "pinecone_without",
    "qdrant",
    "qdrant_points",
    "qdrant_without",
    "torch_csr",
]

Payloads: TypeAlias = Sequence[Mapping[str, Any]]


def checked_ids(embeddings: Embeddings, payloads: Payloads | None = None) -> tuple[str, ...]:
    """Return the vectors' ids; refuse vectors without any, and payloads that do not go with them."""
    if embeddings.ids is None:
        raise DataInvalid("vectors without ids cannot be found again", fix="embeddings.named([...])")
    if payloads is not None and len(payloads) != len(embeddings):
        raise DataInvalid(f"{len(payloads)} payloads for {len(embeddings)} vectors", fix="give one a vector")
    if any("id" in payload for payload in payloads or ()):
        raise ConfigInvalid("a payload may not have the field id", fix="name it otherwise", field="id")
    return embeddings.ids


# A point of Qdrant: the id made from a name, the payload with its booleans, the conditions on it.

NAME = "nonneg"  # of the vector inside a point
_NAMESPACE = uuid.UUID("7f0c2a4e-6d0b-5c56-9d5f-1f2a8c3b9e10")  # point ids are UUIDs: made from the names in here


def point_id(name: str) -> str:
    """Return the UUID under which a name is stored."""
    return str(uuid.uuid5(_NAMESPACE, name))


def as_float(value: Any) -> Any:
    """Return a whole number as one that other numbers may equal: a match of integers finds integers alone."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


# Every function takes `Embeddings` and gives one entry a vector, in order. Indices are 0-based unless said otherwise.
# Those that end with `_points` give whole entries as the database's own client takes them: with id, payload, and in
# the payload the fingerprint of the model, by which a filter keeps the vectors of two models apart.
# `active=True` puts the dimensions that are above zero beside each vector, in the field `active`; those that end with
# `_without` then write the filter for `!`: none of these dimensions is there.

PINECONE_LIMIT = 1000  # non-zeros a sparse vector may have there
PGVECTOR_LIMIT = 16_000  # non-zeros a sparsevec may have


ACTIVE = "active"  # the field of the dimensions that are above zero
FINGERPRINT = "fingerprint"  # the field that says which model made the vector


class Sparse(TypedDict):
    """The shape that Qdrant, Pinecone, Upstash, LangChain and Haystack share."""

    indices: list[int]
    values: list[float]


def qdrant(embeddings: Embeddings) -> list[Sparse]:
    """Return `{"indices": [...], "values": [...]}`: arguments of `SparseVector`, or JSON for the REST interface."""
    return [{"indices": indices.tolist(), "values": values.tolist()} for indices, values in embeddings]


def pinecone(embeddings: Embeddings) -> list[Sparse]:
    """Return `sparse_values` of Pinecone; more non-zeros than it takes are refused here, by name."""
    _at_most(embeddings, PINECONE_LIMIT, "Pinecone")
    return qdrant(embeddings)


def qdrant_points(
    embeddings: Embeddings, payloads: Payloads | None = None, *, name: str = "nonneg", active: bool = False
) -> list[dict[str, Any]]:
    """Make points for Qdrant, as JSON or as `PointStruct(**point)`: a UUID made of the id, the id kept in the payload.

    name: of the collection's sparse vector. An `Index` on Qdrant makes the same points.
    """

    rows = zip(*_named(embeddings, payloads, active), qdrant(embeddings), strict=True)
    return [
        {"id": point_id(key), "vector": {name: row}, "payload": {**payload, "id": key}} for key, payload, row in rows
    ]


def pinecone_points(
    embeddings: Embeddings, payloads: Payloads | None = None, *, active: bool = False
) -> list[dict[str, Any]]:
    """Make records for the `upsert` of a sparse Pinecone index; `active` as text: its lists hold nothing else."""
    named = _named(embeddings, payloads, active)
    for payload in named[1] if active else ():
        payload[ACTIVE] = [str(i) for i in payload[ACTIVE]]
    rows = zip(*named, pinecone(embeddings), strict=True)
    return [{"id": key, "sparse_values": row, "metadata": payload} for key, payload, row in rows]


def milvus_points(
    embeddings: Embeddings, payloads: Payloads | None = None, *, field: str = "vector", active: bool = False
) -> list[dict[str, Any]]:
    """Return entities for `MilvusClient.upsert`: `id`, the vector, and the fields of the payload."""
    rows = zip(*_named(embeddings, payloads, active), milvus(embeddings), strict=True)
    return [{**payload, "id": key, field: row} for key, payload, row in rows]


def pgvector_points(
    embeddings: Embeddings, payloads: Payloads | None = None, *, active: bool = False
) -> list[tuple[str, str, str]]:
    """Make rows of id, vector and payload (JSON): parameters of `INSERT ... VALUES (%s, %s::sparsevec, %s::jsonb)`."""
    rows = zip(*_named(embeddings, payloads, active), pgvector(embeddings), strict=True)
    return [(key, row, json.dumps(payload, ensure_ascii=False)) for key, payload, row in rows]


def elasticsearch_points(
    embeddings: Embeddings,
    payloads: Payloads | None = None,
    *,
    index: str,
    field: str = "vector",
    active: bool = False,
) -> list[dict[str, Any]]:
    """Return actions for `helpers.bulk` of Elasticsearch and of OpenSearch."""
    rows = zip(*_named(embeddings, payloads, active), elasticsearch(embeddings), strict=True)
    return [{"_index": index, "_id": key, "_source": {**payload, "id": key, field: row}} for key, payload, row in rows]


def milvus(embeddings: Embeddings) -> list[dict[int, float]]:
    """Return `{index: value}` for a SPARSE_FLOAT_VECTOR field; index SPARSE_INVERTED_INDEX, metric IP."""
    return [dict(zip(indices.tolist(), values.tolist(), strict=True)) for indices, values in embeddings]


def pgvector(embeddings: Embeddings) -> list[str]:
    """Return pgvector's text, `{index:value,...}/dimensions`, whose indices begin at 1."""
    _at_most(embeddings, PGVECTOR_LIMIT, "pgvector")
    return [
        "{" + ",".join(f"{i + 1}:{v:.9g}" for i, v in zip(indices.tolist(), values.tolist(), strict=True)) + "}"
        f"/{embeddings.dimensions}"
        for indices, values in embeddings
    ]


def pgvector_binary(embeddings: Embeddings) -> list[bytes]:
    """Return pgvector's binary form for COPY: dimensions, count, 0, then indices (from 0) and values; big-endian."""
    _at_most(embeddings, PGVECTOR_LIMIT, "pgvector")
    return [
        struct.pack(">iii", embeddings.dimensions, len(indices), 0)
        + indices.astype(">i4").tobytes()
        + values.astype(">f4").tobytes()
        for indices, values in embeddings
    ]


def elasticsearch(embeddings: Embeddings) -> list[dict[str, float]]:
    """Return `{"token": weight}` for a sparse_vector field; query with `"prune": false`, or tokens are dropped."""
    return [{str(i): w for i, w in row.items()} for row in milvus(embeddings)]


def opensearch(embeddings: Embeddings) -> list[dict[str, float]]:
    """Return `{"token": weight}` for a rank_features field, which is exact; its sparse_vector is approximate.

    rank_features keeps 9 significant bits of a weight: a relative error of up to 0.4 %.
    """
    return elasticsearch(embeddings)


def binary(embeddings: Embeddings, form: BitForm) -> list[bytes]:
    """Return the bits of whole vectors, the first in the highest bit: for a BINARY_VECTOR field of Milvus."""
    return [row.tobytes() for row in form.pack(embeddings.numpy())]


def pgvector_bit(embeddings: Embeddings, form: BitForm) -> list[str]:
    """Return the bits of whole vectors as zeros and ones: text of a `bit(1280)` column."""
    return ["".join(map(str, row)) for row in np.unpackbits(form.pack(embeddings.numpy()), axis=1, count=len(form))]


def active(embeddings: Embeddings) -> list[list[int]]:
    """Return the dimensions of each vector that are above zero: what a filter for `!` asks about, in any database."""
    return [indices.tolist() for indices, _ in embeddings]


def qdrant_without(dimensions: Sequence[int]) -> dict[str, Any]:
    """Return a filter, as JSON or as `Filter(**filter)`: none of these dimensions is in `active`."""
    return {"must_not": [{"key": ACTIVE, "match": {"any": list(dimensions)}}]}


def pinecone_without(dimensions: Sequence[int]) -> dict[str, Any]:
    """Return the `filter` of a Pinecone query: none of these dimensions is in `active`."""
    return {ACTIVE: {"$nin": [str(i) for i in dimensions]}}


def milvus_without(dimensions: Sequence[int]) -> str:
    """Return the `filter` of a Milvus search: none of these dimensions is in `active`, an ARRAY of INT64."""
    return f"not ARRAY_CONTAINS_ANY({ACTIVE}, {json.dumps(list(dimensions))})"


def pgvector_without(dimensions: Sequence[int]) -> tuple[str, list[str]]:
    """Return SQL behind WHERE and its parameter: none of these dimensions is in `active` of the payload."""
    return f"NOT payload -> '{ACTIVE}' @> ANY(%s::jsonb[])", [json.dumps([i]) for i in dimensions]


def elasticsearch_without(dimensions: Sequence[int]) -> dict[str, Any]:
    """Return a clause for `bool.filter` of Elasticsearch and OpenSearch: none of these dimensions is in `active`."""
    return {"bool": {"must_not": [{"terms": {ACTIVE: list(dimensions)}}]}}


def torch_csr(embeddings: Embeddings) -> dict[str, Any]:
    """Return the arguments of `torch.sparse_csr_tensor(**...)`; this package never imports torch itself."""
    return {
        "crow_indices": embeddings.indptr,
        "col_indices": embeddings.indices.astype("int64"),
        "values": embeddings.values,
        "size": (len(embeddings), embeddings.dimensions),
    }


def _named(
    embeddings: Embeddings, payloads: Payloads | None, with_active: bool
) -> tuple[Sequence[str], Sequence[dict[str, Any]]]:
    """Return every vector's id and payload."""
    ids = checked_ids(embeddings, payloads)
    records = [{**payload, FINGERPRINT: embeddings.fingerprint} for payload in payloads or [{}] * len(ids)]
    for name in (FINGERPRINT, ACTIVE) if with_active else (FINGERPRINT,):
        if any(name in payload for payload in payloads or ()):
            raise ConfigInvalid(f"a payload has a field {name} already", fix="name it otherwise", field=name)
    for record, row in zip(records, active(embeddings), strict=True) if with_active else ():
        record[ACTIVE] = row
    return ids, records


def _at_most(embeddings: Embeddings, limit: int, whose: str) -> None:
    most = int(embeddings.nnz.max(initial=0))
    if most > limit:
        raise ConfigInvalid(
            f"a vector has {most} non-zeros; {whose} takes {limit}",
            fix=f"embeddings.shorten(top_k={limit})",
            field="top_k",
            value=most,
            limit=limit,
        )
