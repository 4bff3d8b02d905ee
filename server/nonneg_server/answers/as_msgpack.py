"""The answer in msgpack: JSON's keys, with vectors and indices as little-endian bytes."""

from __future__ import annotations

from typing import Any

import ormsgpack
from numpy.typing import NDArray

from nonneg_server.answers.native_answer import check, one_by_one, record
from nonneg_server.embedding import Answer

__all__ = ["MEDIA_TYPE", "check", "write"]

MEDIA_TYPE = "application/msgpack"


def write(answer: Answer) -> bytes:
    """Write the answer in msgpack."""
    return ormsgpack.packb(record(answer, one_by_one(_raw)))


def _raw(array: NDArray[Any]) -> bytes:
    return array.tobytes()
