"""safetensors: vectors as the arrays of one file, so that reading is mapping.

The arrays are `indptr` (I64), `indices` (I32) and `values` (F32), and `ids` (U8, UTF-8 with a zero byte after each).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nonneg_client.embeddings import Embeddings
from nonneg_core import safetensors_file
from nonneg_core.errors import DataInvalid


def save(embeddings: Embeddings, path: Path) -> None:
    """Write them, the widest numbers first so that all lie aligned."""
    arrays = {
        "indptr": embeddings.indptr.astype("<i8", copy=False),
        "indices": embeddings.indices.astype("<i4", copy=False),
        "values": embeddings.values.astype("<f4", copy=False),
    }
    if embeddings.ids is not None:
        arrays["ids"] = np.frombuffer(joined(embeddings.ids), dtype=np.uint8)
    safetensors_file.write(path, arrays, said(embeddings))


def load(path: Path) -> Embeddings:
    """Map what `save` wrote: a page is read when it is used."""
    arrays, _, about = safetensors_file.read(path)
    return Embeddings(
        indptr=arrays["indptr"],
        indices=arrays["indices"],
        values=arrays["values"],
        dimensions=int(about["dimensions"]),
        fingerprint=about["fingerprint"],
        model=about["model"],
        normalized=about["normalized"] == "true",
        ids=parted(arrays["ids"].tobytes()) if "ids" in arrays else None,
    )


def said(embeddings: Embeddings) -> dict[str, str]:
    """Return what a file says of its vectors beside them."""
    return {
        "dimensions": str(embeddings.dimensions),
        "fingerprint": embeddings.fingerprint,
        "model": embeddings.model,
        "normalized": "true" if embeddings.normalized else "false",
    }


def joined(ids: tuple[str, ...]) -> bytes:
    """Return ids as bytes, a zero byte after each."""
    if any("\0" in name for name in ids):
        raise DataInvalid("an id holds a zero byte", fix="name the vectors otherwise")
    return b"".join(name.encode() + b"\0" for name in ids)


def parted(data: bytes) -> tuple[str, ...]:
    """Return what `joined` wrote."""
    return tuple(part.decode() for part in data.split(b"\0")[:-1])
