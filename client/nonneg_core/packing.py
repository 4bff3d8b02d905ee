"""Numbers as bytes: float32, float16, int8 with a scale, or one bit each; little-endian, whatever the machine."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nonneg_core.shortening import Vectors

Encoding = Literal["float", "base64", "float16", "int8", "binary"]  # and compact, of indices and values: `compact`


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
    if encoding == "int8":
        return quantised(z)
    return Packed(bits(z))


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


def bits(z: Vectors) -> NDArray[np.uint8]:
    """Pack one bit a dimension, the first in the highest bit: set where the value is > 0 (>= 0 would set all)."""
    return np.packbits(z > 0, axis=-1)
