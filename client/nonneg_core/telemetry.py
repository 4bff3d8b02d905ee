"""Nobody is told what runs here: runtimes that report to their makers unless asked not to are asked not to.

ONNX Runtime does so from 1.29 on, with names and hashes of models; it reads the variable when it is loaded. Each
package of ours that uses it therefore calls this first. Who wants the reports sets the variable to 0.
"""

from __future__ import annotations

import os

VARIABLE = "ORT_DISABLE_TELEMETRY"


def refuse() -> None:
    """Have ONNX Runtime report nothing, unless somebody has decided otherwise."""
    os.environ.setdefault(VARIABLE, "1")
