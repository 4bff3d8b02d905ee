"""The files of a data set: shards of vectors, a side table of failures for each, and one manifest.

    job.json                what was asked for; the same folder takes no other
    shards/NAME.parquet     id, indices, values: as `Embeddings.save` writes them; a shard is finished when it is there
    failed/NAME.parquet     id, type, message, fix of each image of that group that could not be embedded
    manifest.json           written last: model, and every shard with its first and last id, in their order

NAME is made of the ids of a group; what the manifest does not name is removed. Every file is written whole or not at
all.
"""

import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from nonneg_core.errors import DataInvalid, SchemaUnknown
from nonneg_vectors.storage import parquet
from nonneg_vectors.storage.addresses import Absent, Address
from nonneg_vectors.storage.embeddings import Embeddings
from nonneg_vectors.storage.results import FailureRecord

FORMAT = "nonneg-vectors-1"
MANIFEST, JOB, SHARDS, FAILED = "manifest.json", "job.json", "shards", "failed"
REASON = ("id", "type", "message", "fix")


@dataclass(frozen=True)
class Shard:
    """What the manifest says of a shard."""

    name: str
    first: str  # the first and the last id of its group
    last: str
    images: int
    vectors: int
    entries: int  # values above zero
    failed: int
    bytes: int


@dataclass(frozen=True)
class DataSetManifest:
    """What makes the shards one data set."""

    model: str
    fingerprint: str
    dimensions: int
    top_k: int | None
    normalized: bool
    shards: tuple[Shard, ...]

    def total(self, field: str) -> int:
        """Return the sum of a field over all shards."""
        return sum(getattr(shard, field) for shard in self.shards)

    def __str__(self) -> str:
        vectors = self.total("vectors")
        return (
            f"{vectors} vectors of {self.dimensions} dimensions in {len(self.shards)} shards, "
            f"{self.total('entries') / max(1, vectors):.0f} active on average, {self.total('bytes') / 1e6:.1f} MB, "
            f"model {self.model} ({self.fingerprint[:8]})"
        )


def write_manifest(target: Address, manifest: DataSetManifest) -> None:
    """Make the shards one data set; the same shards give the same bytes."""
    fields = ("images", "vectors", "entries", "failed", "bytes")
    totals = {field: manifest.total(field) for field in fields}
    record = {"format": FORMAT, **asdict(manifest), "totals": totals}
    shards = ",\n  ".join(json.dumps(shard, ensure_ascii=False) for shard in record.pop("shards"))
    head = json.dumps(record, indent=1, ensure_ascii=False)[:-2]
    (target / MANIFEST).write(f'{head},\n "shards": [\n  {shards}\n ]\n}}\n'.encode())


def shard_names(target: Address) -> frozenset[str]:
    """Return the names of the shards that are there, by one list."""
    return frozenset(_tables(target / SHARDS))


def is_there(target: Address, shard: Shard) -> bool:
    """Return whether a shard's file is seen from here."""
    return (target / SHARDS / f"{shard.name}.parquet").kind() == "file"


def remove_unnamed(target: Address, manifest: DataSetManifest) -> None:
    """Remove shards and side tables that the manifest does not name: of groups that have changed since."""
    named = {
        SHARDS: {shard.name for shard in manifest.shards},
        FAILED: {shard.name for shard in manifest.shards if shard.failed},
    }
    for folder, names in named.items():
        for name in _tables(target / folder):
            if name not in names:
                (target / folder / f"{name}.parquet").remove()


def _tables(folder: Address) -> Iterator[str]:
    try:
        entries = folder.entries()
    except Absent:
        return
    yield from (entry.name.removesuffix(".parquet") for entry in entries if entry.name.endswith(".parquet"))


def read_manifest(target: Address) -> DataSetManifest:
    """Return the manifest of a finished data set."""
    try:
        record = json.loads((target / MANIFEST).read())
        if record.pop("format") != FORMAT:
            raise SchemaUnknown(f"{target} is a data set of another form", fix="update nonneg")
        record.pop("totals")
        return DataSetManifest(**{**record, "shards": tuple(Shard(**shard) for shard in record["shards"])})
    except Absent as error:
        raise DataInvalid(
            f"{target} holds no finished data set ({MANIFEST} is not there)",
            fix="check the address, or finish it by the same `nonneg embed`",
            value=str(target),
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise DataInvalid(
            f"{target / MANIFEST} is damaged ({error})", fix="run the same `nonneg embed` again"
        ) from error


def write_shard(target: Address, vectors: Embeddings, reasons: Sequence[FailureRecord], described: Shard) -> Shard:
    """Write a group's failures, then its vectors, which say that it is done; the shard with its size."""
    side_table = target / FAILED / f"{described.name}.parquet"
    if reasons:
        side_table.write(_table_of(reasons))
    metadata = {"nonneg": json.dumps({**asdict(described), "bytes": 0}, ensure_ascii=False)}
    data = parquet.to_bytes(vectors, metadata)
    (target / SHARDS / f"{described.name}.parquet").write(data)
    if not reasons and side_table.kind() == "file":  # of an earlier run
        side_table.remove()
    return Shard(**{**asdict(described), "bytes": len(data)})


def finished_shard(target: Address, name: str) -> Shard | None:
    """Return what is said of a shard that is there and whole, without reading its vectors."""
    place = target / SHARDS / f"{name}.parquet"
    try:
        with place.open() as file:
            size = file.seek(0, os.SEEK_END)
            metadata = parquet.metadata_in(file)
        return Shard(**{**json.loads(metadata["nonneg"]), "bytes": size})
    except Absent:
        return None
    except (ValueError, KeyError, TypeError, DataInvalid):
        return None  # damaged: it is made again


def read_shard(target: Address, shard: Shard) -> Embeddings:
    """Return the vectors of a shard."""
    place = target / SHARDS / f"{shard.name}.parquet"
    try:
        vectors = Embeddings.concatenate(list(parquet.parts(parquet.in_memory(place.read()))))
    except (Absent, ValueError, KeyError, TypeError) as error:
        raise DataInvalid(
            f"the shard {place} is gone or damaged ({error})",
            fix="run the same `nonneg embed` again: it makes it again",
        ) from error
    if len(vectors) != shard.vectors:
        raise DataInvalid(f"{place} holds {len(vectors)} vectors, not {shard.vectors}", fix="run `nonneg embed` again")
    return vectors


def scan(target: Address) -> Iterator[Embeddings]:
    """Yield the vectors of a data set, a shard at a time, in the manifest's order."""
    manifest = read_manifest(target)
    example = Embeddings.from_rows(
        [],
        dimensions=manifest.dimensions,
        fingerprint=manifest.fingerprint,
        model=manifest.model,
        normalized=manifest.normalized,
    )
    for shard in manifest.shards:
        vectors = read_shard(target, shard)
        example.same_form(vectors)
        yield vectors


def read_failed(target: Address, shards: Iterable[Shard]) -> Iterator[FailureRecord]:
    """Yield what could not be embedded, and why."""
    pyarrow = parquet.import_pyarrow()
    for shard in shards:
        if shard.failed:
            data = (target / FAILED / f"{shard.name}.parquet").read()
            table = pyarrow.parquet.read_table(parquet.in_memory(data))
            yield from cast("list[FailureRecord]", table.to_pylist())


def read_job(target: Address) -> dict[str, Any] | None:
    """Return what a data set was begun with."""
    try:
        return read_json(target / JOB)
    except Absent:
        return None


def write_job(target: Address, settings: dict[str, Any]) -> None:
    """Say what a data set is begun with."""
    write_json(target / JOB, settings)


def read_json(place: Address) -> dict[str, Any]:
    """Return what a run wrote of itself."""
    try:
        record: dict[str, Any] = json.loads(place.read())
    except ValueError as error:
        raise DataInvalid(f"{place} is damaged ({error})", fix="pass --replace to begin again") from error
    return record


def write_json(place: Address, record: dict[str, Any]) -> None:
    """Write it, whole or not at all."""
    place.write(json.dumps(record, indent=1, ensure_ascii=False).encode())


def _table_of(reasons: Sequence[FailureRecord]) -> bytes:
    pyarrow = parquet.import_pyarrow()
    schema = pyarrow.schema([(name, pyarrow.string()) for name in REASON])
    rows = [{name: reason[name] for name in REASON} for reason in reasons]
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), sink, compression="zstd")
    return sink.getvalue()
