"""NumPy's own files: .npz as scipy lays out sparse matrices, exact and small; .npy dense, beside a JSON file."""

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from nonneg_core.errors import DataInvalid
from nonneg_core.files.atomic import atomic_write
from nonneg_vectors.storage.embeddings import Embeddings


def save_npz(embeddings: Embeddings, path: Path) -> None:
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


def load_npz(path: Path) -> Embeddings:
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


# A plain dense array, with what an array cannot say in a JSON file beside it.

ROWS = 4096  # at a time: a dense array may be larger than memory


def save_npy(embeddings: Embeddings, path: Path) -> None:
    """Write the array and its description."""
    shape = (len(embeddings), embeddings.dimensions)
    with atomic_write(path) as temporary:
        if len(embeddings):
            array = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.float32, shape=shape)
            for start in range(0, len(embeddings), ROWS):
                array[start : start + ROWS] = embeddings[start : start + ROWS].numpy()
            array.flush()
            del array
        else:
            with temporary.open("wb") as file:
                np.save(file, np.zeros(shape, np.float32))
        with atomic_write(beside(path)) as description:
            description.write_text(json.dumps(_describe(embeddings), ensure_ascii=False), encoding="utf-8")


def load_npy(path: Path) -> Embeddings:
    """Read what `save` wrote, block by block."""
    described = json.loads(beside(path).read_text(encoding="utf-8"))
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    ids = described.pop("ids")
    parts = [
        Embeddings.from_dense(array[start : start + ROWS], **described) for start in range(0, max(1, len(array)), ROWS)
    ]
    whole = Embeddings.concatenate(parts)
    return whole.named(None if ids is None else tuple(ids))


def beside(path: Path) -> Path:
    """Return the description's place."""
    return path.with_name(path.name + ".json")


def _describe(embeddings: Embeddings) -> dict[str, object]:
    return {
        "fingerprint": embeddings.fingerprint,
        "model": embeddings.model,
        "normalized": embeddings.normalized,
        "ids": embeddings.ids,
    }
