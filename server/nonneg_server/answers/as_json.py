"""The answer in JSON, written by orjson straight from numpy; other encodings than float are base64 text."""

from __future__ import annotations

import base64
from typing import Any

import orjson
from numpy.typing import NDArray

from nonneg_server.answers.native_answer import Wrap, check, one_by_one, record
from nonneg_server.embedding import Answer

__all__ = ["MEDIA_TYPE", "check", "write"]

MEDIA_TYPE = "application/json"


def write(answer: Answer) -> bytes:
    """Return the whole answer: orjson reads the arrays, other encodings than float are text."""
    wrap: Wrap = numbers if answer.parameters.encoding == "float" else text
    return orjson.dumps(record(answer, one_by_one(wrap)), option=orjson.OPT_SERIALIZE_NUMPY)


def numbers(array: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as they are: orjson writes an array as a list."""
    return array


def text(array: NDArray[Any]) -> str:
    """Return little-endian bytes as base64."""
    return base64.b64encode(array.tobytes()).decode("ascii")
