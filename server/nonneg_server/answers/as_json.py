"""The answer in JSON, written by orjson straight from numpy; other encodings than float are base64 text."""

from __future__ import annotations

import base64
from typing import Any

import orjson
from numpy.typing import NDArray

from nonneg_server.answers.rows import record
from nonneg_server.embedding import Answer
from nonneg_server.requests.parameters import Parameters

MEDIA_TYPE = "application/json"


def check(_: Parameters) -> None:
    """JSON carries everything."""


def write(answer: Answer) -> bytes:
    wrap = _numbers if answer.parameters.encoding == "float" else text
    return orjson.dumps(record(answer, wrap), option=orjson.OPT_SERIALIZE_NUMPY)


def text(array: NDArray[Any]) -> str:
    """Little-endian bytes as base64."""
    return base64.b64encode(array.tobytes()).decode("ascii")


def _numbers(array: NDArray[Any]) -> NDArray[Any]:
    return array
