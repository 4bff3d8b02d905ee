"""Many vectors as JSON at once: a few passes over the whole matrix instead of some calls a vector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import orjson
from numpy.typing import NDArray

from nonneg_core.shortening import Vectors
from nonneg_server.answers.numerals import WIDTH, numerals

MANY = 8192  # numbers from which it is worth while
_BLOCK = 1 << 15  # numbers at once: what they need meanwhile is memory the process has already, in the near cache
_LARGEST = 1 << 17  # numbers and zeros at once
_ZERO = b"0,"
_STEP = len(_ZERO)
_WIDER = WIDTH // _STEP - 1  # zeros that a number displaces, beside its own


def in_bulk(z: Vectors, shape: Literal["sparse", "dense", "both"]) -> list[dict[str, Any]] | None:
    """Each vector's part of the answer; None where that is no gain: they are few, or their numbers too odd."""
    if z.size < MANY or len(z) == 1:
        return None
    rows: list[dict[str, Any]] = []
    for block in _blocks(z):
        active = np.flatnonzero(block > 0)
        written = numerals(block.ravel()[active])
        if written is None:
            return None
        ends = [0, *np.searchsorted(active, np.arange(1, len(block) + 1) * block.shape[1]).tolist()]
        lists = {}
        if shape != "dense":
            places = active % block.shape[1]
            lists["indices"] = [places[a:b] for a, b in pairwise(ends)]
            lists["values"] = _cut(written.tobytes(), [end * WIDTH for end in ends])
        if shape != "sparse":
            line = _among_zeros(active, written, block.size)
            starts = np.arange(len(block) + 1) * block.shape[1] * _STEP + np.array(ends) * _WIDER * _STEP
            lists["embedding"] = _cut(line, starts.tolist())
        for (a, b), *parts in zip(pairwise(ends), *lists.values(), strict=True):
            rows.append({**dict(zip(lists, parts, strict=True)), "nnz": b - a, "zero": a == b})
    return rows


def dense_lists(z: Vectors) -> Iterable[Any]:
    """The rows as orjson takes them, for dialects with rows of their own."""
    found = in_bulk(z, "dense")
    return z if found is None else [row["embedding"] for row in found]


def _blocks(z: Vectors) -> Iterator[Vectors]:
    """The matrix in pieces of whole rows, each with about so many numbers, by what its first rows have."""
    share = np.count_nonzero(z[:8] > 0) / z[:8].size
    rows = max(1, int(min(_BLOCK / max(share, 1e-9), _LARGEST)) // z.shape[1])
    return (z[start : start + rows] for start in range(0, len(z), rows))


def _among_zeros(active: NDArray[np.intp], written: NDArray[np.uint8], size: int) -> bytes:
    """All numbers in one line: first a line full of zeros, then the others laid over it at their places."""
    line = bytearray(_ZERO * (size + _WIDER * active.size))
    if active.size:
        first = np.frombuffer(line, f"V{WIDTH}", count=1)
        last = len(line) // _STEP - _WIDER
        places = np.lib.stride_tricks.as_strided(first, (last,), (_STEP,), writeable=True)
        places[active + _WIDER * np.arange(active.size)] = written.view(f"V{WIDTH}")[:, 0]
    return bytes(line)


def _cut(text: bytes, ends: list[int]) -> list[orjson.Fragment]:
    """The text as JSON lists, each without its last comma."""
    return [orjson.Fragment(b"[%b]" % text[a:b][:-1]) for a, b in pairwise(ends)]
