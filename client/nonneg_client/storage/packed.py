"""packed: vectors in the compact form, end to end in one safetensors file; values are on a scale of sixteen levels.

The arrays are `offsets` (I64, where each vector begins, and the end), `packed` (U8) and `ids` as in .safetensors.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_client.embeddings import Embeddings
from nonneg_client.storage.safetensors import joined, parted, said
from nonneg_core import safetensors_file
from nonneg_core.compact import pack, unpack


def save(embeddings: Embeddings, path: Path) -> None:
    """Write every vector's bytes, and where each begins."""
    rows = [pack(*embeddings.row(i), embeddings.dimensions) for i in range(len(embeddings))]
    arrays: dict[str, NDArray[Any]] = {
        "offsets": np.cumsum([0, *map(len, rows)], dtype=np.dtype("<i8")),
        "packed": np.frombuffer(b"".join(rows), dtype=np.uint8),
    }
    if embeddings.ids is not None:
        arrays["ids"] = np.frombuffer(joined(embeddings.ids), dtype=np.uint8)
    safetensors_file.write(path, arrays, said(embeddings))


def load(path: Path) -> Embeddings:
    """Read them back, of length one where they were."""
    arrays, _, about = safetensors_file.read(path)
    data, offsets = arrays["packed"].tobytes(), arrays["offsets"].tolist()
    rows = [unpack(data[a:b], int(about["dimensions"])) for a, b in pairwise(offsets)]
    normalized = about["normalized"] == "true"
    return Embeddings.from_rows(
        [(i, v / np.linalg.norm(v) if normalized and len(v) else v) for i, v in rows],
        dimensions=int(about["dimensions"]),
        fingerprint=about["fingerprint"],
        model=about["model"],
        normalized=normalized,
        ids=parted(arrays["ids"].tobytes()) if "ids" in arrays else None,
    )
