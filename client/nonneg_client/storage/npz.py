"""NumPy's zipped arrays, laid out as scipy's sparse matrices are: exact, small, read anywhere."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from nonneg_client.embeddings import Embeddings
from nonneg_core.atomic import atomic_write
from nonneg_core.errors import DataInvalid


def save(embeddings: Embeddings, path: Path) -> None:
    """Write them; without pickle, so that reading is safe."""
    described: dict[str, Any] = {
        "format": np.bytes_("csr"),  # this and the next four are what scipy.sparse.load_npz looks for
        "shape": np.array([len(embeddings), embeddings.dimensions]),
        "indptr": embeddings.indptr,
        "indices": embeddings.indices,
        "data": embeddings.values,
        "fingerprint": np.array(embeddings.fingerprint),
        "model": np.array(embeddings.model),
        "normalized": np.array(embeddings.normalized),
    }
    if embeddings.ids is not None:
        described["ids"] = np.array(embeddings.ids, dtype=np.str_)
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **described)


def load(path: Path) -> Embeddings:
    """Read what `save` wrote."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return _from_archive(archive)
    except (zipfile.BadZipFile, zlib.error, AttributeError) as error:
        raise DataInvalid(f"{path} is damaged or no .npz ({error})", fix="write it again") from error


def _from_archive(archive: Any) -> Embeddings:
    return Embeddings(
        indptr=archive["indptr"].astype(np.int64),
        indices=archive["indices"].astype(np.int32),
        values=archive["data"].astype(np.float32),
        dimensions=int(archive["shape"][1]),
        fingerprint=str(archive["fingerprint"]),
        model=str(archive["model"]),
        normalized=bool(archive["normalized"]),
        ids=tuple(archive["ids"].tolist()) if "ids" in archive else None,
    )
