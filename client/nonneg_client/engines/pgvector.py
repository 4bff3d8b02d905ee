"""PostgreSQL with pgvector 0.7 or later as an engine: a table of sparsevec, scanned exactly.

    with psycopg.connect("postgresql://...", autocommit=True) as connection:
        index = Index(PgvectorEngine(connection, "photos", made_for=describe(embeddings)))

The table is `id text primary key, vector sparsevec(D), active bit(D), payload jsonb`; whose vectors it holds stands in
its comment. A search takes the vectors whose active dimensions differ least from the query's as candidates, and ranks
these by their vectors. Both stages read the whole table until an index is added by hand:
`CREATE INDEX ON photos USING hnsw (active bit_hamming_ops)`.
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
from nonneg_vectors.search.sql_conditions import conditions
from nonneg_vectors.search.vector_engine import (
    FEW,
    SIGNS,
    Description,
    Engine,
    EngineHit,
    Payload,
    Where,
    candidates_for,
    split_condition,
)
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
            with cursor.copy(f"COPY {INCOMING} (id, vector, active, payload) FROM STDIN (FORMAT BINARY)") as copy:
                copy.write(_binary(embeddings, payloads))
            cursor.execute(
                f"INSERT INTO {self._table} SELECT id, vector, active, payload FROM {INCOMING} ON CONFLICT (id) "
                "DO UPDATE SET vector = excluded.vector, active = excluded.active, payload = excluded.payload"
            )
            cursor.execute(f"DROP TABLE {INCOMING}")

    def delete(self, ids: Sequence[str]) -> None:
        self._connection.execute(f"DELETE FROM {self._table} WHERE id = ANY(%s)", (list(ids),))

    def nearest(
        self, indices: NDArray[np.int32], values: Floats, limit: int, where: Where | None, *, exact: bool = False
    ) -> list[EngineHit]:
        query = Embeddings.from_rows([(indices, values)], dimensions=self.description.dimensions, fingerprint="")
        (text,) = converters.pgvector(query)
        clauses, given = conditions(where, _one)
        exact = exact or len(indices) <= FEW
        source = f"SELECT id, payload, vector FROM {self._table}{' WHERE ' * bool(clauses)}{' AND '.join(clauses)}"
        if not exact:
            bits = "".join("01"[bit] for bit in (query.numpy()[0] > 0).tolist())
            source += f" ORDER BY active <~> %s::bit({query.dimensions}) LIMIT %s"
            given += [bits, candidates_for(limit)]
        rows = self._connection.execute(
            "SELECT id, payload, -(vector <#> %s::sparsevec) AS score, "
            f"(SELECT obj_description(%s::regclass, 'pg_class')) FROM ({source}) AS candidates "
            "WHERE (vector <#> %s::sparsevec) < 0 ORDER BY score DESC, id LIMIT %s",
            (text, self._table, *given, text, limit),
        ).fetchall()
        for comment in {comment for *_, comment in rows}:  # a table of another model may have this name by now
            self._check_model(json.loads(comment)["fingerprint"])
        return [EngineHit(name, float(score), payload, exact) for name, payload, score, _ in rows]

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
                f"(id text PRIMARY KEY, vector sparsevec({made_for.dimensions}), "
                f"active bit({made_for.dimensions}), payload jsonb)"
            )
            self._connection.execute(f"COMMENT ON TABLE {self._table} IS '{comment}'")


def _binary(embeddings: Embeddings, payloads: Sequence[Payload]) -> bytes:
    """Return rows as COPY's binary form: a header, four fields a row, a trailer."""
    rows = [b"PGCOPY\n\xff\r\n\0" + bytes(8)]
    width = struct.pack(">i", embeddings.dimensions)
    vectors, bits = converters.pgvector_binary(embeddings), np.packbits(embeddings.numpy() > 0, axis=1)
    for name, vector, active, payload in zip(embeddings.ids or (), vectors, bits, payloads, strict=True):
        # jsonb begins with its version
        fields = (name.encode(), vector, width + active.tobytes(), b"\x01" + json.dumps(payload).encode())
        rows.append(struct.pack(">h", len(fields)))
        rows += (part for field in fields for part in (struct.pack(">i", len(field)), field))
    return b"".join((*rows, struct.pack(">h", -1)))


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
