"""PostgreSQL with pgvector 0.7 or later as an engine: a table of sparsevec, scanned exactly.

    with psycopg.connect("postgresql://...", autocommit=True) as connection:
        index = Index(PgvectorEngine(connection, "photos", made_for=describe(embeddings)))

The table is `id text primary key, vector sparsevec(D), payload jsonb`; whose vectors it holds stands in its comment.
Searches read the whole table: exact, and some 100 ms for 100,000 vectors. An HNSW index can be added by hand
(`USING hnsw (vector sparsevec_ip_ops)`, at most 1,000 non-zeros a vector); searches are then approximate.
"""

import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Floats
from nonneg_core.errors import ConfigInvalid
from nonneg_vectors.search import converters
from nonneg_vectors.search.vector_engine import SIGNS, Description, Engine, EngineHit, Payload, Where, split_condition
from nonneg_vectors.storage.embeddings import Embeddings

INCOMING = "nonneg_incoming"  # a table of one transaction


class PgvectorEngine(Engine):
    """A table; the connection is the caller's, to be opened and closed by the caller, best with autocommit."""

    noun = "table"

    def __init__(self, connection: Any, table: str, made_for: Description | None = None) -> None:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", table):
            raise ConfigInvalid(
                f"{table!r} is not a plain name of a table", fix="use letters, digits and _", field="table"
            )
        self._connection = connection
        self._table = table
        self.description = self._open(table, made_for)

    def upsert(self, embeddings: Embeddings, payloads: Sequence[Payload]) -> None:
        """Store by COPY into a table of this transaction, and from there: rows one by one take several times longer."""
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.execute(f"CREATE TEMPORARY TABLE {INCOMING} (LIKE {self._table})")
            with cursor.copy(f"COPY {INCOMING} (id, vector, payload) FROM STDIN (FORMAT BINARY)") as copy:
                copy.write(_binary(embeddings, payloads))
            cursor.execute(
                f"INSERT INTO {self._table} SELECT id, vector, payload FROM {INCOMING} "
                "ON CONFLICT (id) DO UPDATE SET vector = excluded.vector, payload = excluded.payload"
            )
            cursor.execute(f"DROP TABLE {INCOMING}")

    def delete(self, ids: Sequence[str]) -> None:
        self._connection.execute(f"DELETE FROM {self._table} WHERE id = ANY(%s)", (list(ids),))

    def nearest(self, indices: NDArray[np.int32], values: Floats, limit: int, where: Where | None) -> list[EngineHit]:
        query = Embeddings.from_rows([(indices, values)], dimensions=self.description.dimensions, fingerprint="")
        (text,) = converters.pgvector(query)
        condition, given = _conditions(where)
        rows = self._connection.execute(
            "SELECT id, payload, -(vector <#> %s::sparsevec) AS score, "
            "(SELECT obj_description(%s::regclass, 'pg_class')) "
            f"FROM {self._table} WHERE (vector <#> %s::sparsevec) < 0 {condition} ORDER BY score DESC, id LIMIT %s",
            (text, self._table, text, *given, limit),
        ).fetchall()
        for comment in {comment for *_, comment in rows}:  # a table of another model may have this name by now
            self._check_model(json.loads(comment)["fingerprint"])
        return [EngineHit(name, float(score), payload) for name, payload, score, _ in rows]

    def get(self, ids: Sequence[str]) -> Embeddings:
        rows = self._connection.execute(
            f"SELECT id, vector::text FROM {self._table} WHERE id = ANY(%s)", (list(ids),)
        ).fetchall()
        return self._embeddings((_read(text) for _, text in rows), (name for name, _ in rows))

    def payloads(self) -> dict[str, Payload]:
        return dict(self._connection.execute(f"SELECT id, payload FROM {self._table}").fetchall())

    def count(self) -> int:
        return int(self._connection.execute(f"SELECT count(*) FROM {self._table}").fetchone()[0])

    def _held(self) -> Description | None:
        place, comment = self._connection.execute(
            "SELECT to_regclass(%s), obj_description(to_regclass(%s), 'pg_class')", (self._table, self._table)
        ).fetchone()
        if place is None:
            return None
        try:
            return Description(**json.loads(comment or ""))
        except (ValueError, TypeError):
            raise self._not_ours(self._table) from None

    def _create(self, made_for: Description) -> None:
        self._connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        comment = json.dumps(asdict(made_for)).replace("'", "''")
        with self._connection.transaction():  # a table without its comment would be taken for another's
            self._connection.execute(
                f"CREATE TABLE {self._table} "
                f"(id text PRIMARY KEY, vector sparsevec({made_for.dimensions}), payload jsonb)"
            )
            self._connection.execute(f"COMMENT ON TABLE {self._table} IS '{comment}'")


def _binary(embeddings: Embeddings, payloads: Sequence[Payload]) -> bytes:
    """Return rows as COPY's binary form: a header, three fields a row, a trailer."""
    rows = [b"PGCOPY\n\xff\r\n\0" + bytes(8)]
    for name, vector, payload in zip(
        embeddings.ids or (), converters.pgvector_binary(embeddings), payloads, strict=True
    ):
        fields = (name.encode(), vector, b"\x01" + json.dumps(payload).encode())  # jsonb begins with its version
        rows.append(struct.pack(">h", len(fields)))
        rows += (part for field in fields for part in (struct.pack(">i", len(field)), field))
    return b"".join((*rows, struct.pack(">h", -1)))


def _conditions(where: Where | None) -> tuple[str, list[Any]]:
    """Return SQL behind AND, and its arguments."""
    parts: list[str] = []
    given: list[Any] = []
    for name, condition in (where or {}).items():
        if isinstance(condition, Mapping):
            bounds, unwanted = split_condition(condition)
            if bounds:
                parts.append(f"AND {_one(name, bounds, given)}")
            parts += [f"AND ({_one(name, value, given)}) IS NOT TRUE" for value in unwanted]
        elif isinstance(condition, (list, tuple)):
            parts.append(f"AND ({' OR '.join(_one(name, value, given) for value in condition)})")
        else:
            parts.append(f"AND {_one(name, condition, given)}")
    return " ".join(parts), given


def _one(name: str, condition: Any, given: list[Any]) -> str:
    """Return SQL that says that a field has this value, or lies in this range; its arguments are added to `given`."""
    if isinstance(condition, Mapping):
        bounds = split_condition(condition)[0]
        given += [part for value in bounds.values() for part in (name, value)]
        return " AND ".join(f"(payload ->> %s)::float8 {SIGNS[bound]} %s" for bound in bounds)
    given += [name, json.dumps(condition)]
    return "payload -> %s = %s::jsonb"


def _read(text: str) -> tuple[NDArray[np.int32], Floats]:
    """Return pgvector's text, counted from one, back as indices from zero and values."""
    entries = [entry.split(":") for entry in text[1 : text.index("}")].split(",") if entry]
    indices = np.array([int(i) - 1 for i, _ in entries], dtype=np.int32)
    return indices, np.array([float(v) for _, v in entries], dtype=np.float32)
