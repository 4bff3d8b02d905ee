"""Sparse reconstruction (CSR, arXiv 2503.01776): keep the k largest, decode, revive what never fires."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def top_k(z: Tensor, k: int) -> Tensor:
    """Return each row's k largest entries, the rest zero."""
    if k >= z.shape[1]:
        return z
    values, indices = z.topk(k, dim=1)
    return torch.zeros_like(z).scatter(1, indices, values)


def batch_top_k(z: Tensor, k: int) -> Tensor:
    """Return the batch's k x batch largest entries: rich images may use more than k, plain ones fewer."""
    keep = k * len(z)
    if keep >= z.numel():
        return z
    threshold = z.detach().flatten().kthvalue(z.numel() - keep).values
    return torch.where(z > threshold, z, 0)


def relative_error(x: Tensor, decoded: Tensor, mean: Tensor) -> Tensor:
    """Return squared error as a share of the variance: 1 is what always answering the mean would cost."""
    return (decoded - x).square().sum() / (x - mean).square().sum().clamp(min=1e-12)


def revival(z: Tensor, dead: Tensor, residual: Tensor, decoder: Tensor, k: int) -> Tensor:
    """Return how badly the k strongest dead dimensions explain what the live ones left over.

    z: pre-activations (batch, D); dead: bool (D,); residual: x - decoded, detached (batch, width); decoder: (width, D).
    """
    if not dead.any():
        return z.sum() * 0
    chosen = top_k(z.masked_fill(~dead, 0).relu(), min(k, int(dead.sum())))
    return relative_error(residual, F.linear(chosen, decoder), residual.mean(dim=0)).nan_to_num(0.0)


def annealed(k: int, start: int, share: float, progress: float) -> int:
    """Return how many: from `start` down to k over the first `share` of the run, then k (CSRv2)."""
    if start <= k or share <= 0 or progress >= share:
        return k
    return round(start + (k - start) * progress / share)
