"""The result of each image, a vector or a failure, and parts of a stream, which must come from one model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nonneg_core.errors import FingerprintMismatch, NonnegError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class SparseVector:
    """One image's embedding."""

    id: str
    indices: NDArray[np.int32]
    values: NDArray[np.float32]


@dataclass(frozen=True)
class Failure:
    """One image that could not be embedded, and why."""

    id: str
    error: NonnegError


@dataclass(frozen=True)
class BatchResult:
    """The outcome of one batch; the model's name and fingerprint are empty where every image failed before sending."""

    results: tuple[SparseVector | Failure, ...]
    model: str = ""
    fingerprint: str = ""
    dimensions: int = 0
    normalized: bool = True


def joined(first: BatchResult, second: BatchResult) -> BatchResult:
    """Return the description of both parts; raises where the model changed between them."""
    if not first.fingerprint:
        return replace(second, results=())
    if second.fingerprint and (first.fingerprint, first.dimensions) != (second.fingerprint, second.dimensions):
        raise FingerprintMismatch(
            f"the server changed from model {first.fingerprint} to {second.fingerprint} between two requests",
            fix="embed everything again",
            value=second.fingerprint,
        )
    return replace(first, results=())
