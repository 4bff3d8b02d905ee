"""The answer as one .npy: a dense matrix, one row an image. It has no place for errors, scales or two lengths."""

from __future__ import annotations

import io

import numpy as np

from nonneg_core.errors import JsonScalar, ParameterInvalid
from nonneg_core.packing import pack
from nonneg_server.embedding import Answer
from nonneg_server.requests.parameters import Parameters

MEDIA_TYPE = "application/x-npy"


def check(parameters: Parameters) -> None:
    """Refuse what a plain matrix cannot hold."""
    given = parameters.model_fields_set
    if "format" in given and parameters.format != "dense":
        raise _refused("format", parameters.format, "omit format: an .npy is dense")
    if parameters.encoding in ("int8", "compact"):
        raise _refused("encoding", parameters.encoding, "ask for application/msgpack, which carries each vector's own")
    if "errors" in given and parameters.errors == "item":
        raise _refused("errors", "item", "omit errors: with an .npy a bad image fails the request")
    if isinstance(parameters.dimensions, list):
        raise _refused("dimensions", str(parameters.dimensions), "ask for one length, or for application/msgpack")


def write(answer: Answer) -> bytes:
    """Write the vectors as one dense .npy array."""
    for error in answer.errors.values():
        raise error
    encoding = answer.parameters.encoding
    assert encoding != "compact"  # `check` refused it
    buffer = io.BytesIO()
    np.save(buffer, pack(answer.vectors[0], encoding).numbers, allow_pickle=False)
    return buffer.getvalue()


def _refused(field: str, value: JsonScalar, fix: str) -> ParameterInvalid:
    return ParameterInvalid(f"{field}={value} does not fit into an .npy", fix=fix, field=field, value=value)
