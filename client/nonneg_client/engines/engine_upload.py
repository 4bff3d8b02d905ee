"""Engines by name and address, and many vectors put into one: in batches, gone on with after an interruption."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

from nonneg_core.errors import ConfigInvalid, ConnectionFailed, NonnegError
from nonneg_core.files.atomic import storage_error
from nonneg_core.files.user_cache import cache_folder
from nonneg_core.terminal.installing import needing
from nonneg_vectors.search.converters import checked_ids
from nonneg_vectors.search.index import Index, describe
from nonneg_vectors.search.vector_engine import Description, Engine
from nonneg_vectors.storage import parquet
from nonneg_vectors.storage.addresses import Address
from nonneg_vectors.storage.data_set_files import read_manifest, read_shard
from nonneg_vectors.storage.embeddings import Embeddings
from nonneg_vectors.storage.vector_files import load

KEY = "NONNEG_ENGINE_KEY"  # of a Qdrant server that wants one


@contextmanager
def opened(engine: str, url: str, name: str, made_for: Description | None) -> Iterator[Engine]:
    """Open the table, collection or index of this name; it is made for these vectors if it does not exist."""
    try:
        with OPENERS[engine](url, name, made_for) as backend:
            yield backend
    except NonnegError:
        raise
    except Exception as error:  # each client has errors of its own
        if type(error).__module__.partition(".")[0] in ("psycopg", "qdrant_client", "httpx", "grpc"):
            raise ConnectionFailed(
                f"the engine {engine} at {_without_password(url)} failed ({type(error).__name__}: {error})",
                fix="check its address and its log, and give the same command again: it goes on",
            ) from error
        raise


@contextmanager
def _pgvector(url: str, name: str, made_for: Description | None) -> Iterator[Engine]:
    from nonneg_client.engines.pgvector import PgvectorEngine

    with _client("psycopg").connect(url, autocommit=True) as connection:
        yield PgvectorEngine(connection, name, made_for)


@contextmanager
def _qdrant(url: str, name: str, made_for: Description | None) -> Iterator[Engine]:
    module = _client("qdrant_client", "qdrant-client")
    from nonneg_client.engines.qdrant import QdrantEngine

    client = module.QdrantClient(url=url, api_key=os.environ.get(KEY))
    try:
        yield QdrantEngine(client, name, made_for)
    finally:
        client.close()


OPENERS: dict[str, Callable[..., Any]] = {
    "qdrant": _qdrant,
    "pgvector": _pgvector,
}


def _client(module: str, package: str | None = None) -> Any:
    with needing("this engine", package=package or module):
        return import_module(module)


def check_url(url: str) -> str:
    """Return the address, if it is one."""
    if "://" not in url:
        raise ConfigInvalid(f"{url} is not an address", fix="give one such as postgresql://host/database", field="url")
    return url


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


# Many vectors into an engine: in batches of so many bytes, each stored whole, and gone on with after an interruption.
#
# What is stored is noted by the parts it came from (a shard, a row group), in the cache: the same command leaves
# these out. Vectors are stored under their ids, so that a part that is stored twice is there once. The notes are
# forgotten when the engine holds less than they say of this run's parts: its table was dropped, or is another's. What
# they say of other parts does not count: a shard that was replaced by a larger one had the same ids.

BATCH_BYTES = 4 * 2**20
ENTRY_BYTES = 8  # an index and a value
ROWS = 50_000  # of a part of a file that is read whole


@dataclass(frozen=True)
class Part:
    """Some vectors of a source, read when their turn comes."""

    key: str  # changes when they may have changed
    read: Callable[[], Embeddings]


@dataclass(frozen=True)
class StoredForm:
    """How vectors are cut before they are stored."""

    dimensions: int | None = None
    keep: int | None = None

    def of(self, embeddings: Embeddings) -> Embeddings:
        if self.dimensions is None and self.keep is None:
            return embeddings if embeddings.normalized else embeddings.shorten()
        return embeddings.shorten(self.dimensions, self.keep)

    def described(self, embeddings: Embeddings) -> Description:
        """Return what an index of these vectors says of itself."""
        return replace(describe(self.of(embeddings[:0])), kept=self.keep)


def parts_of(name: str) -> Iterator[Part]:
    """Yield the parts of a file of vectors or of a data set."""
    if "://" in name or Path(name).is_dir():
        target = Address.of(name)
        for shard in read_manifest(target).shards:
            yield Part(f"{shard.name}:{shard.bytes}:{shard.entries}", lambda shard=shard: read_shard(target, shard))  # type: ignore[misc]
        return
    path = Path(name)
    looks = path.stat() if path.is_file() else None
    stamp = f"{path.resolve()}:{looks.st_size}:{looks.st_mtime_ns}" if looks else name
    for number, read in enumerate(_of_file(path, stamp)):
        yield Part(f"{stamp}:{number}", read)


def _of_file(path: Path, stamp: str) -> Iterator[Callable[[], Embeddings]]:
    """Yield what reads each part of a file: row groups of Parquet, rows of others."""
    if path.suffix.lower() == ".parquet" and path.is_file():
        for group in range(parquet.row_groups(path)):
            yield partial(parquet.part, path, group)
        return
    for start in range(0, len(_whole(path, stamp)), ROWS):
        yield lambda start=start: _whole(path, stamp)[start : start + ROWS]  # type: ignore[misc]


@lru_cache(maxsize=1)
def _whole(path: Path, stamp: str) -> Embeddings:  # noqa: ARG001  as the file looks
    return load(path)


def batches(embeddings: Embeddings, most: int) -> Iterator[Embeddings]:
    """Yield neighbouring vectors with at most so many bytes together, at least one of them."""
    start = 0
    while start < len(embeddings):
        room = embeddings.indptr[start] + most // ENTRY_BYTES
        stop = max(start + 1, int(embeddings.indptr.searchsorted(room, side="right")) - 1)
        yield embeddings[start:stop]
        start = stop


class Journal:
    """Which parts an engine holds: a line for each, of its key and its number of vectors."""

    def __init__(self, engine: str, url: str, name: str, form: StoredForm) -> None:
        key = json.dumps([engine, url, name, form.dimensions, form.keep])
        self._path = cache_folder("indexed") / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.jsonl"
        self._done = dict(_notes(self._path))

    def __contains__(self, key: object) -> bool:
        return key in self._done

    def of(self, key: str) -> int:
        """Return how many vectors a part has; none of a part that is not noted."""
        return self._done.get(key, 0)

    def forget(self) -> None:
        """Begin again."""
        self._done = {}
        self._path.unlink(missing_ok=True)

    def add(self, key: str, vectors: int) -> None:
        """Note a part, at the end of the file: a line that broke off before it harms itself alone."""
        self._done[key] = vectors
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"\n{json.dumps([key, vectors])}")
        except OSError as error:
            raise storage_error(self._path, error) from error


def _notes(path: Path) -> Iterator[tuple[str, int]]:
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError):  # what is stored again is there once
            key, vectors = json.loads(line)
            yield str(key), int(vectors)


def check_form(index: Index, form: StoredForm) -> None:
    """Refuse to mix vectors that are cut in two ways: scores and the places where matches end would not agree."""
    cut = index.description.kept
    if cut != form.keep:
        raise ConfigInvalid(
            f"the {index.engine.noun} holds {_cut(cut)} of each vector, and {_cut(form.keep)} were asked for",
            fix=f"{'leave --keep out' if cut is None else f'pass --keep {cut}'}, or store under another name",
            field="keep",
            value=form.keep,
            limit=cut,
        )


def _cut(keep: int | None) -> str:
    return "all values" if keep is None else f"the {keep} largest values"


@dataclass
class StoreCounts:
    """How many vectors a run stored."""

    new: int = 0  # vectors stored now
    before: int = 0  # left out, since they had been stored


def store(
    index: Index,
    sources: Sequence[Part],
    journal: Journal,
    form: StoredForm,
    *,
    batch_bytes: int = BATCH_BYTES,
    report: Callable[[StoreCounts], object] = lambda _: None,
    guard: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> StoreCounts:
    """Store what is not stored yet. `guard`: a context in which nothing interrupts, for the note of a part."""
    check_form(index, form)
    if len(index) < max(1, sum(journal.of(part.key) for part in sources)):
        journal.forget()
    stored = StoreCounts()
    for part in sources:
        if part.key in journal:
            stored.before += journal.of(part.key)
            continue
        embeddings = part.read()
        for batch in batches(form.of(embeddings), batch_bytes):
            index.add(batch, [{"folder": PurePosixPath(name).parent.name} for name in checked_ids(batch)])
            stored.new += len(batch)
            report(stored)
        with guard():
            journal.add(part.key, len(embeddings))
    return stored
