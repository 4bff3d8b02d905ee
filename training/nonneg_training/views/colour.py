"""Colour jitter and grey for a whole batch, each image with its own factors; pixel values 0..255 throughout.

The formulas are those of torchvision's transforms on float images.
"""

from __future__ import annotations

import torch
from torch import Tensor

_GREY = (0.2989, 0.587, 0.114)


def grey(x: Tensor) -> Tensor:
    """Turn (batch, 3, h, w) into (batch, 1, h, w)."""
    r, g, b = x.unbind(1)
    return (_GREY[0] * r).add_(g, alpha=_GREY[1]).add_(b, alpha=_GREY[2]).unsqueeze(1)


def brightness(x: Tensor, factor: Tensor) -> Tensor:
    """Scale all channels, each image by its own factor."""
    return (x * _wide(factor)).clamp_(0, 255)


def contrast(x: Tensor, factor: Tensor) -> Tensor:
    """Blend each image with its mean grey."""
    return _blend(x, grey(x).mean(dim=(1, 2, 3), keepdim=True), factor)


def saturation(x: Tensor, factor: Tensor) -> Tensor:
    """Blend each image with its own grey version."""
    return _blend(x, grey(x), factor)


def hue(x: Tensor, shift: Tensor) -> Tensor:
    """Turn the hue by `shift` of the whole circle."""
    r, g, b = x.unbind(1)
    value, low = torch.maximum(torch.maximum(r, g), b), torch.minimum(torch.minimum(r, g), b)
    chroma = value - low
    inverse = 1 / chroma.clamp(min=1e-6)
    at_green = (b - r).mul_(inverse).add_(2)
    at_blue = (r - g).mul_(inverse).add_(4)
    at_red = (g - b).mul_(inverse)
    sixth = torch.where(value == r, at_red, torch.where(value == g, at_green, at_blue))
    sixth = sixth.add_(shift.view(-1, 1, 1) * 6)  # hue in sixths of the circle
    turned = torch.empty_like(x)
    for channel, n in enumerate((5.0, 3.0, 1.0)):
        k = (sixth + n).remainder_(6)
        turned[:, channel] = value - chroma * torch.minimum(k, 4 - k).clamp_(0, 1)
    return turned


def _blend(x: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    return torch.lerp(other.expand_as(x), x, _wide(factor)).clamp_(0, 255)


def _wide(factor: Tensor) -> Tensor:
    return factor.view(-1, 1, 1, 1)
