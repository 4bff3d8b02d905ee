"""The native answer in JSON, written by orjson straight from numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from nonneg_client.errors import NonnegError
from nonneg_client.shortening import Vectors
from nonneg_server.embedding import Answer


def to_json(answer: Answer) -> bytes:
    """The design's wire form."""
    return orjson.dumps(record(answer), option=orjson.OPT_SERIALIZE_NUMPY)


def record(answer: Answer) -> dict[str, Any]:
    """The answer as plain objects that hold numpy arrays."""
    sparse, dense = answer.parameters.format != "dense", answer.parameters.format != "sparse"
    rows = {i: row(i, z, sparse=sparse, dense=dense) for i, z in zip(answer.positions, answer.vectors, strict=True)}
    rows |= {i: {"index": i, "error": _error(i, error)} for i, error in answer.errors.items()}
    return {
        "model": answer.manifest.name,
        "fingerprint": answer.manifest.fingerprint,
        "dimensions": answer.dimensions,
        "top_k": answer.parameters.top_k,
        "normalized": answer.parameters.normalize,
        "data": [rows[i] for i in sorted(rows)],
    }


def row(index: int, z: Vectors, *, sparse: bool, dense: bool) -> dict[str, Any]:
    """One vector: 0-based, sorted, unique indices and their values, or every number, or both."""
    active = np.flatnonzero(z)
    found: dict[str, Any] = {"index": index}
    if sparse:
        found["indices"] = active
        found["values"] = z[active]
    if dense:
        found["embedding"] = z
    found["nnz"] = active.size
    found["zero"] = active.size == 0
    return found


def _error(index: int, error: NonnegError) -> dict[str, Any]:
    return {**error.body(), "field": f"images[{index}]"}
