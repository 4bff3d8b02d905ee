"""Vectors as bytes: float32, float16 or int8; or sparse, in as few bytes as indices and values need."""

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Floats, Numbers
from nonneg_core.errors import DataInvalid
from nonneg_core.shortening import Vectors

Encoding = Literal["float", "base64", "float16", "int8"]  # of one number; compact and binary are of whole vectors


class Packed(NamedTuple):
    """A vector's numbers in their stored type; value = number * scale where there is a scale."""

    numbers: NDArray[Any]
    scale: float | None = None


def pack(z: Vectors, encoding: Encoding) -> Packed:
    """Return one vector, or the values of a sparse one, in the type asked for."""
    if encoding in ("float", "base64"):
        return Packed(z.astype("<f4", copy=False))
    if encoding == "float16":
        return Packed(half(z))
    return quantised(z)


def half(z: Vectors) -> NDArray[Any]:
    """Return float16; what exceeds its range (only without normalisation) stays at its largest number."""
    return np.minimum(z, np.float32(65504)).astype("<f2")


def quantised(z: Vectors) -> Packed:
    """Return int8 of 0..127 with a scale of its own; what was active stays active."""
    peak = float(z.max(initial=0))
    if peak == 0:
        return Packed(np.zeros(z.shape, np.int8), 1.0)
    scale = max(peak / 127, float(np.finfo(np.float32).tiny))
    numbers = np.clip(np.rint(z / scale), z > 0, 127)
    return Packed(numbers.astype(np.int8), scale)


# A sparse vector in as few bytes as its indices and values need: gaps in Rice's code, values in four bits.
#
#     u16   count of active dimensions, big-endian, as is everything here
#     f16   the largest value, m
#     bits  count gaps: i0, i1 - i0 - 1, ...; a gap g is (g >> r) ones, a zero, and the r low bits of g
#     bits  count values: four bits q stand for m (q + 1) / 16
#     bits  zeros to the next byte
#
# r is not written: it is the rounded log2(ln 2 * dimensions / count), at least 0, so a reader needs the dimensions. A
# value is at most m / 32 away from what it was, but for those below m / 16, which become m / 16.

LEVELS = 16
MOST = 2**16 - 1
LEAST, LARGEST = 2.0**-24, 65504.0  # that float16 holds
HEAD = 4  # bytes
Bits = NDArray[np.uint8]


def pack_sparse(indices: NDArray[Any], values: NDArray[Any], dimensions: int) -> bytes:
    """Return the vector with these values at these ascending indices; values above 0."""
    count = len(indices)
    if count > MOST:
        raise DataInvalid(
            f"{count} active dimensions do not fit the compact form",
            fix="keep fewer: top_k=205",
            limit=MOST,
            value=count,
        )
    largest = np.float16(np.clip(values.max(), LEAST, LARGEST) if count else 0)
    head = np.array([count], ">u2").tobytes() + np.array([largest], ">f2").tobytes()
    if not count:
        return head
    ascending = np.asarray(indices, dtype=np.int64)
    gaps = ascending - np.concatenate([[-1], ascending[:-1]]) - 1
    levels = np.rint(np.asarray(values, dtype=np.float64) * LEVELS / float(largest)) - 1
    fours = _low_bits(levels.clip(0, LEVELS - 1).astype(np.int64), 4)
    return head + np.packbits(np.concatenate([_rice(gaps, parameter(count, dimensions)), fours])).tobytes()


def unpack_sparse(data: bytes, dimensions: int) -> tuple[NDArray[np.int32], Floats]:
    """Return indices and values of what `pack` wrote."""
    count = int(np.frombuffer(data, ">u2", 1)[0]) if len(data) >= HEAD else 0
    if len(data) < HEAD or len(data) < HEAD + count // 2:
        raise _damaged()
    bits = np.unpackbits(np.frombuffer(data, np.uint8, offset=HEAD))
    low = parameter(count, dimensions)
    zeros = np.flatnonzero(bits == 0).tolist()
    gaps, at, next_zero = np.zeros(count, dtype=np.int64), 0, 0
    for i in range(count):
        while next_zero < len(zeros) and zeros[next_zero] < at:
            next_zero += 1
        if next_zero == len(zeros):
            raise _damaged()
        stop = zeros[next_zero]
        gaps[i] = (stop - at) << low | _number(bits[stop + 1 : stop + 1 + low])
        at = stop + 1 + low
    indices = np.cumsum(gaps + 1) - 1
    fours = bits[at : at + 4 * count]
    if len(fours) < 4 * count or (count and indices[-1] >= dimensions):
        raise _damaged()
    largest = float(np.frombuffer(data, ">f2", 1, offset=2)[0])
    values = (fours.reshape(-1, 4) @ np.array([8, 4, 2, 1]) + 1) * (largest / LEVELS)
    return indices.astype(np.int32), values.astype(np.float32)


def parameter(count: int, dimensions: int) -> int:
    """Return the low bits of a gap that are written as they are: the best number where gaps are drawn by chance."""
    return max(0, round(math.log2(math.log(2) * dimensions / count))) if count else 0


def _rice(gaps: Numbers, low: int) -> Bits:
    high = gaps >> low
    ends = np.cumsum(high + 1 + low)
    bits = np.ones(ends[-1], dtype=np.uint8)
    bits[ends - 1 - low] = 0  # what ends the ones
    if low:
        places = (ends - low)[:, None] + np.arange(low)
        bits[places.ravel()] = _low_bits(gaps, low)
    return bits


def _low_bits(numbers: Numbers, width: int) -> Bits:
    return (numbers[:, None] >> np.arange(width - 1, -1, -1) & 1).astype(np.uint8).ravel()


def _number(bits: Bits) -> int:
    return int("".join(map(str, bits.tolist())) or "0", 2)


def _damaged() -> DataInvalid:
    return DataInvalid("this is not a compact vector of this length", fix="embed the images again")
