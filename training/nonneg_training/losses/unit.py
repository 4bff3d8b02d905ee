"""Vectors of length one for a loss, where some may be all zeros."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

SHORTEST = (
    1e-2  # shorter vectors are divided by this: their gradient grows with one over it (by rep_relu, zeros have one)
)


def unit(z: Tensor) -> Tensor:
    """Return each row divided by its length, or by SHORTEST where it is shorter."""
    return F.normalize(z.float(), dim=1, eps=SHORTEST)
