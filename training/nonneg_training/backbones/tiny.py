"""A CNN so small that a test can train it: three convolutions, no batch statistics."""

from __future__ import annotations

from itertools import pairwise

from torch import nn

from nonneg_training.backbones.backbone import Backbone


def tiny_cnn(width: int = 64) -> Backbone:
    """Build a network of about 20,000 weights; group norm, so that an image's features never depend on its batch."""
    layers: list[nn.Module] = []
    channels = [3, width // 4, width // 2, width]
    for i, (incoming, outgoing) in enumerate(pairwise(channels)):
        layers += [
            nn.Conv2d(incoming, outgoing, 3, stride=1 if i == 0 else 2, padding=1, bias=False),
            nn.GroupNorm(4, outgoing),
            nn.ReLU(inplace=True),
        ]
    return Backbone(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), width, size=32)
