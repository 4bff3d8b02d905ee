"""Cross entropy, and its non-negative form (NCE, arXiv 2403.12459, section 5): features and class weights >= 0."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def cross_entropy(z: Tensor, weight: Tensor, labels: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute -log softmax(z W^T + b)[label]."""
    return F.cross_entropy(F.linear(z.float(), weight.float(), bias), labels)


def non_negative_cross_entropy(z: Tensor, weight: Tensor, labels: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute -log softmax(z relu(W)^T + b)[label]: a class is a non-negative prototype, contrasted with its images."""
    return cross_entropy(z, weight.relu(), labels, bias)
