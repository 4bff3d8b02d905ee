"""InfoNCE between two towers (CLIP, arXiv 2103.00020): each image finds its caption and each caption its image."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from nonneg_training.losses.unit import unit


def clip(image: Tensor, text: Tensor, scale: Tensor) -> Tensor:
    """Compute both directions' mean -log p(partner) among the batch, at cosine * scale; row i belongs to row i."""
    similarity = unit(image) @ unit(text).T * scale
    partner = torch.arange(len(image), device=image.device)
    return (F.cross_entropy(similarity, partner) + F.cross_entropy(similarity.T, partner)) / 2
