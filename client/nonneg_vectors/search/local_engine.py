"""The default engine: a folder on disk, searched in two stages by this process.

photos.index/index.json           whose vectors these are
photos.index/photos.sqlite        names and payloads, and how much of the rows counts
photos.index/rows.0, values.0     the vectors, in the order in which they came
photos.index/first.faiss          the first stage; made again from the rows where it is missing
photos.index/index.json.making    while the folder is made, locked by its maker

What is changed counts once SQLite has committed it. Many processes may search at once, also while one writes.
"""

import json
import os
import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Floats, Numbers
from nonneg_core.errors import DataInvalid, StorageFailed
from nonneg_core.files.atomic import atomic_write, storage_error
from nonneg_core.files.user_cache import locked
from nonneg_vectors.expressions.weightings import Unlike
from nonneg_vectors.search.columns import largest_first
from nonneg_vectors.search.first_stage import SAMPLE, FirstStage, dense
from nonneg_vectors.search.row_files import AT_ONCE, Extent, RowFiles
from nonneg_vectors.search.sql_conditions import conditions, field_in_sqlite, in_sqlite
from nonneg_vectors.search.vector_engine import (
    FEW,
    Description,
    Engine,
    EngineHit,
    Payload,
    SparseWeights,
    Where,
    candidates_for,
)
from nonneg_vectors.storage import csr
from nonneg_vectors.storage.csr import CsrRows
from nonneg_vectors.storage.embeddings import Embeddings

MAKING = "index.json.making"
PATIENCE = 5.0  # seconds for another process to finish what it writes
ALL = 1000  # rows that are ranked without a first stage
HELD = 6_000_000  # bytes of values, 4 million of them, that are held in memory as 32 million bytes
ALL_FILTERED = 20_000  # rows left by conditions that are
GROWTH = 4  # times as many candidates where too few of them may be answered
TABLES = """
CREATE TABLE photos (row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, payload TEXT NOT NULL);
CREATE TABLE state (rows INTEGER, bytes INTEGER, photos INTEGER, fitted INTEGER, generation INTEGER);
INSERT INTO state VALUES (0, 0, 0, 0, 0);
"""


class State(NamedTuple):
    """What SQLite says of the other files: how much of them counts."""

    rows: int
    bytes: int
    photos: int  # rows that were neither deleted nor replaced
    fitted: int  # rows that there were when the first stage was fitted
    generation: int


class LocalEngine(Engine):
    """A folder; one process at a time changes it."""

    def __init__(self, path: str | os.PathLike[str], made_for: Description | None = None) -> None:
        self.path = Path(path)
        if made_for is None and not (self.path / "index.json").exists():
            raise DataInvalid(f"{self.path} is not an index", fix="make one with `nonneg index`", value=str(self.path))
        self._asking = threading.RLock()
        self._changed = False
        self._first: FirstStage | None = None
        self._written = 0  # rows whose codes are in the file of the first stage
        self._alive: tuple[State, Numbers] | None = None
        self._held_rows: CsrRows | None = None  # all rows of a small index
        self._rows: RowFiles
        self.description = self._open(str(self.path), made_for)

    def upsert(self, embeddings: Embeddings, payloads: Sequence[Payload]) -> None:
        ids = embeddings.ids or ()
        with self._changing() as state:
            after = self._rows.append(embeddings, Extent(state.rows, state.bytes))
            replaced = self._forget(ids)
            rows = zip(range(state.rows, after.rows), ids, map(_written, payloads), strict=True)
            self._database.executemany("INSERT INTO photos VALUES (?, ?, ?)", rows)
            photos = state.photos - replaced + len(ids)
            self._database.execute("UPDATE state SET rows = ?, bytes = ?, photos = ?", (*after, photos))

    def delete(self, ids: Sequence[str]) -> None:
        with self._changing() as state:
            self._database.execute("UPDATE state SET photos = ?", (state.photos - self._forget(ids),))

    def describe_photos(self, payloads: Mapping[str, Payload]) -> None:
        """Replace what is said of photos; their vectors stay."""
        with self._changing():
            given = [(_written(payload), name) for name, payload in payloads.items()]
            self._database.executemany("UPDATE photos SET payload = ? WHERE id = ?", given)

    def nearest(
        self, indices: NDArray[np.int32], values: Floats, limit: int, where: Where | None, *, exact: bool = False
    ) -> list[EngineHit]:
        return self.best([(indices, values)], limit, where, exact=exact)

    def best(
        self,
        parts: Sequence[SparseWeights],
        k: int,
        where: Where | None = None,
        without: Sequence[int] = (),
        exclude: Collection[str] = (),
        unlike: Sequence[Unlike] = (),
        *,
        exact: bool = False,
    ) -> list[EngineHit]:
        with self._asking:
            state = self._refreshed()
            allowed = self._allowed(state, where, exclude)
            few = all(len(indices) <= FEW for indices, _ in parts)
            ranked = few and not (without or unlike)  # by the columns alone
            depth = k if ranked else candidates_for(k, state.rows)
            all_of_them = ALL_FILTERED if where else k if ranked else ALL
            while True:
                whole = exact or len(allowed) <= max(all_of_them, depth)
                near = allowed if whole else self._candidates(state, parts, allowed, depth, few=few)
                rows, scores = self._ranked(near, parts, k, without, unlike)
                if len(rows) == k or whole or (few and len(near) < depth):
                    return self._hits(rows, scores, exact=whole or few)
                depth *= GROWTH

    def get(self, ids: Sequence[str]) -> Embeddings:
        with self._asking:
            self._refreshed()
            query = "SELECT row, id FROM photos WHERE id IN (SELECT value FROM json_each(?)) ORDER BY row"
            named = self._database.execute(query, (json.dumps(list(ids)),)).fetchall()
            rows = self._rows.take(np.array([row for row, _ in named], np.int64))
        profile = self.description
        names = tuple(name for _, name in named)
        return Embeddings(*rows, profile.dimensions, profile.fingerprint, profile.model, names)

    def payloads(self) -> dict[str, Payload]:
        with self._asking:
            return {name: json.loads(text) for name, text in self._database.execute("SELECT id, payload FROM photos")}

    def count(self) -> int:
        with self._asking:
            return self._state().photos

    def close(self) -> None:
        """Write the first stage, so that the next search need not make it."""
        with self._asking:
            if self._changed:
                state = self._refreshed()
                if state.rows > 2 * state.photos + ALL:
                    self._rewrite()
                    state = self._refreshed()
                for name in ("folder", *(self._held() or self.description).fields):
                    index = f"payload of {name}".replace('"', '""')
                    self._database.execute(f'CREATE INDEX IF NOT EXISTS "{index}" ON photos ({field_in_sqlite(name)})')
                if state.rows > ALL:
                    self._first_stage(state)
            if self._first is not None and len(self._first) > self._written:
                with suppress(StorageFailed):  # it is made again
                    self._first.write(self.path / "first.faiss")
            self._database.close()

    # The two stages.

    def _candidates(
        self, state: State, parts: Sequence[SparseWeights], allowed: Numbers, depth: int, *, few: bool
    ) -> Numbers:
        """Return the rows that seem nearest, of those that may be answered: of a query of few dimensions, that are."""
        if few:
            sums = np.minimum.reduce([self._sums(part) for part in parts])[allowed]
            return allowed[largest_first(sums, np.flatnonzero(sums > 0), depth)]
        first, depth = self._first_stage(state), round(depth * state.rows / len(allowed))
        near = np.unique(np.concatenate([first.candidates(weights, depth) for weights in self._dense(parts)]))
        return near if len(allowed) == state.rows else np.intersect1d(near, allowed, assume_unique=True)

    def _sums(self, part: SparseWeights) -> Floats:
        """Return the inner product of every row with a few dimensions."""
        sums = np.zeros(len(self._rows), np.float32)
        for dimension, weight in zip(*part, strict=True):
            rows, values = self._rows.column(int(dimension))
            sums[rows] += weight * values
        return sums

    def _ranked(
        self,
        rows: Numbers,
        parts: Sequence[SparseWeights],
        k: int,
        without: Sequence[int],
        unlike: Sequence[Unlike],
    ) -> tuple[Numbers, Floats]:
        """Return the k of these rows with the largest smallest inner product with the parts, and these products."""
        weights = self._dense([*parts, *(one.row for one in unlike)])
        lines = np.array([one.line for one in unlike], np.float32)
        unwanted = np.zeros(self.description.dimensions, bool)
        unwanted[list(without)] = True
        scores = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), AT_ONCE):
            vectors = self._taken(rows[start : start + AT_ONCE])
            products = [csr.row_sums(vectors, z.take(vectors.indices) * vectors.values) for z in weights]
            block = np.minimum.reduce(products[: len(parts)])
            for product, line in zip(products[len(parts) :], lines, strict=True):
                block[product >= line] = 0
            if len(without):
                block[csr.row_sums(vectors, unwanted[vectors.indices].astype(np.float32)) > 0] = 0
            scores[start : start + AT_ONCE] = block
        order = largest_first(scores, np.flatnonzero(scores > 0), k)
        return rows[order], scores[order]

    def _taken(self, rows: Numbers) -> CsrRows:
        """Return vectors; those of a small index are read once."""
        if self._rows.bytes > HELD:
            return self._rows.take(rows)
        if self._held_rows is None or len(self._held_rows.indptr) <= len(self._rows):
            self._held_rows = csr.concatenate([block for _, block in self._rows.blocks()])
        return csr.pick(self._held_rows, rows)

    def _dense(self, parts: Sequence[SparseWeights]) -> list[Floats]:
        weights = np.zeros((len(parts), self.description.dimensions), np.float32)
        for z, (indices, values) in zip(weights, parts, strict=True):
            z[indices] = values
        return list(weights)

    def _hits(self, rows: Numbers, scores: Floats, *, exact: bool) -> list[EngineHit]:
        query = "SELECT row, id, payload FROM photos WHERE row IN (SELECT value FROM json_each(?))"
        named = {row: rest for row, *rest in self._database.execute(query, (json.dumps(rows.tolist()),))}
        return [
            EngineHit(named[row][0], score, json.loads(named[row][1]), exact)
            for row, score in zip(rows.tolist(), scores.tolist(), strict=True)
        ]

    def _allowed(self, state: State, where: Where | None, exclude: Collection[str]) -> Numbers:
        """Return the rows that may be answered, rising."""
        if where:
            clauses, given = conditions(where, in_sqlite)
            query = f"SELECT row FROM photos WHERE {' AND '.join(clauses)} ORDER BY row"
            allowed = self._numbers(query, given)
        else:
            if self._alive is None or self._alive[0] != state:
                whole = state.photos == state.rows
                alive = np.arange(state.rows) if whole else self._numbers("SELECT row FROM photos ORDER BY row", [])
                self._alive = state, alive
            allowed = self._alive[1]
        if not exclude:
            return allowed
        query = "SELECT row FROM photos WHERE id IN (SELECT value FROM json_each(?))"
        return np.setdiff1d(allowed, self._numbers(query, [json.dumps(list(exclude))]), assume_unique=True)

    def _numbers(self, query: str, given: list[Any]) -> Numbers:
        return np.fromiter((row for (row,) in self._database.execute(query, given)), np.int64)

    def _first_stage(self, state: State) -> FirstStage:
        """Return the codes of all rows: read, made of the rows that are new, or fitted again where there are many."""
        path = self.path / "first.faiss"
        if self._first is None and state.fitted and path.exists():
            with suppress(RuntimeError):  # of FAISS: the file is damaged
                self._first = FirstStage.read(path)
                self._written = len(self._first)
        outgrown = state.fitted < SAMPLE and state.rows >= GROWTH * state.fitted
        if self._first is None or outgrown or len(self._first) > state.rows:
            sample = np.linspace(0, state.rows - 1, min(state.rows, SAMPLE)).astype(np.int64)
            self._first = FirstStage.fit(dense(self._rows.take(sample), self.description.dimensions))
            self._written = 0
            with suppress(StorageFailed), self._changing(changed=self._changed):
                self._database.execute("UPDATE state SET fitted = ?", (state.rows,))
        while len(self._first) < state.rows:
            rows = np.arange(len(self._first), min(len(self._first) + AT_ONCE, state.rows))
            self._first.add(self._rows.take(rows), self.description.dimensions)
        return self._first

    # The files.

    @contextmanager
    def _changing(self, *, changed: bool = True) -> Iterator[State]:
        """Give the state for a change that SQLite commits whole or not at all."""
        with self._asking, self._told():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._state()
                self._database.execute("COMMIT")
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._changed = changed

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Raise StorageFailed where the disk, or another process, does not allow what is done inside."""
        try:
            yield
        except OSError as error:
            raise storage_error(self.path, error) from error
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise StorageFailed(
                    f"{self.path} is written by another process", fix="wait for it, or stop it"
                ) from error
            raise StorageFailed(
                f"{self.path} cannot be written ({error})", fix="check the disk's free space, and who may write there"
            ) from error

    def _state(self) -> State:
        return State(*self._database.execute("SELECT * FROM state").fetchone())

    def _refreshed(self) -> State:
        """Return the state, and map what was written since."""
        state = self._state()
        if state.generation != self._rows.generation:
            self._rows = RowFiles(self.path, self.description.dimensions, state.generation)
            self._first = self._held_rows = None
        self._rows.map(Extent(state.rows, state.bytes))
        return state

    def _forget(self, ids: Sequence[str]) -> int:
        query = "DELETE FROM photos WHERE id IN (SELECT value FROM json_each(?))"
        return self._database.execute(query, (json.dumps(list(ids)),)).rowcount

    def _rewrite(self) -> None:
        """Write the rows that still count to new files."""
        with self._changing() as state:
            before = self._rows
            alive = self._allowed(state, None, ())
            after = RowFiles(self.path, self.description.dimensions, state.generation + 1)
            extent = Extent()
            for start in range(0, len(alive), AT_ONCE):
                rows = before.take(alive[start : start + AT_ONCE])
                profile = self.description
                extent = after.append(Embeddings(*rows, profile.dimensions, profile.fingerprint), extent)
            numbers = zip(range(len(alive)), alive.tolist(), strict=True)  # rising: no two rows have one number
            self._database.executemany("UPDATE photos SET row = ? WHERE row = ?", numbers)
            changes = (*extent, after.generation)
            self._database.execute("UPDATE state SET rows = ?, bytes = ?, generation = ?, fitted = 0", changes)
        before.remove()

    def _open(self, name: str, made_for: Description | None) -> Description:
        if made_for is not None and self._held() is None:
            self._create(made_for)
        description = super()._open(name, made_for)  # also where another process was faster, with other vectors perhaps
        (self.path / MAKING).unlink(missing_ok=True)
        if not (self.path / "photos.sqlite").exists():
            raise StorageFailed(f"{self.path} cannot be opened (it holds no photos.sqlite)", fix="make it again")
        self._database = self._connection()
        self._rows = RowFiles(self.path, description.dimensions, self._state().generation)
        return description

    def _connection(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.path / "photos.sqlite", timeout=PATIENCE, isolation_level=None, check_same_thread=False
        )

    def _held(self) -> Description | None:
        described = self.path / "index.json"
        if not described.exists():
            return None
        try:
            return Description(**json.loads(described.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise DataInvalid(f"{described} is damaged ({error})", fix="make the index again") from error

    def _create(self, made_for: Description) -> None:
        with self._told():
            self.path.mkdir(parents=True, exist_ok=True)
            names = {path.name for path in self.path.iterdir()}
            if names and not names & {MAKING, "index.json"}:
                raise DataInvalid(f"{self.path} is not an index, and not empty", fix="choose another folder")
            with locked(self.path / MAKING):
                if not (self.path / "index.json").exists():  # else another process made it
                    self._make(made_for)

    def _make(self, made_for: Description) -> None:
        """Make the tables, in place of what a killed process left of them, and last the description."""
        for place in self.path.glob("photos.sqlite*"):
            place.unlink()
        with self._connection() as database:
            database.executescript(TABLES)
        database.close()
        with atomic_write(self.path / "index.json") as temporary:
            temporary.write_text(json.dumps(asdict(made_for)), encoding="utf-8")


def describe_again(path: Path, root: str, fields: Mapping[str, str]) -> None:
    """Say where the images of an index are now, and of which kind its fields are."""
    described = path / "index.json"
    description = json.loads(described.read_text(encoding="utf-8"))
    now = {**description, "root": root, "fields": {**description.get("fields", {}), **fields}}
    if now != description:
        with atomic_write(described) as temporary:
            temporary.write_text(json.dumps(now), encoding="utf-8")


def _written(payload: Payload) -> str:
    return json.dumps(dict(payload), ensure_ascii=False)
