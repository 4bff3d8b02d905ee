"""The golden vector: what the encoder answers to the test pattern, so that whoever loads it can test it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nonneg_client.errors import CheckFailed
from nonneg_export.manifest import Golden, Manifest
from nonneg_export.runtime import open_session, test_pattern
from nonneg_export.statistics import rounded


def record(encoder: Path, size: int, precision: str = "fp32") -> Golden:
    """The answer of this machine, at recorded precision."""
    z = open_session(encoder, precision=precision).run(test_pattern(size))[0]  # (D,)
    active = np.flatnonzero(z > 0)
    return Golden(indices=tuple(active.tolist()), values=rounded(z[active]))


def check(encoder: Path, manifest: Manifest) -> float:
    """The cosine between the recorded and the live vector; raises when it is below the recorded tolerance."""
    session = open_session(encoder, precision=manifest.precision)
    live = session.run(test_pattern(manifest.view.size))[0].astype(np.float64)  # (D,)
    recorded = np.zeros_like(live)
    recorded[list(manifest.golden.indices)] = manifest.golden.values
    found = cosine(recorded, live)
    if not found >= manifest.golden.tolerance:
        raise CheckFailed(
            f"the encoder's answer to the test pattern has cosine {found:.4f} to the recorded one, "
            f"less than {manifest.golden.tolerance}",
            fix="run `nonneg doctor`; export or download the bundle again",
            value=found,
            limit=manifest.golden.tolerance,
        )
    return found


def cosine(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Of two vectors; two zero vectors agree."""
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / lengths if lengths else float(not a.any() and not b.any())
