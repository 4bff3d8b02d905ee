"""The self-test: does the encoder here answer what it answered where it was exported?"""

from __future__ import annotations

import numpy as np

from nonneg_export.bundle import Bundle
from nonneg_export.runtime import Runner, open_session, test_pattern


def golden_cosine(bundle: Bundle, session: Runner | None = None) -> float:
    """Cosine between the live vector of the test pattern and the manifest's; 1 where both are zero."""
    manifest = bundle.manifest
    runner = session or open_session(bundle.encoder, precision=manifest.precision)
    live = runner.run(test_pattern(manifest.view.size))[0].astype(np.float64)  # (D,)
    golden = np.zeros(manifest.dimensions)
    golden[list(manifest.golden.indices)] = manifest.golden.values
    lengths = float(np.linalg.norm(live) * np.linalg.norm(golden))
    return float(live @ golden) / lengths if lengths > 0 else float(not live.any() and not golden.any())
