"""Files that hold many images: a tar file's members are found by their headers, a Parquet file's rows are counted."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import PurePosixPath
from typing import Any

from nonneg_client.data_set.addresses import Address, reading
from nonneg_client.data_set.groups import ImageGroup, Members, ParquetImages, cut
from nonneg_client.data_set.parquet_file import opened_parquet
from nonneg_core.errors import DataInvalid
from nonneg_core.pixels.formats import OF_IMAGES

TAR, PARQUET = ".tar", ".parquet"
AT_ONCE = 2**20  # bytes of a tar file that are fetched to look for headers


@dataclass(frozen=True)
class Container:
    """A file with many images in it, which is opened to be listed."""

    file: Address
    id: str


def of_tar(piece: Container, size: int) -> Iterator[ImageGroup]:
    """Yield the images of a tar file, found by their headers."""
    for some in cut(_members(piece.file), size, lambda member: member[0]):
        ids = tuple(f"{piece.id}/{name}" for name, _, _ in some)
        yield ImageGroup(ids, Members(piece.file, tuple((offset, length) for _, offset, length in some)))


def _members(archive: Address) -> Iterator[tuple[str, int, int]]:
    """Yield name, offset and size of each image of a tar file."""
    try:
        with archive.open() as file, reading(archive):
            plain: Any = io.BufferedReader(file, AT_ONCE)
            with tarfile.open(fileobj=plain, mode="r:") as tar:
                seen: set[str] = set()
                for entry in tar:
                    if entry.isfile() and PurePosixPath(entry.name).suffix.lower() in OF_IMAGES:
                        yield _once(entry.name, seen, archive), entry.offset_data, entry.size
    except (tarfile.TarError, EOFError) as error:
        raise DataInvalid(f"{archive} is not a tar file, or a broken one ({error})", fix="write it again") from error


def of_parquet(piece: Container, size: int, column: str | None, id_column: str | None) -> Iterator[ImageGroup]:
    """Yield the images of a Parquet file's column."""
    with opened_parquet(piece.file) as file:
        found = _column(file, piece.file, column)
        if id_column is not None:
            _present(file, piece.file, id_column)
        for some in cut(_rows(file, piece, id_column), size, itemgetter(0)):
            yield ImageGroup(
                tuple(row[0] for row in some), ParquetImages(piece.file, found, tuple(row[1:] for row in some))
            )


def _rows(file: Any, piece: Container, id_column: str | None) -> Iterator[tuple[str, int, int]]:
    """Yield id, row group and row in it of every row; without a column of ids, rows are numbered."""
    first = 0
    seen: set[str] = set()
    for row_group in range(file.num_row_groups):
        rows = file.metadata.row_group(row_group).num_rows
        if id_column is None:
            yield from ((f"{piece.id}/{first + row}", row_group, row) for row in range(rows))
        else:
            ids = file.read_row_group(row_group, columns=[id_column]).column(0).to_pylist()
            if None in ids:
                raise DataInvalid(
                    f"{piece.file} has no id in row {first + ids.index(None)} of the column {id_column!r}",
                    fix="fill the column, or leave --id-column out: rows are numbered then",
                    field="id_column",
                )
            yield from ((_once(str(own), seen, piece.file), row_group, row) for row, own in enumerate(ids))
        first += rows


def _once(own: str, seen: set[str], file: Address) -> str:
    """Return an id that was not seen in this file before, and note it."""
    if own in seen:
        raise DataInvalid(
            f"{file} holds {own!r} twice", fix="write it with each id once: an id has one vector", value=own
        )
    seen.add(own)
    return own


def _column(file: Any, address: Address, asked: str | None) -> str:
    """Return the column of images: what is asked for, else the only one of bytes, or of a struct with `bytes`."""
    import pyarrow

    if asked is not None:
        return _present(file, address, asked)
    found = [field.name for field in file.schema_arrow if _of_bytes(pyarrow, field.type)]
    if len(found) != 1:
        raise DataInvalid(
            f"{address} has {len(found)} columns of bytes ({', '.join(found) or 'none'})",
            fix=f"name the one with images by --column; there are {', '.join(file.schema_arrow.names)}",
            field="column",
        )
    return str(found[0])


def _present(file: Any, address: Address, name: str) -> str:
    if name not in file.schema_arrow.names:
        raise DataInvalid(
            f"{address} has no column {name!r}", fix=f"there are {', '.join(file.schema_arrow.names)}", field="column"
        )
    return name


def _of_bytes(pyarrow: Any, kind: Any) -> bool:
    types = pyarrow.types
    if types.is_struct(kind):
        return any(field.name == "bytes" and _of_bytes(pyarrow, field.type) for field in kind)
    return bool(types.is_binary(kind) or types.is_large_binary(kind))
