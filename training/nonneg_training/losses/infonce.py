"""InfoNCE over two views of each image (NT-Xent): the loss of `cl` and, on non-negative features, of `ncl`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from nonneg_training.losses.unit import unit


def infonce(z1: Tensor, z2: Tensor, temperature: float) -> Tensor:
    """Compute -log p(the other view) among the 2B - 1 other vectors, at cosine / temperature; mean over all 2B.

    z1[i] and z2[i] are views of one image, activated and not yet normalised; arXiv 2403.12459, equation 1.
    """
    z = unit(torch.cat([z1, z2]))  # (2B, D)
    similarity = z @ z.T / temperature  # (2B, 2B)
    similarity.fill_diagonal_(-math.inf)
    batch = len(z1)
    positive = torch.arange(2 * batch, device=z.device).roll(batch)
    return F.cross_entropy(similarity, positive)


def collapsed(batch: int) -> float:
    """Return the loss when all vectors are equal: ln(2B - 1)."""
    return math.log(2 * batch - 1)
