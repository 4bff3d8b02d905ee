"""The native answer as plain objects: what JSON and msgpack both write."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core import compact
from nonneg_core.errors import ParameterInvalid
from nonneg_core.packing import pack
from nonneg_core.shortening import Vectors
from nonneg_server.embedding import Answer
from nonneg_server.requests.parameters import Parameters

Wrap = Callable[[NDArray[Any]], Any]  # how an array is carried: as numbers, as base64, as bytes
RowWriter = Callable[[Vectors, Parameters], Iterable[dict[str, Any]]]  # every vector of one length as an object


def record(answer: Answer, rows: RowWriter) -> dict[str, Any]:
    """Return the answer: each vector in its place, each error in its place."""
    lengths = [rows(z, answer.parameters) for z in answer.vectors]
    data: list[dict[str, Any]] = [{}] * (len(answer.positions) + len(answer.errors))
    for i, *found in zip(answer.positions, *lengths, strict=True):
        if answer.several:
            of_length = [{"dimensions": k, **row} for k, row in zip(answer.lengths, found, strict=True)]
            data[i] = {"index": i, "lengths": of_length}
        else:
            data[i] = {"index": i, **found[0]}
    for i, error in answer.errors.items():
        place = error.field if error.field and "[" in error.field else f"images[{i}]"
        data[i] = {"index": i, "error": {**error.body(), "field": place}}
    return {**head(answer), "data": data}


def check(parameters: Parameters) -> None:
    """Refuse the compact form of every number: it is of indices and values."""
    if parameters.encoding == "compact" and parameters.format != "sparse":
        raise ParameterInvalid(
            f"encoding=compact is of indices and values, not format={parameters.format}",
            fix="omit format, or choose another encoding",
            field="encoding",
            value="compact",
        )


def one_by_one(wrap: Wrap) -> RowWriter:
    """Return each vector by itself."""
    return lambda z, wanted: [vector(row, wanted, wrap) for row in z]


def head(answer: Answer) -> dict[str, Any]:
    """Return what holds for all vectors of an answer."""
    return {
        "model": answer.manifest.name,
        "fingerprint": answer.manifest.fingerprint,
        "dimensions": list(answer.lengths) if answer.several else answer.lengths[0],
        "top_k": answer.parameters.top_k,
        "normalized": answer.parameters.normalize,
        "encoding": answer.parameters.encoding,
    }


def vector(z: Vectors, wanted: Parameters, wrap: Wrap) -> dict[str, Any]:
    """Return one vector: sorted, unique indices and their values, or every number, or both."""
    found: dict[str, Any] = {}
    scale = None
    if wanted.format == "dense":
        nnz = int(np.count_nonzero(z > 0))  # counting booleans is three times faster
    else:
        (active,) = (z > 0).nonzero()  # and looking for true ones, too
        nnz = active.size
        if wanted.encoding == "compact":
            packed_bytes = np.frombuffer(compact.pack(active, z[active], len(z)), np.uint8)
            return {"packed": wrap(packed_bytes), "nnz": nnz, "zero": nnz == 0}
        found["indices"] = wrap(active.astype("<i4"))
        if wanted.encoding != "binary":  # there the indices say all
            packed = pack(z[active], wanted.encoding)
            found["values"], scale = wrap(packed.numbers), packed.scale
    if wanted.format != "sparse" and wanted.encoding != "compact":
        packed = pack(z, wanted.encoding)
        found["embedding"], scale = wrap(packed.numbers), packed.scale
    if scale is not None:
        found["scale"] = scale
    found["nnz"] = nnz
    found["zero"] = nnz == 0
    return found
