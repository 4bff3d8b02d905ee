"""The native answer as plain objects: what JSON and msgpack both write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_client.shortening import Vectors
from nonneg_server.answers.packing import pack
from nonneg_server.embedding import Answer
from nonneg_server.requests.parameters import Parameters

Wrap = Callable[[NDArray[Any]], Any]  # how an array is carried: as numbers, as base64, as bytes


def record(answer: Answer, wrap: Wrap) -> dict[str, Any]:
    """The answer: each vector in its place, each error in its place."""
    wanted = answer.parameters
    rows: list[dict[str, Any]] = [{}] * (len(answer.positions) + len(answer.errors))
    for at, i in enumerate(answer.positions):
        if answer.several:
            found = [
                {"dimensions": k, **vector(z[at], wanted, wrap)}
                for k, z in zip(answer.lengths, answer.vectors, strict=True)
            ]
            rows[i] = {"index": i, "lengths": found}
        else:
            rows[i] = {"index": i, **vector(answer.vectors[0][at], wanted, wrap)}
    for i, error in answer.errors.items():
        rows[i] = {"index": i, "error": {**error.body(), "field": f"images[{i}]"}}
    return {**head(answer), "data": rows}


def head(answer: Answer) -> dict[str, Any]:
    """What holds for all vectors of an answer."""
    return {
        "model": answer.manifest.name,
        "fingerprint": answer.manifest.fingerprint,
        "dimensions": list(answer.lengths) if answer.several else answer.lengths[0],
        "top_k": answer.parameters.top_k,
        "normalized": answer.parameters.normalize,
        "encoding": answer.parameters.encoding,
    }


def vector(z: Vectors, wanted: Parameters, wrap: Wrap) -> dict[str, Any]:
    """One vector: sorted, unique indices and their values, or every number, or both."""
    found: dict[str, Any] = {}
    scale = None
    if wanted.format == "dense":
        nnz = int(np.count_nonzero(z > 0))  # counting booleans is three times faster
    else:
        active = np.flatnonzero(z)
        nnz = active.size
        found["indices"] = wrap(active.astype("<i4"))
        if wanted.encoding != "binary":  # there the indices say all
            packed = pack(z[active], wanted.encoding)
            found["values"], scale = wrap(packed.numbers), packed.scale
    if wanted.format != "sparse":
        packed = pack(z, wanted.encoding)
        found["embedding"], scale = wrap(packed.numbers), packed.scale
    if scale is not None:
        found["scale"] = scale
    found["nnz"] = nnz
    found["zero"] = nnz == 0
    return found
