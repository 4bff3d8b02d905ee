"""Many vectors into an engine: in batches of so many bytes, each stored whole, and gone on with after an interruption.

What is stored is noted by the parts it came from (a shard, a row group), in the cache: the same command leaves these
out. Vectors are stored under their ids, so that a part that is stored twice is there once. The notes are forgotten when
the engine holds less than they say: its table was dropped, or is another's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from nonneg_client.data_set.addresses import Address
from nonneg_client.data_set.layout import read_manifest, read_shard
from nonneg_client.embeddings import Embeddings
from nonneg_client.search.connectors.engine import Description
from nonneg_client.search.index import Index, describe
from nonneg_client.storage import load, parquet
from nonneg_core.atomic import atomic_write
from nonneg_core.cache_folder import cache_folder
from nonneg_core.errors import DataInvalid

BATCH_BYTES = 4 * 2**20
ENTRY_BYTES = 8  # an index and a value
ROWS = 50_000  # of a part of a file that is read whole


@dataclass(frozen=True)
class Part:
    """Some vectors of a source, read when their turn comes."""

    key: str  # changes when they may have changed
    read: Callable[[], Embeddings]


@dataclass(frozen=True)
class Form:
    """How vectors are cut before they are stored."""

    dimensions: int | None = None
    keep: int | None = None

    def of(self, embeddings: Embeddings) -> Embeddings:
        if self.dimensions is None and self.keep is None:
            return embeddings if embeddings.normalized else embeddings.shorten()
        return embeddings.shorten(self.dimensions, self.keep)

    def described(self, embeddings: Embeddings) -> Description:
        """What an index of these vectors says of itself."""
        return replace(describe(self.of(embeddings[:0])), kept=self.keep)


def parts_of(name: str) -> Iterator[Part]:
    """The parts of a file of vectors or of a data set."""
    if "://" in name or Path(name).is_dir():
        target = Address.of(name)
        for shard in read_manifest(target).shards:
            yield Part(f"{shard.name}:{shard.bytes}:{shard.entries}", lambda shard=shard: read_shard(target, shard))  # type: ignore[misc]
        return
    path = Path(name)
    looks = path.stat() if path.is_file() else None
    stamp = f"{path.resolve()}:{looks.st_size}:{looks.st_mtime_ns}" if looks else name
    for number, some in enumerate(_of_file(path)):
        yield Part(f"{stamp}:{number}", lambda some=some: some)  # type: ignore[misc]


def _of_file(path: Path) -> Iterator[Embeddings]:
    if path.suffix.lower() == ".parquet" and path.is_file():
        yield from (part for part in parquet.parts(path) if len(part))
        return
    whole = load(path)
    for start in range(0, len(whole), ROWS):
        yield whole[start : start + ROWS]


def batches(embeddings: Embeddings, most: int) -> Iterator[Embeddings]:
    """Neighbouring vectors with at most so many bytes together, at least one of them."""
    start = 0
    while start < len(embeddings):
        room = embeddings.indptr[start] + most // ENTRY_BYTES
        stop = max(start + 1, int(embeddings.indptr.searchsorted(room, side="right")) - 1)
        yield embeddings[start:stop]
        start = stop


class Journal:
    """Which parts an engine holds."""

    def __init__(self, engine: str, url: str, name: str, form: Form) -> None:
        said = json.dumps([engine, url, name, form.dimensions, form.keep])
        self._path = cache_folder("indexed") / f"{hashlib.sha256(said.encode()).hexdigest()[:32]}.json"
        self._done: dict[str, int] = {}
        if self._path.is_file():
            try:
                self._done = json.loads(self._path.read_bytes())
            except ValueError:
                self._done = {}  # what is stored again is there once

    def __contains__(self, key: object) -> bool:
        return key in self._done

    def of(self, key: str) -> int:
        """How many vectors a part has."""
        return self._done[key]

    @property
    def vectors(self) -> int:
        """How many the engine is to hold."""
        return sum(self._done.values())

    def forget(self) -> None:
        """Begin again."""
        self._done = {}

    def add(self, key: str, vectors: int) -> None:
        """Note a part."""
        self._done[key] = vectors
        with atomic_write(self._path) as temporary:
            temporary.write_text(json.dumps(self._done))


@dataclass
class Stored:
    """What came of a run."""

    new: int = 0  # vectors stored now
    before: int = 0  # left out, since they had been stored


def store(
    index: Index,
    sources: Iterable[Part],
    journal: Journal,
    form: Form,
    *,
    batch_bytes: int = BATCH_BYTES,
    told: Callable[[Stored], object] = lambda _: None,
    held: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Stored:
    """Store what is not stored yet. `held`: a context in which nothing interrupts, for the note of a part."""
    if len(index) < journal.vectors:
        journal.forget()
    stored = Stored()
    for part in sources:
        if part.key in journal:
            stored.before += journal.of(part.key)
            continue
        embeddings = part.read()
        for batch in batches(form.of(embeddings), batch_bytes):
            index.add(batch, [{"folder": PurePosixPath(name).parent.name} for name in _named(batch)])
            stored.new += len(batch)
            told(stored)
        with held():
            journal.add(part.key, len(embeddings))
    return stored


def _named(embeddings: Embeddings) -> tuple[str, ...]:
    if embeddings.ids is None:
        raise DataInvalid("vectors without ids cannot be found again", fix="embeddings.named([...])")
    return embeddings.ids
