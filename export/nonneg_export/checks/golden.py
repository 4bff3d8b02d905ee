"""Recording the golden vector: what the encoder answers to the test pattern on the machine that exports it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nonneg_export.statistics import rounded
from nonneg_runtime.evidence import Golden
from nonneg_runtime.graph import test_pattern
from nonneg_runtime.inference.open_session import open_session


def record(encoder: Path, size: int, precision: str = "fp32") -> Golden:
    """Return the answer of this machine, at recorded precision."""
    return recorded(open_session(encoder, precision=precision).run(test_pattern(size))[0])


def recorded(z: NDArray[np.float32]) -> Golden:
    """Return an answer to the test pattern, (D,), at recorded precision."""
    active = np.flatnonzero(z > 0)
    return Golden(indices=tuple(active.tolist()), values=rounded(z[active]))
