"""A plain dense array, with what an array cannot say in a JSON file beside it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from nonneg_client.embeddings import Embeddings
from nonneg_core.atomic import atomic_write

ROWS = 4096  # at a time: a dense array may be larger than memory


def save(embeddings: Embeddings, path: Path) -> None:
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


def load(path: Path) -> Embeddings:
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
