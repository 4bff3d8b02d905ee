"""safetensors: vectors as the arrays of one file, read by mapping it; and packed, in the compact form end to end.

The arrays are `indptr` (I64), `indices` (I32) and `values` (F32), and `ids` (U8, UTF-8 with a zero byte after each).
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import DataInvalid
from nonneg_core.files import safetensors_file
from nonneg_vectors.storage.embeddings import Embeddings
from nonneg_vectors.storage.packing import pack_sparse, unpack_sparse


def save_safetensors(embeddings: Embeddings, path: Path) -> None:
    """Write them, the widest numbers first so that all lie aligned."""
    arrays = {
        "indptr": embeddings.indptr.astype("<i8", copy=False),
        "indices": embeddings.indices.astype("<i4", copy=False),
        "values": embeddings.values.astype("<f4", copy=False),
    }
    if embeddings.ids is not None:
        arrays["ids"] = np.frombuffer(joined(embeddings.ids), dtype=np.uint8)
    safetensors_file.write(path, arrays, metadata_of(embeddings))


def load_safetensors(path: Path) -> Embeddings:
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


def metadata_of(embeddings: Embeddings) -> dict[str, str]:
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


# packed: vectors in the compact form, end to end in one safetensors file; values are on a scale of sixteen levels.
#
# The arrays are `offsets` (I64, where each vector begins, and the end), `packed` (U8) and `ids` as in .safetensors.


def save_packed(embeddings: Embeddings, path: Path) -> None:
    """Write every vector's bytes, and where each begins."""
    rows = [pack_sparse(*embeddings.row(i), embeddings.dimensions) for i in range(len(embeddings))]
    arrays: dict[str, NDArray[Any]] = {
        "offsets": np.cumsum([0, *map(len, rows)], dtype=np.dtype("<i8")),
        "packed": np.frombuffer(b"".join(rows), dtype=np.uint8),
    }
    if embeddings.ids is not None:
        arrays["ids"] = np.frombuffer(joined(embeddings.ids), dtype=np.uint8)
    safetensors_file.write(path, arrays, metadata_of(embeddings))


def load_packed(path: Path) -> Embeddings:
    """Read them back, of length one where they were."""
    arrays, _, about = safetensors_file.read(path)
    data, offsets = arrays["packed"].tobytes(), arrays["offsets"].tolist()
    rows = [unpack_sparse(data[a:b], int(about["dimensions"])) for a, b in pairwise(offsets)]
    normalized = about["normalized"] == "true"
    return Embeddings.from_rows(
        [(i, v / np.linalg.norm(v) if normalized and len(v) else v) for i, v in rows],
        dimensions=int(about["dimensions"]),
        fingerprint=about["fingerprint"],
        model=about["model"],
        normalized=normalized,
        ids=parted(arrays["ids"].tobytes()) if "ids" in arrays else None,
    )
