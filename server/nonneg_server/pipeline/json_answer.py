"""The answer as plain objects, which JSON and msgpack share, and in JSON, written by orjson straight from numpy."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from nonneg_core.errors import ParameterInvalid
from nonneg_core.shortening import Vectors
from nonneg_server.pipeline.request_pipeline import Answer
from nonneg_server.requests.parameters import Parameters
from nonneg_vectors.storage.packing import pack, pack_sparse

Wrap = Callable[[NDArray[Any]], Any]  # how an array is carried: as numbers, as base64, as bytes
RowWriter = Callable[[Vectors, Parameters], Iterable[dict[str, Any]]]  # every vector of one length as an object


def record(answer: Answer, rows: RowWriter) -> dict[str, Any]:
    """Return the answer: each vector in its place, each error in its place."""
    lengths = [rows(z, answer.parameters) for z in answer.vectors]
    data: list[dict[str, Any]] = [{}] * (len(answer.positions) + len(answer.errors))
    for i, *per_length in zip(answer.positions, *lengths, strict=True):
        if answer.several:
            of_length = [{"dimensions": k, **row} for k, row in zip(answer.lengths, per_length, strict=True)]
            data[i] = {"index": i, "lengths": of_length}
        else:
            data[i] = {"index": i, **per_length[0]}
    for i, error in answer.errors.items():
        place = error.field if error.field and "[" in error.field else f"images[{i}]"
        data[i] = {"index": i, "error": {**error.body(), "field": place}}
    return {**head(answer), "data": data}


def check_objects(parameters: Parameters) -> None:
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
    return lambda z, parameters: [vector(row, parameters, wrap) for row in z]


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


def vector(z: Vectors, parameters: Parameters, wrap: Wrap) -> dict[str, Any]:
    """Return one vector: sorted, unique indices and their values, or every number, or both."""
    fields: dict[str, Any] = {}
    scale = None
    if parameters.format == "dense":
        nnz = int(np.count_nonzero(z > 0))  # counting booleans is three times faster
    else:
        (active,) = (z > 0).nonzero()  # and looking for true ones, too
        nnz = active.size
        if parameters.encoding == "compact":
            packed_bytes = np.frombuffer(pack_sparse(active, z[active], len(z)), np.uint8)
            return {"packed": wrap(packed_bytes), "nnz": nnz, "zero": nnz == 0}
        fields["indices"] = wrap(active.astype("<i4"))
        if parameters.encoding != "binary":  # there the indices say all
            packed = pack(z[active], parameters.encoding)
            fields["values"], scale = wrap(packed.numbers), packed.scale
    if parameters.format != "sparse" and parameters.encoding != "compact":
        packed = pack(z, parameters.encoding)
        fields["embedding"], scale = wrap(packed.numbers), packed.scale
    if scale is not None:
        fields["scale"] = scale
    fields["nnz"] = nnz
    fields["zero"] = nnz == 0
    return fields


JSON = "application/json"


def write_json(answer: Answer) -> bytes:
    """Return the whole answer: orjson reads the arrays, other encodings than float are text."""
    wrap: Wrap = numbers if answer.parameters.encoding == "float" else text
    return orjson.dumps(record(answer, one_by_one(wrap)), option=orjson.OPT_SERIALIZE_NUMPY)


def numbers(array: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as they are: orjson writes an array as a list."""
    return array


def text(array: NDArray[Any]) -> str:
    """Return little-endian bytes as base64."""
    return base64.b64encode(array.tobytes()).decode("ascii")
