"""safetensors: a header of JSON, then arrays as they lie in memory, so that reading is mapping.

The form is a few lines, so that it needs no package: u64 length, JSON header, data. A header may be given a fixed size,
so that a file of the same names, types and shapes has its arrays at the same places, whatever its metadata say.
"""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nonneg_core.errors import DataInvalid
from nonneg_core.files.atomic import atomic_write

Array = np.ndarray[Any, np.dtype[Any]]
TYPES: dict[str, np.dtype[Any]] = {
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "U8": np.dtype("u1"),
}
_NAMES = {dtype: name for name, dtype in TYPES.items()}
_ALIGNMENT = 8
_LARGEST_HEADER = 100_000_000  # the format's own limit


class Tensors(NamedTuple):
    """A file's content: arrays that are mapped, not read, where each begins, and what else it says."""

    arrays: dict[str, Array]
    offsets: dict[str, int]
    metadata: dict[str, str]


def write(path: Path, arrays: Mapping[str, Array], metadata: Mapping[str, str], *, header: int | None = None) -> None:
    """Write the arrays in this order; `header`: bytes up to the first of them."""
    text = _header(arrays, metadata)
    if header is None:
        header = len(text) + 8 + -len(text) % _ALIGNMENT
    if len(text) + 8 > header:
        raise DataInvalid(
            f"the header of {path.name} takes {len(text) + 8} bytes of {header}", fix="say less in the metadata"
        )
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        file.write(struct.pack("<Q", header - 8) + text.ljust(header - 8))
        for array in arrays.values():
            np.ascontiguousarray(array).tofile(file)


def read(path: Path) -> Tensors:
    """Map what `write`, or another writer, wrote: a page is read when it is used."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8).ljust(8, b"\xff"))
        if length > _LARGEST_HEADER:
            raise DataInvalid(f"{path} is not a safetensors file", fix="give a file that nonneg wrote")
        header = json.loads(file.read(length))
    metadata = header.pop("__metadata__", {})
    offsets = {name: 8 + length + entry["data_offsets"][0] for name, entry in header.items()}
    arrays = {name: _map(path, offsets[name], entry) for name, entry in header.items()}
    return Tensors(arrays, offsets, metadata)


def _header(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> bytes:
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    start = 0
    for name, array in arrays.items():
        offsets = [start, start + array.nbytes]
        header[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": offsets}
        start += array.nbytes
    return json.dumps(header, ensure_ascii=False).encode()


def _map(path: Path, offset: int, entry: dict[str, Any]) -> Array:
    dtype, shape = TYPES[entry["dtype"]], tuple(entry["shape"])
    start, end = entry["data_offsets"]
    if end - start != dtype.itemsize * int(np.prod(shape)) or offset + end - start > path.stat().st_size:
        raise ValueError("an array reaches beyond the file")
    if start == end:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape)
