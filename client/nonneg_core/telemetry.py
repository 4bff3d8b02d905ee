"""Usage reports of the runtimes are turned off: some send them to their makers by default.

ONNX Runtime does so from 1.29 on, with names and hashes of models; it reads the variable when it is loaded. Each
package of ours that uses it therefore calls this first. With the variable at 0 they are sent.
"""

from __future__ import annotations

import os

VARIABLE = "ORT_DISABLE_TELEMETRY"


def refuse() -> None:
    """Turn off ONNX Runtime's usage reports, unless its environment variable is set."""
    os.environ.setdefault(VARIABLE, "1")
