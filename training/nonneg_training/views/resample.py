"""Crop, resize, flip and blur of a whole batch as two small matrix products an image, each image with its own."""

from __future__ import annotations

import torch
from torch import Tensor


def random_boxes(
    count: int, height: Tensor, width: Tensor, area: tuple[float, float], g: torch.Generator, *, tries: int = 10
) -> Tensor:
    """Draw `count` boxes (top, left, height, width) as torchvision's RandomResizedCrop does, ratio 3/4 to 4/3."""
    share = torch.empty(count, tries).uniform_(*area, generator=g)
    ratio = torch.empty(count, tries).uniform_(-0.28768207, 0.28768207, generator=g).exp()  # ln(4/3)
    place = torch.rand(count, 2, generator=g)
    target = (height * width).view(-1, 1) * share
    w, h = (target * ratio).sqrt().round(), (target / ratio).sqrt().round()  # (count, tries)
    fits = (w >= 1) & (h >= 1) & (w <= width.view(-1, 1)) & (h <= height.view(-1, 1))
    first = fits.float().argmax(dim=1, keepdim=True)  # the first try that fits
    none = ~fits.any(dim=1)
    side = torch.minimum(height, width)
    w = torch.where(none, side, w.gather(1, first).squeeze(1))
    h = torch.where(none, side, h.gather(1, first).squeeze(1))
    top, left = (place[:, 0] * (height - h + 1)).floor(), (place[:, 1] * (width - w + 1)).floor()
    return torch.stack([top.minimum(height - h), left.minimum(width - w), h, w], dim=1)  # (count, 4)


def resample_weights(start: Tensor, length: Tensor, source: int, target: int) -> Tensor:
    """Make an image's matrix (target, source) that resizes start..start+length bilinearly, antialiased when shrinking.

    A triangle as wide as the larger of one source and one target pixel, cut off at the box and made to sum to one.
    """
    scale = (length / target).view(-1, 1, 1)
    support = scale.clamp(min=1.0)
    centre = (torch.arange(target, device=start.device) + 0.5).view(1, -1, 1) * scale + start.view(
        -1, 1, 1
    )  # (batch, target, 1)
    pixel = (torch.arange(source, device=start.device) + 0.5).view(1, 1, -1)
    weight = (1 - (pixel - centre).abs() / support).clamp(min=0)  # (batch, target, source)
    inside = (pixel > start.view(-1, 1, 1)) & (pixel < (start + length).view(-1, 1, 1))
    weight = weight * inside
    return weight / weight.sum(dim=2, keepdim=True)


def crop_resize(x: Tensor, boxes: Tensor, size: int, flip: Tensor) -> Tensor:
    """Return each image's box at size x size, mirrored where `flip`: (batch, 3, h, w) -> (batch, 3, size, size)."""
    rows = resample_weights(boxes[:, 0], boxes[:, 2], x.shape[2], size)
    columns = resample_weights(boxes[:, 1], boxes[:, 3], x.shape[3], size)
    columns = torch.where(flip.view(-1, 1, 1), columns.flip(1), columns)
    return separable(x, rows, columns)


def blur_weights(sigma: Tensor, size: int, kernel: int) -> Tensor:
    """Make an image's matrix (size, size) of a Gaussian blur with `kernel` taps and mirrored borders."""
    radius = kernel // 2
    offset = torch.arange(-radius, radius + 1, device=sigma.device)
    tap = torch.exp(-0.5 * (offset / sigma.view(-1, 1)) ** 2)  # (batch, kernel)
    tap = tap / tap.sum(dim=1, keepdim=True)
    source = (torch.arange(size, device=sigma.device).view(-1, 1) + offset).abs()  # (size, kernel), mirrored at 0 ...
    source = torch.where(source >= size, 2 * (size - 1) - source, source)  # ... and at the far border
    matrix = torch.zeros(len(sigma), size, size, device=sigma.device)
    return matrix.scatter_add_(2, source.expand(len(sigma), -1, -1), tap.unsqueeze(1).expand(-1, size, -1))


def separable(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return rows @ image @ columns^T for every image and channel."""
    batch, channels, height, width = x.shape
    y = torch.bmm(x.reshape(batch, channels * height, width), columns.transpose(1, 2))
    y = y.view(batch, channels, height, -1).transpose(1, 2).reshape(batch, height, -1)
    y = torch.bmm(rows, y)  # (batch, size, channels * size)
    return y.view(batch, rows.shape[1], channels, columns.shape[1]).transpose(1, 2)
