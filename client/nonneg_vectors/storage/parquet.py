"""Parquet: `id`, `indices` (u16, u32 above 65,536 dimensions) and `values` (f16), zstd; written and read in streams.

A value keeps 11 bits: a relative error of at most 2^-11; what is below f16's smallest number is left out. The file's
metadata carry fingerprint, model, dimensions and whether the vectors have length one.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.files.atomic import atomic_write
from nonneg_core.terminal.installing import needing
from nonneg_vectors.storage.embeddings import Embeddings

ROWS = 50_000  # in a row group
LARGEST = float(np.finfo(np.float16).max)


def save(embeddings: Embeddings, path: Path, rows: int = ROWS) -> None:
    """Write them all, so many in a row group."""
    with atomic_write(path) as temporary, Writer(temporary) as writer:
        writer.describe(embeddings)
        for start in range(0, len(embeddings), rows):
            writer.write(embeddings[start : start + rows])


def load(path: Path) -> Embeddings:
    """Read them all."""
    return Embeddings.concatenate(list(parts(path)))


def to_bytes(embeddings: Embeddings, metadata: Mapping[str, str]) -> bytes:
    """Return the file in memory, in one row group, with more metadata; the same vectors give the same bytes."""
    sink = io.BytesIO()
    with Writer(sink, metadata) as writer:
        writer.write(embeddings)
    return sink.getvalue()


def metadata_in(file: Any) -> dict[str, str]:
    """Return a file's metadata, without its rows."""
    pyarrow = import_pyarrow()
    try:
        return {k.decode(): v.decode() for k, v in (pyarrow.parquet.read_schema(file).metadata or {}).items()}
    except pyarrow.ArrowException as error:
        raise DataInvalid(f"not a Parquet file, or a broken one ({error})", fix="write it again") from error


def in_memory(data: bytes) -> Any:
    """Return a file to read from, over a copy of the bytes in Arrow's own memory.

    Over Python's bytes, a thread of Arrow's may be the last to let go of them; if Python has begun to end by then, the
    process aborts.
    """
    pyarrow = import_pyarrow()
    sink = pyarrow.BufferOutputStream()
    sink.write(data)
    return pyarrow.BufferReader(sink.getvalue())


def parts(path: Path | BinaryIO) -> Iterator[Embeddings]:
    """Read them a row group at a time."""
    with _opened(path) as file:
        yield _from_table(file.schema_arrow.empty_table(), _said(file))
        for group in range(file.num_row_groups):
            yield _from_table(file.read_row_group(group), _said(file))


def row_groups(path: Path) -> int:
    """Return how many row groups a file has."""
    with _opened(path) as file:
        return int(file.num_row_groups)


def part(path: Path, group: int) -> Embeddings:
    """Read one row group."""
    with _opened(path) as file:
        return _from_table(file.read_row_group(group), _said(file))


@contextmanager
def _opened(path: Path | BinaryIO) -> Iterator[Any]:
    pyarrow = import_pyarrow()
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            yield file
    except pyarrow.ArrowException as error:
        raise DataInvalid(f"{path} is not a Parquet file, or a broken one ({error})", fix="write it again") from error


def _said(file: Any) -> dict[str, str]:
    return {k.decode(): v.decode() for k, v in (file.schema_arrow.metadata or {}).items()}


class Writer:
    """A file being written; every `write` is at least one row group."""

    def __init__(self, path: Path | BinaryIO, metadata: Mapping[str, str] | None = None) -> None:
        """Begin a file; `said` is metadata to write beside what describes the vectors."""
        self._pyarrow = import_pyarrow()
        self._path = path
        self._said = metadata or {}
        self._file: Any = None

    def describe(self, embeddings: Embeddings) -> None:
        """Fix columns and metadata by a first example."""
        if self._file is None:
            self._schema = _schema(self._pyarrow, embeddings, self._said)
            self._file = self._pyarrow.parquet.ParquetWriter(self._path, self._schema, compression="zstd")

    def write(self, embeddings: Embeddings) -> None:
        """Add vectors."""
        self.describe(embeddings)
        self._file.write_table(_to_table(self._pyarrow, embeddings, self._schema))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()


def _schema(pyarrow: Any, embeddings: Embeddings, more: Mapping[str, str]) -> Any:
    index = pyarrow.uint16() if embeddings.dimensions <= 2**16 else pyarrow.uint32()
    fields = [("indices", pyarrow.list_(index)), ("values", pyarrow.list_(pyarrow.float16()))]
    if embeddings.ids is not None:
        fields.insert(0, ("id", pyarrow.string()))
    properties = {
        "dimensions": str(embeddings.dimensions),
        "fingerprint": embeddings.fingerprint,
        "model": embeddings.model,
        "normalized": "true" if embeddings.normalized else "false",
        **more,
    }
    return pyarrow.schema(fields, metadata=properties)


def _to_table(pyarrow: Any, embeddings: Embeddings, schema: Any) -> Any:
    if len(embeddings.values) and embeddings.values.max() > LARGEST:
        raise ConfigInvalid(
            f"values above {LARGEST:.0f} do not fit Parquet's f16", fix="normalise them, or save as .npz"
        )
    halves = embeddings.values.astype(np.float16)
    counts = np.concatenate([[0], np.cumsum(halves > 0)])  # a value that became zero is dropped
    offsets = pyarrow.array(counts[embeddings.indptr].astype(np.int32))
    indices = pyarrow.array(embeddings.indices[halves > 0], type=schema.field("indices").type.value_type)
    columns = [
        pyarrow.ListArray.from_arrays(offsets, indices),
        pyarrow.ListArray.from_arrays(offsets, pyarrow.array(halves[halves > 0])),
    ]
    if embeddings.ids is not None:
        columns.insert(0, pyarrow.array(embeddings.ids, type=pyarrow.string()))
    return pyarrow.table(columns, schema=schema)


def _from_table(table: Any, metadata: dict[str, str]) -> Embeddings:
    table = table.combine_chunks()
    indices, values = (_flat(table.column(name)) for name in ("indices", "values"))
    if (indices[0] != values[0]).any():
        raise ValueError("indices and values differ in length")
    return Embeddings(
        indptr=indices[0],
        indices=indices[1].astype(np.int32),
        values=values[1].astype(np.float32),
        dimensions=int(metadata["dimensions"]),
        fingerprint=metadata["fingerprint"],
        model=metadata["model"],
        normalized=metadata["normalized"] == "true",
        ids=tuple(table.column("id").to_pylist()) if "id" in table.column_names else None,
    )


def _flat(column: Any) -> tuple[Any, Any]:
    """Return offsets and entries of a list column."""
    if not column.num_chunks:
        return np.zeros(1, np.int64), np.zeros(0, np.float32)
    array = column.chunk(0)
    offsets = array.offsets.to_numpy().astype(np.int64)
    return offsets - offsets[0], array.values.to_numpy()[offsets[0] : offsets[-1]]


def import_pyarrow() -> Any:
    """Return the package; MissingExtra where it is not installed."""
    with needing("Parquet", extra="scale"):
        import pyarrow
        import pyarrow.parquet
    return pyarrow
