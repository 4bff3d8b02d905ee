"""An encoded image: its vector and where its time went; or the error that it is too late."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import DeadlineExceeded


class Encoded(NamedTuple):
    """One image's raw vector and where its time went."""

    vector: NDArray[np.float32]  # (D,)
    queue_seconds: float
    decode_seconds: float
    run_seconds: float
    wide: bool = False  # every core worked on this image alone
    of_text: bool = False  # by the text tower


def too_late() -> DeadlineExceeded:
    """Return the error of a request whose deadline has passed."""
    return DeadlineExceeded(
        "the deadline passed before the vectors were ready",
        fix="ask again later, or with fewer images, or with a longer timeout",
        field="timeout",
    )
