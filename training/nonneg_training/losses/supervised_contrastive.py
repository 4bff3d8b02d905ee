"""Label positives: every image of the same class is a positive (SupCon, arXiv 2004.11362, equation 2)."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def supervised_contrastive(similarity: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Return mean over anchors of the mean over positives of -log p(positive); anchors without a positive do not count.

    `similarity` holds the cosines of all pairs, (batch, batch).
    """
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    log_p = (similarity / temperature).masked_fill(itself, -math.inf).log_softmax(dim=1)
    positive = (labels[:, None] == labels[None, :]) & ~itself
    count = positive.sum(dim=1)
    each = -log_p.masked_fill(~positive, 0).sum(dim=1) / count.clamp(min=1)  # (batch,)
    return each.sum() / (count > 0).sum().clamp(min=1)
