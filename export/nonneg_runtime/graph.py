"""What every encoder's graph calls its input and output, and the picture that all of them are tried with."""

from __future__ import annotations

import numpy as np

from nonneg_core.pixels.view import Pixels

INPUT, OUTPUT = "pixels", "embedding"


def test_pattern(size: int) -> Pixels:
    """Return the golden input: smooth waves in three colours, the same integers on every machine."""
    y, x = np.mgrid[0:size, 0:size].astype(np.int64)
    waves = [(x * (c + 2) + y * (3 - c)) * 256 // size % 512 for c in range(3)]
    pattern = np.stack([np.where(w < 256, w, 511 - w) for w in waves], axis=-1)
    return pattern.astype(np.uint8)[None]  # (1, size, size, 3)
