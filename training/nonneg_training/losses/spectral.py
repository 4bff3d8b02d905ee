"""The spectral contrastive loss: matrix factorisation of the normalised co-occurrence of views."""

from __future__ import annotations

from torch import Tensor


def spectral(z1: Tensor, z2: Tensor) -> Tensor:
    """Compute -2 E z(x).z(x+) + E (z(x).z(x-))^2; the negatives are all pairs of different images, both views.

    Up to a constant |A - F F^T|^2 for the co-occurrence matrix A (arXiv 2106.04156; non-negative: 2403.12459, eq. 6).
    """
    z1, z2 = z1.float(), z2.float()
    batch = len(z1)
    positive = (z1 * z2).sum(dim=1).mean()
    cross = (z1 @ z2.T).square()
    negative = (cross.sum() - cross.diagonal().sum()) / (batch * (batch - 1))
    loss: Tensor = -2 * positive + negative
    return loss


def clip_length(z: Tensor, radius: float) -> Tensor:
    """Return vectors longer than `radius` shortened to it: the loss has no length of its own to hold early steps."""
    shrink = radius / z.float().norm(dim=1, keepdim=True).clamp(min=radius)  # (batch, 1), at most 1
    clipped: Tensor = z * shrink.to(z.dtype)
    return clipped
