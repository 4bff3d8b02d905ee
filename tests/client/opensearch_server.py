"""The part of OpenSearch that the engine uses, strictly: what the documentation does not have is refused.

It keeps what it is told in memory, rounds weights to 9 significant bits, shows changes only after a refresh, and
refuses unknown keys, unmapped fields, more than 1,024 clauses and more than 10,000 hits, as OpenSearch does. Run as a
process of its own; prints its address.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np


class Refused(Exception):
    def __init__(self, reason: str, kind: str = "illegal_argument_exception", status: int = 400) -> None:
        super().__init__(reason)
        self.kind, self.status = kind, status


def only(body: Any, allowed: str, where: str) -> None:
    if not isinstance(body, dict) or set(body) - set(allowed.split()):
        raise Refused(f"unknown key in {where}: {body if not isinstance(body, dict) else sorted(body)}")


def rounded(value: float) -> float:
    """As Lucene's FeatureField keeps it: the first 8 bits behind the leading one."""
    return float((np.float32(value).view(np.int32) >> 15 << 15).view(np.float32))


class Index:
    def __init__(self, body: dict[str, Any]) -> None:
        only(body, "settings mappings", "index")
        self.mappings = body["mappings"]
        only(self.mappings, "_meta dynamic dynamic_templates properties date_detection", "mappings")
        self.templates: dict[str, str] = {}
        for template in self.mappings["dynamic_templates"]:
            ((_, rule),) = template.items()
            only(rule, "path_match match_mapping_type mapping", "template")
            assert rule["path_match"] == "payload.*"
            self.templates[rule["match_mapping_type"]] = rule["mapping"]["type"]
        self.kinds = {name: field["type"] for name, field in self.mappings["properties"].items()}
        self.stored: dict[str, Any] = {}
        self.seen: dict[str, Any] = {}  # as of the last refresh

    def put(self, name: str, document: dict[str, Any]) -> None:
        assert len(name.encode()) <= 512
        for field, value in document.items():
            kind = self.kinds.get(field)
            if kind is None:
                raise Refused(f"mapping set to strict, dynamic introduction of [{field}] is not allowed")
            if kind == "rank_features":
                for feature, weight in value.items():
                    if "." in feature or not isinstance(weight, (int, float)) or not weight > 0 or math.isinf(weight):
                        raise Refused(f"[rank_features] fields take positive weights, not {feature}: {weight}")
            elif kind == "keyword" and len(str(value).encode()) > 32766:
                raise Refused("immense term")
        for field, value in document.get("payload", {}).items():
            self.kind(field, value)
        self.stored[name] = document

    def kind(self, field: str, value: Any) -> None:
        """What a payload's field is mapped to by its first value."""
        if isinstance(value, list):
            return [self.kind(field, one) for one in value][:0] or None
        found = {bool: "boolean", int: "long", float: "double", str: "string"}[type(value)]
        mapped = found if found == "boolean" else self.templates[found]
        if self.kinds.setdefault(f"payload.{field}", mapped) != mapped:
            raise Refused(f"failed to parse field [payload.{field}] of type [{self.kinds[f'payload.{field}']}]")
        return None

    def search(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        only(body, "query size sort search_after _source track_total_hits", "search")
        if body["size"] > 10_000:
            raise Refused("Result window is too large")
        score = self.scorer(body["query"])
        scored = [(name, source, score(source)) for name, source in self.seen.items()]
        hits = [{"_id": n, "_score": s, "_source": source} for n, source, s in scored if s is not None]
        if "sort" in body:
            ((field, order),) = body["sort"][0].items()
            assert self.kinds[field] == "keyword"
            assert order == "asc"
            hits = sorted(({**hit, "sort": [hit["_source"][field]]} for hit in hits), key=lambda hit: hit["sort"])
            hits = [hit for hit in hits if hit["sort"] > body.get("search_after", [""])]
        else:
            hits.sort(key=lambda hit: -hit["_score"])
        for hit in hits[: body["size"]]:
            if "_source" in body:
                hit["_source"] = {name: hit["_source"][name] for name in body["_source"]}
        return hits[: body["size"]]

    def scorer(self, query: dict[str, Any]) -> Callable[[dict[str, Any]], float | None]:
        ((kind, body),) = query.items()
        if kind == "match_all":
            return lambda source: 1.0
        if kind != "bool":
            raise Refused(f"unknown query [{kind}]", "parsing_exception")
        only(body, "should minimum_should_match filter", "bool")
        if len(body["should"]) > 1024:
            raise Refused("maxClauseCount is set to 1024", "too_many_clauses")
        features = [self.feature(clause) for clause in body["should"]]
        holds = [self.condition(clause) for clause in body["filter"]]
        assert body["minimum_should_match"] == 1

        def score(source: dict[str, Any]) -> float | None:
            parts = [boost * rounded(source["vector"][name]) for name, boost in features if name in source["vector"]]
            return float(np.float32(sum(parts))) if parts and all(one(source["payload"]) for one in holds) else None

        return score

    def feature(self, clause: dict[str, Any]) -> tuple[str, float]:
        ((kind, body),) = clause.items()
        assert kind == "rank_feature"
        only(body, "field linear boost", kind)
        field, _, name = body["field"].rpartition(".")
        if self.kinds.get(field) != "rank_features" or body["linear"] != {} or not body["boost"] >= 0:
            raise Refused(f"[rank_feature] cannot be asked like this: {body}")
        return name, float(np.float32(body["boost"]))

    def condition(self, clause: dict[str, Any]) -> Callable[[dict[str, Any]], bool]:
        ((kind, body),) = clause.items()
        if kind == "bool":
            only(body, "must_not" if "must_not" in body else "should minimum_should_match", kind)
            clauses = [self.condition(one) for one in body.get("must_not") or body["should"]]
            assert "must_not" in body or body["minimum_should_match"] == 1
            return lambda payload: any(one(payload) for one in clauses) != ("must_not" in body)
        ((path, wanted),) = body.items()
        field = path.removeprefix("payload.")
        mapped = self.kinds.get(path)
        if mapped is None:  # a field that no document has
            return lambda payload: False
        if kind == "range":
            only(wanted, "gte gt lte lt", kind)
            assert mapped == "double"
            signs = {"gte": "__ge__", "gt": "__gt__", "lte": "__le__", "lt": "__lt__"}
            return lambda payload: (
                field in payload
                and all(getattr(float(payload[field]), signs[bound])(float(value)) for bound, value in wanted.items())
            )
        values = wanted if kind == "terms" else [wanted]
        assert kind in ("term", "terms")
        if any(isinstance(value, (dict, list)) or (mapped == "double" and isinstance(value, str)) for value in values):
            raise Refused(f"failed to create query: {clause}")
        return lambda payload: (
            payload.get(field) in values and (isinstance(payload[field], bool) == isinstance(values[0], bool))
        )


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    indexes: dict[str, Index] = {}  # noqa: RUF012

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        try:
            found = self.found(parts.path.strip("/").split("/"), parse_qs(parts.query), body)
            status = 200
        except Refused as error:
            found = {"error": {"type": error.kind, "reason": str(error)}, "status": error.status}
            status = error.status
        except Exception as error:
            found, status = {"error": {"type": "parse", "reason": repr(error)}, "status": 400}, 400
        text = b"" if self.command == "HEAD" else json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_HEAD = answer  # noqa: N815

    def found(self, path: list[str], params: dict[str, list[str]], body: bytes) -> Any:
        name, action = path[0], path[1] if len(path) > 1 else ""
        asked = (self.command, action)
        if asked == ("PUT", ""):
            if name in self.indexes or name != name.lower():
                raise Refused(f"index [{name}] exists, or its name is not one", "resource_already_exists_exception")
            self.indexes[name] = Index(json.loads(body))
            return {"acknowledged": True}
        if name not in self.indexes:
            raise Refused(f"no such index [{name}]", "index_not_found_exception", 404)
        index = self.indexes[name]
        if asked == ("HEAD", ""):
            return None
        if asked == ("GET", "_mapping"):
            return {name: {"mappings": index.mappings}}
        if asked == ("GET", "_count"):
            return {"count": len(index.seen)}
        if asked == ("POST", "_search"):
            return {"hits": {"hits": index.search(json.loads(body))}}
        if asked == ("POST", "_mget"):
            fields = params["_source_includes"][0].split(",")
            documents = [(one, index.stored.get(one)) for one in json.loads(body)["ids"]]
            return {
                "docs": [
                    {"_id": one, "found": True, "_source": {f: source[f] for f in fields}}
                    if source is not None
                    else {"_id": one, "found": False}
                    for one, source in documents
                ]
            }
        if asked == ("POST", "_bulk"):
            return self.bulk(index, params, body)
        raise Refused(f"no handler found for {asked}")

    def bulk(self, index: Index, params: dict[str, list[str]], body: bytes) -> Any:
        if self.headers["Content-Type"] != "application/x-ndjson" or not body.endswith(b"\n"):
            raise Refused("The bulk request must be terminated by a newline [\\n]")
        lines = iter([json.loads(line) for line in body.splitlines()])
        items = []
        for line in lines:
            ((kind, about),) = line.items()
            result: dict[str, Any] = {"_id": about["_id"], "status": 200}
            if kind == "delete":
                result["status"] = 200 if index.stored.pop(about["_id"], None) else 404
            else:
                assert kind == "index"
                try:
                    index.put(about["_id"], next(lines))
                except Refused as error:
                    result |= {"status": error.status, "error": {"type": error.kind, "reason": str(error)}}
            items.append({kind: result})
        if params.get("refresh") == ["true"]:
            index.seen = dict(index.stored)
        return {"errors": any("error" in result for item in items for result in item.values()), "items": items}

    def log_message(self, *_: object) -> None:
        """Quiet."""


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()
