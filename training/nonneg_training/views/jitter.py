"""Colour jitter, grey and blur of a whole batch, each image with its own chance and its own strength."""

from __future__ import annotations

import torch
from torch import Tensor

from nonneg_training.settings import Views
from nonneg_training.views import colour, resample

BLOCK = 2**17  # values that share one order of the jitter: what a core's cache holds; from about 210 px on, one image


class Recolour:
    """Applied to float views 0..255, (batch, 3, size, size), which it may change in place."""

    def __init__(self, views: Views, size: int) -> None:
        self.views, self.size = views, size

    def __call__(self, x: Tensor, g: torch.Generator) -> Tensor:
        self._jitter(x, g)
        self._grey(x, g)
        self._blur(x, g)
        return x

    def _jitter(self, x: Tensor, g: torch.Generator) -> None:
        """Change four things in random order: torchvision draws it once an image, this once a block of images."""
        rows = chosen(len(x), self.views.jitter, g).nonzero().flatten()
        factors = {name: self._factors(name, len(rows), g) for name in _CHANGES}
        block = max(1, BLOCK // x[0].numel())
        for start in range(0, len(rows), block):
            part = slice(start, start + block)
            y = x[rows[part]]
            for number in torch.randperm(4, generator=g).tolist():
                name = list(_CHANGES)[number]
                if getattr(self.views, name):
                    y = _CHANGES[name](y, factors[name][part].to(x.device))
            x[rows[part]] = y

    def _factors(self, name: str, count: int, g: torch.Generator) -> Tensor:
        strength = float(getattr(self.views, name))
        draw = torch.empty(count).uniform_(-strength, strength, generator=g)
        return draw if name == "hue" else (1 + draw).clamp(min=0)

    def _grey(self, x: Tensor, g: torch.Generator) -> None:
        rows = chosen(len(x), self.views.grey, g).to(x.device)
        x[rows] = colour.grey(x[rows]).expand(-1, 3, -1, -1)

    def _blur(self, x: Tensor, g: torch.Generator) -> None:
        rows = chosen(len(x), self.views.blur, g)
        sigma = torch.empty(len(x)).uniform_(*SIGMA, generator=g)[rows].to(x.device)
        rows = rows.to(x.device)
        if len(sigma):
            matrix = resample.blur_weights(sigma, self.size, blur_kernel(self.size))
            x[rows] = resample.separable(x[rows], matrix, matrix)


SIGMA = (0.1, 2.0)  # of the blur, in pixels


def blur_kernel(size: int) -> int:
    """Return the blur's taps: an odd number, about a tenth of the side."""
    return max(3, size // 20 * 2 + 1)


def chosen(count: int, probability: float, g: torch.Generator) -> Tensor:
    """Return which of `count` images something happens to."""
    return torch.rand(count, generator=g) < probability


_CHANGES = {
    "brightness": colour.brightness,
    "contrast": colour.contrast,
    "saturation": colour.saturation,
    "hue": colour.hue,
}
