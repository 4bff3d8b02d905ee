"""The golden vector: what the encoder answered to the test pattern at its export, and how it is tested elsewhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import CheckFailed
from nonneg_runtime.graph import test_pattern
from nonneg_runtime.manifest import Manifest
from nonneg_runtime.providers import Runner


def golden_cosine(runner: Runner, manifest: Manifest) -> float:
    """The cosine between the recorded vector of the test pattern and the one that `runner` computes."""
    live = runner.run(test_pattern(manifest.view.size))[0].astype(np.float64)  # (D,)
    recorded = np.zeros(manifest.dimensions)
    recorded[list(manifest.golden.indices)] = manifest.golden.values
    return cosine(recorded, live)


def check(runner: Runner, manifest: Manifest) -> float:
    """The golden cosine; raises CheckFailed when it is below the recorded tolerance."""
    found, limit = golden_cosine(runner, manifest), manifest.golden.tolerance
    if not found >= limit:
        raise CheckFailed(
            f"{manifest.name} fails its self-test: cosine {found:.6f} to the exporter's vector, less than {limit}",
            fix="reinstall onnxruntime, or export the bundle again on this machine; `nonneg doctor` says more",
            value=found,
            limit=limit,
        )
    return found


def cosine(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """The cosine of two vectors; two zero vectors agree."""
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / lengths if lengths else float(not a.any() and not b.any())
