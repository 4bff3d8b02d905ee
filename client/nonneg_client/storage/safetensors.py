"""safetensors: a header of JSON, then arrays as they lie in memory, so that reading is mapping.

The form is a few lines, so that it needs no package: u64 length, JSON header, data. The arrays are `indptr` (I64),
`indices` (I32) and `values` (F32), and `ids` (U8, UTF-8 with a zero byte after each).
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from nonneg_client.embeddings import Embeddings
from nonneg_core.atomic import replacing
from nonneg_core.errors import DataInvalid

_TYPES: dict[str, np.dtype[Any]] = {
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "F32": np.dtype("<f4"),
    "U8": np.dtype("u1"),
}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}
_ALIGNMENT = 8
_LARGEST_HEADER = 100_000_000  # the format's own limit


def save(embeddings: Embeddings, path: Path) -> None:
    """Write them, the widest numbers first so that all lie aligned."""
    arrays = {
        "indptr": embeddings.indptr.astype("<i8", copy=False),
        "indices": embeddings.indices.astype("<i4", copy=False),
        "values": embeddings.values.astype("<f4", copy=False),
    }
    if embeddings.ids is not None:
        arrays["ids"] = np.frombuffer(_joined(embeddings.ids), dtype=np.uint8)
    with replacing(path) as temporary, temporary.open("wb") as file:
        header = _header(arrays, embeddings)
        file.write(struct.pack("<Q", len(header)) + header)
        for array in arrays.values():
            array.tofile(file)


def load(path: Path) -> Embeddings:
    """Map what `save` wrote: a page is read when it is used."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8).ljust(8, b"\xff"))
        if length > _LARGEST_HEADER:
            raise DataInvalid(f"{path} is no safetensors file", fix="give a file that nonneg wrote")
        header = json.loads(file.read(length))
    said = header.pop("__metadata__")
    arrays = {name: _map(path, 8 + length, entry) for name, entry in header.items()}
    return Embeddings(
        indptr=arrays["indptr"],
        indices=arrays["indices"],
        values=arrays["values"],
        dimensions=int(said["dimensions"]),
        fingerprint=said["fingerprint"],
        model=said["model"],
        normalized=said["normalized"] == "true",
        ids=_parted(arrays["ids"].tobytes()) if "ids" in arrays else None,
    )


def _header(arrays: dict[str, Any], embeddings: Embeddings) -> bytes:
    header: dict[str, Any] = {
        "__metadata__": {
            "dimensions": str(embeddings.dimensions),
            "fingerprint": embeddings.fingerprint,
            "model": embeddings.model,
            "normalized": "true" if embeddings.normalized else "false",
        }
    }
    start = 0
    for name, array in arrays.items():
        offsets = [start, start + array.nbytes]
        header[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": offsets}
        start += array.nbytes
    text = json.dumps(header, ensure_ascii=False).encode()
    return text + b" " * (-len(text) % _ALIGNMENT)


def _map(path: Path, base: int, entry: dict[str, Any]) -> Any:
    dtype, shape = _TYPES[entry["dtype"]], tuple(entry["shape"])
    start, end = entry["data_offsets"]
    if end - start != dtype.itemsize * int(np.prod(shape)) or base + end > path.stat().st_size:
        raise ValueError("an array reaches beyond the file")
    if start == end:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype=dtype, mode="r", offset=base + start, shape=shape)


def _joined(ids: tuple[str, ...]) -> bytes:
    if any("\0" in name for name in ids):
        raise DataInvalid("an id holds a zero byte", fix="name the vectors otherwise")
    return b"".join(name.encode() + b"\0" for name in ids)


def _parted(data: bytes) -> tuple[str, ...]:
    return tuple(part.decode() for part in data.split(b"\0")[:-1])
