"""PostgreSQL with pgvector 0.7 or later as an engine: a table of sparsevec, scanned exactly.

    with psycopg.connect("postgresql://...", autocommit=True) as connection:
        index = Index(PgvectorEngine(connection, "photos", made_for=describe(embeddings)))

The table is `id text primary key, vector sparsevec(D), payload jsonb`; whose vectors it holds stands in its comment.
Searches read the whole table: exact, and some 100 ms for 100,000 vectors. An HNSW index can be added by hand
(`USING hnsw (vector sparsevec_ip_ops)`, at most 1,000 non-zeros a vector); searches are then approximate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_client import converters
from nonneg_client.embeddings import Embeddings
from nonneg_client.search.engine import Description, Found, Payload, Where, parted
from nonneg_client.search.rerank import reranked
from nonneg_client.search.weights import Weights
from nonneg_core.errors import ConfigInvalid, DataInvalid, FingerprintMismatch

_SIGNS = {"gte": ">=", "gt": ">", "lte": "<=", "lt": "<"}


class PgvectorEngine:
    """A table; the connection is the caller's, to be opened and closed by the caller, best with autocommit."""

    def __init__(self, connection: Any, table: str, made_for: Description | None = None) -> None:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", table):
            raise ConfigInvalid(
                f"{table!r} is no plain name of a table", fix="use letters, digits and _", field="table"
            )
        self._connection = connection
        self._table = table
        self.description = self._describe(made_for)

    def upsert(self, embeddings: Embeddings, payloads: Sequence[Payload]) -> None:
        rows = zip(embeddings.ids or (), converters.pgvector(embeddings), map(json.dumps, payloads), strict=True)
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {self._table} (id, vector, payload) VALUES (%s, %s::sparsevec, %s::jsonb) "
                "ON CONFLICT (id) DO UPDATE SET vector = excluded.vector, payload = excluded.payload",
                list(rows),
            )

    def delete(self, ids: Sequence[str]) -> None:
        self._connection.execute(f"DELETE FROM {self._table} WHERE id = ANY(%s)", (list(ids),))

    def nearest(
        self, indices: NDArray[np.int32], values: NDArray[np.float32], limit: int, where: Where | None
    ) -> list[Found]:
        query = Embeddings.from_rows([(indices, values)], dimensions=self.description.dimensions, fingerprint="")
        (text,) = converters.pgvector(query)
        condition, given = _conditions(where)
        rows = self._connection.execute(
            f"SELECT id, payload, -(vector <#> %s::sparsevec) AS score FROM {self._table} "
            f"WHERE (vector <#> %s::sparsevec) < 0 {condition} ORDER BY score DESC, id LIMIT %s",
            (text, text, *given, limit),
        )
        return [Found(name, float(score), payload) for name, payload, score in rows]

    def reranked(self, cut: Weights, query: Weights, among: int, limit: int, where: Where | None) -> list[Found]:
        return reranked(self, cut, query, among, limit, where)

    def get(self, ids: Sequence[str]) -> Embeddings:
        rows = self._connection.execute(
            f"SELECT id, vector::text FROM {self._table} WHERE id = ANY(%s)", (list(ids),)
        ).fetchall()
        held = self.description
        return Embeddings.from_rows(
            [_read(text) for _, text in rows],
            dimensions=held.dimensions,
            fingerprint=held.fingerprint,
            model=held.model,
            ids=tuple(name for name, _ in rows),
        )

    def payloads(self) -> dict[str, Payload]:
        return dict(self._connection.execute(f"SELECT id, payload FROM {self._table}").fetchall())

    def count(self) -> int:
        return int(self._connection.execute(f"SELECT count(*) FROM {self._table}").fetchone()[0])

    def close(self) -> None:
        """Nothing: the connection is the caller's."""

    def _describe(self, made_for: Description | None) -> Description:
        (comment,) = self._connection.execute(
            "SELECT obj_description(to_regclass(%s), 'pg_class')", (self._table,)
        ).fetchone()
        if comment is not None:
            held = Description(**json.loads(comment))
            if made_for is not None and made_for.fingerprint != held.fingerprint:
                raise FingerprintMismatch(
                    f"{self._table} holds vectors of {held.fingerprint}, not of {made_for.fingerprint}",
                    fix="use the model it was made with, or another table",
                )
            return held
        if made_for is None:
            raise DataInvalid(f"there is no table {self._table} of ours", fix="give made_for= to make it")
        self._connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        self._connection.execute(
            f"CREATE TABLE {self._table} (id text PRIMARY KEY, vector sparsevec({made_for.dimensions}), payload jsonb)"
        )
        comment = json.dumps(asdict(made_for)).replace("'", "''")
        self._connection.execute(f"COMMENT ON TABLE {self._table} IS '{comment}'")
        return made_for


def _conditions(where: Where | None) -> tuple[str, list[Any]]:
    """SQL behind AND, and its arguments."""
    parts: list[str] = []
    given: list[Any] = []
    for name, wanted in (where or {}).items():
        if isinstance(wanted, Mapping):
            bounds, unwanted = parted(wanted)
            for bound, value in bounds.items():
                parts.append(f"AND (payload ->> %s)::float8 {_SIGNS[bound]} %s")
                given += [name, value]
            for value in unwanted:
                parts.append("AND payload -> %s IS DISTINCT FROM %s::jsonb")
                given += [name, json.dumps(value)]
        elif isinstance(wanted, (list, tuple)):
            parts.append("AND payload -> %s = ANY(%s::jsonb[])")
            given += [name, [json.dumps(value) for value in wanted]]
        else:
            parts.append("AND payload -> %s = %s::jsonb")
            given += [name, json.dumps(wanted)]
    return " ".join(parts), given


def _read(text: str) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """pgvector's text, counted from one, back as indices from zero and values."""
    entries = [entry.split(":") for entry in text[1 : text.index("}")].split(",") if entry]
    indices = np.array([int(i) - 1 for i, _ in entries], dtype=np.int32)
    return indices, np.array([float(v) for _, v in entries], dtype=np.float32)
