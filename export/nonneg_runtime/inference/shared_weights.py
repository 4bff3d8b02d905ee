"""Sessions over one copy of an encoder's weights: what ONNX Runtime has optimised is written down, and they map it.

Each session of its own has a copy, in the layout that its kernels want. As the optimised graph with its weights beside
it, the encoder opens in milliseconds, without a copy, and answers the same in every bit. It is made for this processor:
so it is not kept, and its name is gone as soon as it is mapped.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from nonneg_runtime.bundle import ENCODER, storing
from nonneg_runtime.inference.session import Session


def sessions_sharing_weights(path: Path, threads: Sequence[int]) -> list[Session]:
    """Return a session on so many cores each; StorageFailed where a temporary file does not fit."""
    with storing(path), tempfile.TemporaryDirectory(prefix="nonneg-", ignore_cleanup_errors=True) as folder:
        place = Path(folder) / ENCODER
        Session(path, written_to=place)
        return [Session(place, threads=count, optimised=True) for count in threads]
