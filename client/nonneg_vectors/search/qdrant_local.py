"""The default engine: Qdrant in this process, a folder on disk, exact.

photos.index/index.json           whose vectors these are
photos.index/shard/               Qdrant's own files
photos.index/index.json.making    while it is made, locked by its maker: unlocked, the shard is what a killed run left
"""

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Floats
from nonneg_core.errors import DataInvalid, StorageFailed
from nonneg_core.files.atomic import atomic_write, storage_error
from nonneg_core.files.user_cache import locked
from nonneg_core.terminal.installing import needing
from nonneg_vectors.search.converters import NAME, encode_payload, filter_of, name_and_payload, point_id
from nonneg_vectors.search.vector_engine import Description, Engine, EngineHit, Payload, SparseWeights, Where
from nonneg_vectors.storage.embeddings import Embeddings

BATCH = 2000  # points in one update
PAGE = 1000  # points in one read
MAKING = "index.json.making"
PATIENCE = 5.0  # seconds for another process to close the index
ROOM = 2**26  # bytes: Qdrant maps its files, and writing to one without a disk behind it would end this process


class LocalEngine(Engine):
    """A folder that one process at a time has open."""

    def __init__(self, path: str | os.PathLike[str], made_for: Description | None = None, *, room: int = ROOM) -> None:
        self._room = room
        self._qdrant = import_qdrant()
        self.path = Path(path)
        if made_for is None and not (self.path / "index.json").exists():
            raise DataInvalid(f"{self.path} is not an index", fix="make one with `nonneg index`", value=str(self.path))
        self.description = self._open(str(self.path), made_for)
        self._dirty = False

    def upsert(self, embeddings: Embeddings, payloads: Sequence[Payload]) -> None:
        assert embeddings.ids is not None
        name_and_payload = zip(embeddings.ids, embeddings, payloads, strict=True)
        for batch in _batches([self._point(name, row, payload) for name, row, payload in name_and_payload], BATCH):
            self._update(self._qdrant.UpdateOperation.upsert_points(batch))

    def delete(self, ids: Sequence[str]) -> None:
        for batch in _batches([point_id(name) for name in ids], BATCH):
            self._update(self._qdrant.UpdateOperation.delete_points(batch))

    def nearest(self, indices: NDArray[np.int32], values: Floats, limit: int, where: Where | None) -> list[EngineHit]:
        return self._query(self._near((indices, values)), limit, where)

    def reranked(
        self, cut: SparseWeights, query: SparseWeights, among: int, limit: int, where: Where | None
    ) -> list[EngineHit]:
        q = self._qdrant
        first = q.Prefetch(limit=among, query=self._near(cut), filter=filter_of(q, where))
        return self._query(self._near(query), limit, None, [first])

    def get(self, ids: Sequence[str]) -> Embeddings:
        records = self._shard.retrieve([point_id(name) for name in ids], with_payload=["id"], with_vector=True)
        vectors = [record.vector[NAME] for record in records]
        return self._embeddings(((v.indices, v.values) for v in vectors), (r.payload["id"] for r in records))

    def payloads(self) -> dict[str, Payload]:
        by_id: dict[str, Payload] = {}
        offset = None
        while True:
            records, offset = self._shard.scroll(
                self._qdrant.ScrollRequest(limit=PAGE, offset=offset, with_payload=True, with_vector=False)
            )
            by_id |= dict(name_and_payload(r.payload) for r in records)
            if offset is None:
                return by_id

    def count(self) -> int:
        return int(self._shard.count(self._qdrant.CountRequest(exact=True)))

    def close(self) -> None:
        """Put everything on disk, in the form that is searched fastest."""
        if self._dirty:
            self._shard.flush()
            self._shard.optimize()
            self._shard.flush()
            self._dirty = False
        self._shard.close()

    def _near(self, weights: SparseWeights) -> Any:
        vector = self._qdrant.SparseVector(weights[0].tolist(), weights[1].tolist())
        return self._qdrant.Query.Nearest(vector, using=NAME)

    def _query(
        self, near: Any, limit: int, where: Where | None, prefetches: list[Any] | None = None
    ) -> list[EngineHit]:
        q = self._qdrant
        request = q.QueryRequest(
            limit=limit, query=near, with_payload=True, filter=filter_of(q, where), prefetches=prefetches
        )
        matches = [(point.score, name_and_payload(point.payload)) for point in self._shard.query(request)]
        return [EngineHit(name, score, payload) for score, (name, payload) in matches]

    def _open(self, name: str, made_for: Description | None) -> Description:
        if made_for is not None and self._held() is None:
            self._create(made_for)
        description = super()._open(name, made_for)  # also where another process was faster, with other vectors perhaps
        (self.path / MAKING).unlink(missing_ok=True)
        self._shard = self._opened(lambda: self._qdrant.EdgeShard.load(str(self.path / "shard")))
        return description

    def _held(self) -> Description | None:
        described = self.path / "index.json"
        if not described.exists():
            return None
        try:
            return Description(**json.loads(described.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise DataInvalid(f"{described} is damaged ({error})", fix="make the index again") from error

    def _create(self, made_for: Description) -> None:
        self._ask_for_room()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            names = {path.name for path in self.path.iterdir()}
            if names and not names & {MAKING, "index.json"}:
                raise DataInvalid(f"{self.path} is not an index, and not empty", fix="choose another folder")
            with locked(self.path / MAKING):
                if not (self.path / "index.json").exists():  # else another process made it
                    self._make(made_for)
        except OSError as error:
            raise storage_error(self.path, error) from error

    def _make(self, made_for: Description) -> None:
        """Make the shard, in place of what a killed process left of one, and last the description."""
        q = self._qdrant
        config = q.EdgeConfig(
            sparse_vectors={NAME: q.EdgeSparseVectorParams(datatype=q.VectorStorageDatatype.Float32)},
            optimizers=q.EdgeOptimizersConfig(default_segment_number=1),
        )
        shard = self.path / "shard"
        shutil.rmtree(shard, ignore_errors=True)
        shard.mkdir()
        self._opened(lambda: q.EdgeShard.create(str(shard), config)).close()
        with atomic_write(self.path / "index.json") as temporary:
            temporary.write_text(json.dumps(asdict(made_for)), encoding="utf-8")

    def _opened(self, act: Any) -> Any:
        """Return what `act` opens; an index that another process has open is waited for."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return act()
            except Exception as error:  # the bindings raise their own class, which is not public
                if not (busy := "WouldBlock" in str(error)) or time.monotonic() > until:
                    raise self._not_opened(error, busy=busy) from error
            time.sleep(0.05)

    def _not_opened(self, error: Exception, *, busy: bool) -> StorageFailed:
        if busy:
            return StorageFailed(f"{self.path} is open in another process", fix="wait for it, or stop it")
        fix = "close it elsewhere, or make it again"
        shard = self.path / "shard"
        if shard.exists() and not os.access(shard, os.W_OK):
            fix = "copy it to where you may write: an index is written to even when it is only asked"
        return StorageFailed(f"{self.path} cannot be opened ({error})", fix=fix)

    def _ask_for_room(self) -> None:
        there = next(place for place in (self.path.absolute(), *self.path.absolute().parents) if place.exists())
        free = shutil.disk_usage(there).free
        if free < self._room:
            raise StorageFailed(
                f"{self.path} lies where {free / 1e6:.0f} MB are free",
                fix=f"free {self._room / 1e6:.0f} MB and run again",
            )

    def _update(self, operation: Any) -> None:
        self._ask_for_room()
        try:
            self._shard.update(operation)
        except Exception as error:
            raise StorageFailed(
                f"{self.path} cannot be changed ({error})", fix="check the disk's free space"
            ) from error
        self._dirty = True

    def _point(self, name: str, row: tuple[NDArray[np.int32], Floats], payload: Payload) -> Any:
        vector = self._qdrant.SparseVector(row[0].tolist(), row[1].tolist())
        return self._qdrant.Point(point_id(name), {NAME: vector}, {**encode_payload(payload), "id": name})


def describe_again(path: Path, root: str, fields: Mapping[str, str]) -> None:
    """Say where the images of an index are now, and of which kind its fields are."""
    described = path / "index.json"
    description = json.loads(described.read_text(encoding="utf-8"))
    now = {**description, "root": root, "fields": {**description.get("fields", {}), **fields}}
    if now != description:
        with atomic_write(described) as temporary:
            temporary.write_text(json.dumps(now), encoding="utf-8")


def _batches(values: list[Any], size: int) -> Iterator[list[Any]]:
    return (values[start : start + size] for start in range(0, len(values), size))


def import_qdrant() -> Any:
    """Return the bindings; MissingExtra where they are not installed."""
    with needing("the local index", extra="search"):
        import qdrant_edge
    return qdrant_edge
