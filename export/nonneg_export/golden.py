"""Recording the golden vector: what the encoder answers to the test pattern on the machine that exports it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nonneg_export.statistics import rounded
from nonneg_runtime.evidence import Golden
from nonneg_runtime.graph import test_pattern
from nonneg_runtime.open import open_session


def record(encoder: Path, size: int, precision: str = "fp32") -> Golden:
    """The answer of this machine, at recorded precision."""
    z = open_session(encoder, precision=precision).run(test_pattern(size))[0]  # (D,)
    active = np.flatnonzero(z > 0)
    return Golden(indices=tuple(active.tolist()), values=rounded(z[active]))
