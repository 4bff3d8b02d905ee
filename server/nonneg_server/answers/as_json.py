"""The answer in JSON, written by orjson straight from numpy; other encodings than float are base64 text."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import orjson
from numpy.typing import NDArray

from nonneg_core.shortening import Vectors
from nonneg_server.answers.in_bulk import in_bulk
from nonneg_server.answers.rows import one_by_one, record
from nonneg_server.embedding import Answer
from nonneg_server.requests.parameters import Parameters

MEDIA_TYPE = "application/json"


def check(_: Parameters) -> None:
    """JSON carries everything."""


def write(answer: Answer) -> bytes:
    rows = _numbers if answer.parameters.encoding == "float" else one_by_one(text)
    return orjson.dumps(record(answer, rows), option=orjson.OPT_SERIALIZE_NUMPY)


def text(array: NDArray[Any]) -> str:
    """Little-endian bytes as base64."""
    return base64.b64encode(array.tobytes()).decode("ascii")


def _numbers(z: Vectors, wanted: Parameters) -> Iterable[dict[str, Any]]:
    rows = in_bulk(z, wanted.format)
    return one_by_one(lambda array: array)(z, wanted) if rows is None else rows
