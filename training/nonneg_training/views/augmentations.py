"""Crop, flip, blur, colour jitter and grey of a whole batch, each image with its own chances and strengths."""

import torch
from torch import Tensor

from nonneg_training.setup.run_settings import Views


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


# Colour jitter and grey for a whole batch, each image with its own factors; pixel values 0..255 throughout.
#
# The formulas are those of torchvision's transforms on float images.

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
    return _mixed(x, grey(x).mean(dim=(1, 2, 3), keepdim=True), factor)


def saturation(x: Tensor, factor: Tensor) -> Tensor:
    """Blend each image with its own grey version."""
    return _mixed(x, grey(x), factor)


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


def _mixed(x: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    return torch.lerp(other.expand_as(x), x, _wide(factor)).clamp_(0, 255)


def _wide(factor: Tensor) -> Tensor:
    return factor.view(-1, 1, 1, 1)


# Colour jitter, grey and blur of a whole batch, each image with its own chance and its own strength.

JITTER_BLOCK = (
    2**17
)  # values that share one order of the jitter: what a core's cache holds; from about 210 px on, one image


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
        rows = drawn_images(len(x), self.views.jitter, g).nonzero().flatten()
        factors = {name: self._factors(name, len(rows), g) for name in _CHANGES}
        block = max(1, JITTER_BLOCK // x[0].numel())
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
        rows = drawn_images(len(x), self.views.grey, g).to(x.device)
        x[rows] = grey(x[rows]).expand(-1, 3, -1, -1)

    def _blur(self, x: Tensor, g: torch.Generator) -> None:
        rows = drawn_images(len(x), self.views.blur, g)
        sigma = torch.empty(len(x)).uniform_(*SIGMA, generator=g)[rows].to(x.device)
        rows = rows.to(x.device)
        if len(sigma):
            matrix = blur_weights(sigma, self.size, blur_kernel(self.size))
            x[rows] = separable(x[rows], matrix, matrix)


SIGMA = (0.1, 2.0)  # of the blur, in pixels


def blur_kernel(size: int) -> int:
    """Return the blur's taps: an odd number, about a tenth of the side."""
    return max(3, size // 20 * 2 + 1)


def drawn_images(count: int, probability: float, g: torch.Generator) -> Tensor:
    """Return which of `count` images something happens to."""
    return torch.rand(count, generator=g) < probability


_CHANGES = {
    "brightness": brightness,
    "contrast": contrast,
    "saturation": saturation,
    "hue": hue,
}
