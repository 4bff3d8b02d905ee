"""OpenSearch as an engine: an index with a `rank_features` field, asked by `rank_feature` queries; exact.

    http = httpx.Client(base_url="https://host:9200", auth=("user", "password"))
    index = Index(OpenSearchEngine(http, "photos", made_for=describe(embeddings)))

OpenSearch keeps 9 significant bits of a weight in its inverted index and all of them in the document. So it is asked
for more than are wanted, these are scored from their documents, and it is asked again until no other one can be nearer:
a rounded score is at most 1/255 below the true one. One question has at most 10,000 hits and 1,024 dimensions: beyond
these (the largest are asked for) the answer may not be exact.

Whose vectors an index holds stands in its mapping's `_meta`. Needs no plugin. Elasticsearch documents the same
requests; this was run against neither, only against a stand-in that checks every request by the documentation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nonneg_client import converters
from nonneg_client.embeddings import Embeddings
from nonneg_client.search.connectors.engine import Description, Engine, EngineHit, Payload, Where, split_condition
from nonneg_client.search.connectors.qdrant_points import point_id
from nonneg_client.search.sparse_vectors import SparseWeights, ascending, largest, score
from nonneg_core.errors import ConnectionFailed, StorageFailed

if TYPE_CHECKING:
    import httpx

BATCH = 500  # documents in one request
MARGIN = 50  # hits more than are wanted
MOST = 10_000  # hits of one question (index.max_result_window)
CLAUSES = 1024  # of one question (indices.query.bool.max_clause_count)
ROUNDED = 256 / 255 * (1 + 1e-5)  # true over rounded score, at most; the rest is for sums of float32
_KINDS = {"string": "keyword", "long": "double", "double": "double"}  # as they are found in payloads, as they are kept
MAPPINGS = {
    "dynamic": "strict",
    "date_detection": False,
    "dynamic_templates": [
        {kind: {"path_match": "payload.*", "match_mapping_type": kind, "mapping": {"type": kept}}}
        for kind, kept in _KINDS.items()
    ],
    "properties": {
        "id": {"type": "keyword"},
        "vector": {"type": "rank_features"},
        "payload": {"type": "object", "dynamic": "true"},
    },
}


class OpenSearchEngine(Engine):
    """An index; the HTTP client is the caller's, to be closed by the caller."""

    def __init__(self, http: httpx.Client, index: str, made_for: Description | None = None) -> None:
        self._http = http
        self._index = index
        self.description = self._open(index, made_for)

    def upsert(self, embeddings: Embeddings, payloads: Sequence[Payload]) -> None:
        rows = zip(embeddings.ids or (), converters.opensearch(embeddings), payloads, strict=True)
        lines = [
            ({"index": {"_id": point_id(name)}}, {"id": name, "vector": vector, "payload": dict(payload)})
            for name, vector, payload in rows
        ]
        self._bulk(lines)

    def delete(self, ids: Sequence[str]) -> None:
        self._bulk([({"delete": {"_id": point_id(name)}},) for name in ids])

    def nearest(
        self, indices: NDArray[np.int32], values: NDArray[np.float32], limit: int, where: Where | None
    ) -> list[EngineHit]:
        asked = largest((indices, values), CLAUSES)
        # What the dimensions that are not asked for can add: stored vectors are of length one.
        left_out = max(0.0, float(values @ values) - float(asked[1] @ asked[1])) ** 0.5
        size = min(MOST, limit + MARGIN)
        while True:
            hits = self._hits(asked, size, where)
            found = [_scored(hit["_source"], (indices, values)) for hit in hits]
            found.sort(key=lambda one: -one.score)
            beyond = hits[-1]["_score"] * ROUNDED + left_out if len(hits) == size else 0.0
            if size == MOST or len(hits) < size or found[limit - 1].score >= beyond:
                return found[:limit]
            size = min(MOST, 4 * size)

    def get(self, ids: Sequence[str]) -> Embeddings:
        sources: list[Mapping[str, Any]] = []
        for start in range(0, len(ids), BATCH):
            wanted = {"ids": [point_id(name) for name in ids[start : start + BATCH]]}
            answer = self._ask("POST", f"{self._index}/_mget", wanted, _source_includes="id,vector")
            sources += [doc["_source"] for doc in answer["docs"] if doc.get("found")]
        return self._embeddings((_pair(source["vector"]) for source in sources), (source["id"] for source in sources))

    def payloads(self) -> dict[str, Payload]:
        found: dict[str, Payload] = {}
        page: dict[str, Any] = {"query": {"match_all": {}}, "size": 1000, "sort": [{"id": "asc"}]}
        while hits := self._search({**page, "_source": ["id", "payload"]}):
            found |= {hit["_source"]["id"]: hit["_source"]["payload"] for hit in hits}
            page["search_after"] = hits[-1]["sort"]
        return found

    def count(self) -> int:
        return int(self._ask("GET", f"{self._index}/_count")["count"])

    def _hits(self, query: SparseWeights, size: int, where: Where | None) -> list[Any]:
        features = [
            {"rank_feature": {"field": f"vector.{i}", "linear": {}, "boost": float(value)}}
            for i, value in zip(*query, strict=True)
        ]
        asked = {"bool": {"should": features, "minimum_should_match": 1, "filter": _conditions(where)}}
        return self._search({"query": asked, "size": size, "track_total_hits": False})

    def _search(self, body: Mapping[str, Any]) -> list[Any]:
        found: list[Any] = self._ask("POST", f"{self._index}/_search", body)["hits"]["hits"]
        return found

    def _bulk(self, operations: Sequence[Sequence[Mapping[str, Any]]]) -> None:
        for start in range(0, len(operations), BATCH):
            batch = operations[start : start + BATCH]
            text = "".join(json.dumps(line) + "\n" for operation in batch for line in operation)
            answer = self._ask("POST", f"{self._index}/_bulk", text, refresh="true")
            results = [result for item in answer["items"] for result in item.values()]
            refused = [result["error"] for result in results if "error" in result]
            if refused:
                raise StorageFailed(
                    f"{self._index} refused {len(refused)} of {len(batch)} changes ({refused[0].get('reason')})",
                    fix="see why, and add them again",
                )

    def _held(self) -> Description | None:
        if not self._exists():
            return None
        (mapped,) = self._ask("GET", f"{self._index}/_mapping").values()
        described = mapped["mappings"].get("_meta", {}).get("nonneg")
        if described is None:
            raise self._not_ours(self._index)
        return Description(**described)

    def _create(self, made_for: Description) -> None:
        self._ask("PUT", self._index, {"mappings": {**MAPPINGS, "_meta": {"nonneg": asdict(made_for)}}})

    def _exists(self) -> bool:
        return self._answer("HEAD", self._index, None, {}).status_code == 200

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | str | None = None, **params: str) -> Any:
        response = self._answer(method, path, body, params)
        if response.status_code >= 400:
            try:
                reason = response.json()["error"]["reason"]
            except (ValueError, KeyError, TypeError):
                reason = response.text[:200]
            raise StorageFailed(
                f"{response.url} answered {response.status_code}: {reason}",
                fix="check the server and your rights there",
            )
        return response.json()

    def _answer(
        self, method: str, path: str, body: Mapping[str, Any] | str | None, params: Mapping[str, str]
    ) -> httpx.Response:
        import httpx

        lines = isinstance(body, str)
        headers = {"Content-Type": "application/x-ndjson" if lines else "application/json"}
        content = body if body is None or isinstance(body, str) else json.dumps(body)
        try:
            return self._http.request(method, f"/{path}", content=content, params=params, headers=headers)
        except httpx.HTTPError as error:
            raise ConnectionFailed(
                f"{self._http.base_url} does not answer ({str(error) or type(error).__name__})",
                fix="check the address, and that OpenSearch runs there",
            ) from error


def _conditions(where: Where | None) -> list[dict[str, Any]]:
    """Return each condition as a filter, which has no part in the score."""
    return list(_filters(where or {}))


def _filters(where: Where) -> Iterator[dict[str, Any]]:
    for name, wanted in where.items():
        if isinstance(wanted, Mapping):
            bounds, unwanted = split_condition(wanted)
            if bounds:
                yield {"range": {f"payload.{name}": bounds}}
            if unwanted:
                yield {"bool": {"must_not": _one_of(name, unwanted)}}
        elif isinstance(wanted, (list, tuple)):
            clauses = _one_of(name, wanted)
            yield clauses[0] if len(clauses) == 1 else {"bool": {"should": clauses, "minimum_should_match": 1}}
        else:
            yield {"term": {f"payload.{name}": wanted}}


def _one_of(name: str, wanted: Sequence[Any]) -> list[dict[str, Any]]:
    """Return clauses of which one holds where a field has one of these values, or lies in one of these ranges."""
    values = [value for value in wanted if not isinstance(value, Mapping)]
    ranges = [{"range": {f"payload.{name}": split_condition(one)[0]}} for one in wanted if isinstance(one, Mapping)]
    return [*([{"terms": {f"payload.{name}": values}}] if values else []), *ranges]


def _scored(source: Mapping[str, Any], query: SparseWeights) -> EngineHit:
    return EngineHit(source["id"], score(query, _pair(source["vector"])), source["payload"])


def _pair(vector: Mapping[str, float]) -> SparseWeights:
    return ascending([int(i) for i in vector], list(vector.values()))
