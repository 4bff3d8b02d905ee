"""Nested (Matryoshka) lengths: the same loss on every prefix, so that prefixes are good by construction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nonneg_core.errors import ConfigInvalid
from nonneg_training.losses.unit import SHORTEST


def nested(loss: Callable[..., Tensor], lengths: Sequence[int], *z: Tensor) -> Tensor:
    """Return the mean over `lengths` of loss(z[:, :k], ...); without lengths the loss of the whole vectors."""
    if not lengths:
        return loss(*z)
    return torch.stack([loss(*(v[:, :k] for v in z)) for k in lengths]).mean()


def prefix_similarities(z: Tensor, lengths: Sequence[int]) -> list[Tensor]:
    """Return all pairs' cosines on every prefix, each gram matrix built on the one before: (batch, batch) a length.

    Products are computed for D columns once, not for the sum of the lengths.
    """
    found: list[Tensor] = []
    gram: Tensor | None = None
    start = 0
    for k in sorted(lengths):
        part = z[:, start:k].float()
        gram = part @ part.T if gram is None else gram + part @ part.T
        inverse = gram.diagonal().clamp(min=SHORTEST**2).rsqrt()  # a prefix of zeros has cosines of zero
        found.append(gram * inverse[:, None] * inverse[None, :])
        start = k
    return found


def check_lengths(lengths: Sequence[int], dimensions: int) -> tuple[int, ...]:
    """Return them sorted, distinct, at most D."""
    if any(k < 1 or k > dimensions for k in lengths):
        raise ConfigInvalid(
            f"loss.lengths={list(lengths)} does not fit {dimensions} dimensions",
            fix=f"give lengths from 1 to {dimensions}",
            field="loss.lengths",
            limit=dimensions,
        )
    return tuple(sorted(set(lengths)))
