"""The answer as an Arrow IPC stream: one row an image and length; the head stands in the schema's metadata."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from nonneg_core import compact
from nonneg_core.errors import NotAcceptable
from nonneg_core.packing import pack
from nonneg_server.answers.native_answer import check as refuse_compact_dense
from nonneg_server.answers.native_answer import head
from nonneg_server.embedding import Answer
from nonneg_server.requests.parameters import Parameters

MEDIA_TYPE = "application/vnd.apache.arrow.stream"


def check(parameters: Parameters) -> None:
    """Refuse where pyarrow is not installed; Arrow carries everything else."""
    refuse_compact_dense(parameters)
    try:
        import pyarrow  # noqa: F401
    except ModuleNotFoundError:
        raise NotAcceptable(
            "this server writes no Arrow: it lacks pyarrow",
            fix='accept application/msgpack, or install "nonneg[scale]" where the server runs',
            field="accept",
            value=MEDIA_TYPE,
        ) from None


def write(answer: Answer) -> bytes:
    """Write the answer as an Arrow IPC stream."""
    import pyarrow as pa

    metadata = {key: value if isinstance(value, str) else json.dumps(value) for key, value in head(answer).items()}
    table = pa.Table.from_pylist(_rows(answer), schema=_schema(answer.parameters)).replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def _schema(wanted: Parameters) -> Any:
    import pyarrow as pa

    types = {"float16": pa.float16(), "int8": pa.int8(), "binary": pa.uint8()}
    numbers = types.get(wanted.encoding, pa.float32())
    fields = {"index": pa.int32(), "dimensions": pa.int32(), "nnz": pa.int32(), "zero": pa.bool_()}
    if wanted.encoding == "compact":
        fields["packed"] = pa.binary()
    elif wanted.format != "dense":
        fields["indices"] = pa.list_(pa.int32())
        if wanted.encoding != "binary":
            fields["values"] = pa.list_(numbers)
    if wanted.format != "sparse":
        fields["embedding"] = pa.list_(numbers)
    if wanted.encoding == "int8":
        fields["scale"] = pa.float32()
    fields["error"] = pa.struct({"type": pa.string(), "message": pa.string(), "fix": pa.string()})
    return pa.schema(fields)


def _rows(answer: Answer) -> list[dict[str, Any]]:
    wanted = answer.parameters
    rows: list[dict[str, Any]] = []
    for k, vectors in zip(answer.lengths, answer.vectors, strict=True):
        for i, z in zip(answer.positions, vectors, strict=True):
            active = np.flatnonzero(z)
            row = {"index": i, "dimensions": k, "nnz": active.size, "zero": active.size == 0}
            if wanted.encoding == "compact":
                rows.append({**row, "packed": compact.pack(active, z[active], k)})
                continue
            sparse, dense = pack(z[active], wanted.encoding), pack(z, wanted.encoding)
            numbers = {"values": sparse.numbers, "embedding": dense.numbers, "scale": dense.scale}
            rows.append({**row, "indices": active, **numbers})
    for i, error in answer.errors.items():
        rows.append({"index": i, "error": {"type": error.type, "message": error.message, "fix": error.fix}})
    return sorted(rows, key=lambda row: row["index"])
