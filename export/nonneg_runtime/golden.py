"""The golden vector: what the encoder answered to the test pattern at its export, and how it is tested elsewhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import CheckFailed
from nonneg_runtime.evidence import Golden
from nonneg_runtime.graph import test_pattern
from nonneg_runtime.inference.providers import Runner
from nonneg_runtime.manifest import Manifest


def golden_cosine(runner: Runner, manifest: Manifest) -> float:
    """Return the cosine between the recorded vector of the test pattern and the one that `runner` computes."""
    return _cosine_to(manifest.golden, runner.run(test_pattern(manifest.view.size))[0])


def check(runner: Runner, manifest: Manifest) -> float:
    """Return the golden cosine; raises CheckFailed when it is below the recorded tolerance."""
    return held(manifest.golden, golden_cosine(runner, manifest), manifest.name)


def check_text(vector: NDArray[np.float32], recorded: Golden, name: str) -> float:
    """Return the same of a text tower, which answered `vector` to the text of its self-test."""
    return held(recorded, _cosine_to(recorded, vector), name)


def held(recorded: Golden, found: float, name: str) -> float:
    """Return the cosine, unless it is below what was recorded."""
    if not found >= recorded.tolerance:
        raise CheckFailed(
            f"{name} fails its self-test: cosine {found:.6f} to the exporter's vector, less than {recorded.tolerance}",
            fix="reinstall onnxruntime, or export the bundle again on this machine; `nonneg doctor` says more",
            value=found,
            limit=recorded.tolerance,
        )
    return found


def _cosine_to(recorded: Golden, vector: NDArray[np.float32]) -> float:
    expected = np.zeros(len(vector))
    expected[list(recorded.indices)] = recorded.values
    return cosine(expected, vector.astype(np.float64))


def cosine(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return the cosine of two vectors; two zero vectors agree."""
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / lengths if lengths else float(not a.any() and not b.any())
