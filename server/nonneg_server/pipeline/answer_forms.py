"""The form of an answer, by the Accept header: JSON, msgpack, one .npy, or an Arrow stream.

JSON and msgpack carry the same objects; orjson writes them straight from numpy's arrays.
"""

import base64
import io
import json
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import numpy as np
import orjson
import ormsgpack
from numpy.typing import NDArray

from nonneg_core.errors import JsonScalar, NotAcceptable, ParameterInvalid
from nonneg_core.shortening import Vectors
from nonneg_server.pipeline.request_pipeline import Answer
from nonneg_server.requests.parameters import Parameters
from nonneg_vectors.storage.packing import pack, pack_sparse

Wrap = Callable[[NDArray[Any]], Any]  # how an array is carried: as numbers, as base64, as bytes
PACKED = ("compact", "binary")  # encodings that write a vector as one piece
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
    """Refuse a format beside the encodings that have one of their own."""
    if parameters.encoding in PACKED and parameters.format != "sparse":
        raise ParameterInvalid(
            f"encoding={parameters.encoding} is answered as `packed`, not in format={parameters.format}",
            fix="omit format, or choose another encoding",
            field="encoding",
            value=parameters.encoding,
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
    scale, encoding = None, parameters.encoding
    if encoding == "compact" or encoding == "binary":
        return one_piece(z, encoding, wrap)
    if parameters.format == "dense":
        nnz = int(np.count_nonzero(z > 0))  # counting booleans is three times faster
    else:
        (active,) = (z > 0).nonzero()  # and looking for true ones, too
        nnz = active.size
        fields["indices"] = wrap(active.astype("<i4"))
        packed = pack(z[active], encoding)
        fields["values"], scale = wrap(packed.numbers), packed.scale
    if parameters.format != "sparse":
        packed = pack(z, encoding)
        fields["embedding"], scale = wrap(packed.numbers), packed.scale
    if scale is not None:
        fields["scale"] = scale
    fields["nnz"] = nnz
    fields["zero"] = nnz == 0
    return fields


def one_piece(z: Vectors, encoding: Literal["compact", "binary"], wrap: Wrap) -> dict[str, Any]:
    """Return one vector as bytes: its bits, or its indices and values."""
    (active,) = (z > 0).nonzero()
    whole = np.packbits(z > 0) if encoding == "binary" else pack_sparse(active, z[active], len(z))
    return {"packed": wrap(np.frombuffer(whole, np.uint8)), "nnz": active.size, "zero": active.size == 0}


JSON = "application/json"


def write_json(answer: Answer) -> bytes:
    """Return the whole answer: orjson reads the arrays, other encodings than float are text."""
    wrap: Wrap = numbers if answer.parameters.encoding == "float" else text
    whole = record(answer, one_by_one(wrap))
    rows = [orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) for row in whole.pop("data")]  # one by one: orjson
    return b"".join([orjson.dumps(whole)[:-1], b',"data":[', b",".join(rows), b"]}"])  # lets no other thread run


def numbers(array: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as they are: orjson writes an array as a list."""
    return array


def text(array: NDArray[Any]) -> str:
    """Return little-endian bytes as base64."""
    return base64.b64encode(array.tobytes()).decode("ascii")


MSGPACK = "application/msgpack"


def write_msgpack(answer: Answer) -> bytes:
    """Write the answer in msgpack."""
    return ormsgpack.packb(record(answer, one_by_one(_raw)))


def _raw(array: NDArray[Any]) -> bytes:
    return array.tobytes()


# The answer as one .npy: a dense matrix, one row an image. It has no place for errors, scales or two lengths.

NPY = "application/x-npy"


def check_npy(parameters: Parameters) -> None:
    """Refuse what a plain matrix cannot hold."""
    given = parameters.model_fields_set
    if "format" in given and parameters.format != "dense":
        raise _npy_refused("format", parameters.format, "omit format: an .npy is dense")
    if parameters.encoding in ("int8", "compact"):
        raise _npy_refused(
            "encoding", parameters.encoding, "ask for application/msgpack, which carries each vector's own"
        )
    if "errors" in given and parameters.errors == "item":
        raise _npy_refused("errors", "item", "omit errors: with an .npy a bad image fails the request")
    if isinstance(parameters.dimensions, list):
        raise _npy_refused("dimensions", str(parameters.dimensions), "ask for one length, or for application/msgpack")


def write_npy(answer: Answer) -> bytes:
    """Write the vectors as one dense .npy array."""
    for error in answer.errors.values():
        raise error
    encoding = answer.parameters.encoding
    assert encoding != "compact"  # `check_npy` refused it
    z = answer.vectors[0]
    rows = np.packbits(z > 0, axis=1) if encoding == "binary" else pack(z, encoding).numbers
    buffer = io.BytesIO()
    np.save(buffer, rows, allow_pickle=False)
    return buffer.getvalue()


def _npy_refused(field: str, value: JsonScalar, fix: str) -> ParameterInvalid:
    return ParameterInvalid(f"{field}={value} does not fit into an .npy", fix=fix, field=field, value=value)


# The answer as an Arrow IPC stream: one row an image and length; the head stands in the schema's metadata.

ARROW = "application/vnd.apache.arrow.stream"


def check_arrow(parameters: Parameters) -> None:
    """Refuse where pyarrow is not installed; Arrow carries everything else."""
    check_objects(parameters)
    try:
        import pyarrow  # noqa: F401
    except ModuleNotFoundError:
        raise NotAcceptable(
            "this server writes no Arrow: it lacks pyarrow",
            fix='accept application/msgpack, or install "nonneg[scale]" where the server runs',
            field="accept",
            value=ARROW,
        ) from None


def write_arrow(answer: Answer) -> bytes:
    """Write the answer as an Arrow IPC stream."""
    import pyarrow as pa

    metadata = {key: value if isinstance(value, str) else json.dumps(value) for key, value in head(answer).items()}
    table = pa.Table.from_pylist(_rows(answer), schema=_schema(answer.parameters)).replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def _schema(parameters: Parameters) -> Any:
    import pyarrow as pa

    types = {"float16": pa.float16(), "int8": pa.int8()}
    numbers = types.get(parameters.encoding, pa.float32())
    fields = {"index": pa.int32(), "dimensions": pa.int32(), "nnz": pa.int32(), "zero": pa.bool_()}
    if parameters.encoding in PACKED:
        fields["packed"] = pa.binary()
    elif parameters.format != "dense":
        fields["indices"] = pa.list_(pa.int32())
        fields["values"] = pa.list_(numbers)
    if parameters.format != "sparse":
        fields["embedding"] = pa.list_(numbers)
    if parameters.encoding == "int8":
        fields["scale"] = pa.float32()
    fields["error"] = pa.struct({"type": pa.string(), "message": pa.string(), "fix": pa.string()})
    return pa.schema(fields)


def _rows(answer: Answer) -> list[dict[str, Any]]:
    options = answer.parameters
    rows: list[dict[str, Any]] = []
    for k, vectors in zip(answer.lengths, answer.vectors, strict=True):
        for i, z in zip(answer.positions, vectors, strict=True):
            row = {"index": i, "dimensions": k}
            if options.encoding == "compact" or options.encoding == "binary":
                rows.append({**row, **one_piece(z, options.encoding, _raw)})
                continue
            active = np.flatnonzero(z)
            sparse, dense = pack(z[active], options.encoding), pack(z, options.encoding)
            numbers = {"values": sparse.numbers, "embedding": dense.numbers, "scale": dense.scale}
            rows.append({**row, "nnz": active.size, "zero": active.size == 0, "indices": active, **numbers})
    for i, error in answer.errors.items():
        rows.append({"index": i, "error": {"type": error.type, "message": error.message, "fix": error.fix}})
    return sorted(rows, key=lambda row: row["index"])


# The form of an answer: the first media type of the Accept header that is available.


class Form(NamedTuple):
    """How an answer is written, and what it cannot hold."""

    MEDIA_TYPE: str
    check: Callable[[Parameters], None]
    write: Callable[[Answer], bytes]


as_json = Form(JSON, check_objects, write_json)
as_msgpack = Form(MSGPACK, check_objects, write_msgpack)
as_npy = Form(NPY, check_npy, write_npy)
as_arrow = Form(ARROW, check_arrow, write_arrow)
FORMS = {form.MEDIA_TYPE: form for form in (as_json, as_msgpack, as_npy, as_arrow)}
MOST_MEDIA_TYPES = 32  # media types in one Accept header
_ALIASES = {
    "*/*": as_json,
    "application/*": as_json,
    "application/x-msgpack": as_msgpack,
    "application/vnd.msgpack": as_msgpack,
}


def form_for(accept: str | None) -> Form:
    """Return the form of the answer."""
    if accept is None or accept in ("*/*", "application/json", ""):
        return as_json
    if accept.count(",") >= MOST_MEDIA_TYPES:
        raise NotAcceptable(
            f"the header names more than {MOST_MEDIA_TYPES} media types",
            fix=f"accept one of {', '.join(FORMS)}",
            field="accept",
            limit=MOST_MEDIA_TYPES,
        )
    for wish in _media_types(accept):
        form = FORMS.get(wish) or _ALIASES.get(wish)
        if form is not None:
            return form
    raise NotAcceptable(
        f"no answer in {accept!r}", fix=f"accept one of {', '.join(FORMS)}", field="accept", value=accept[:200]
    )


def _media_types(accept: str) -> list[str]:
    """Return the media types, the most wanted first; those with q=0 are not wanted at all."""
    weighted: list[tuple[float, str]] = []
    for entry in accept.split(","):
        kind, *options = (part.strip().lower() for part in entry.split(";"))
        weighted.append((next((_quality(o[2:]) for o in options if o.startswith("q=")), 1.0), kind))
    return [kind for quality, kind in sorted(weighted, key=lambda pair: -pair[0]) if quality > 0]


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
