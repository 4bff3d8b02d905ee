"""From image numbers to random views, SimCLR's: for a whole batch at once, or by torchvision one image at a time.

`fetch` reads, decodes and cuts, in the background if the loop likes; `finish` is arithmetic on all cores, done by the
thread that learns: two threads that both want all cores get less done than one.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

import nonneg_training.encoder.torchvision_schemas  # noqa: F401 - before torchvision
from nonneg_core.pixels.view import View
from nonneg_training.data import Arrays, Images
from nonneg_training.setup.run_settings import Views


def evaluation_view(views: Views, size: int) -> View:
    """Return the one view an image is embedded by: in monitoring, in the bundle, on the server."""
    return View(size=size, fit=views.fit, crop=views.centre, interpolation=views.interpolation)


class Pipeline(ABC):
    """Draws views as `views` says, `size` pixels wide."""

    def __init__(self, views: Views, size: int, device: torch.device | None = None, *, threads: int = 2) -> None:
        self.views, self.size, self.device = views, size, device or torch.device("cpu")
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="decode")

    @abstractmethod
    def fetch(self, images: Images, indices: Sequence[int], g: torch.Generator, count: int) -> Any:
        """Return what can be done ahead of `count` views of each of these images."""

    @abstractmethod
    def finish(self, fetched: Any, g: torch.Generator, count: int) -> Tensor:
        """Return the views, first all first views: float 0..255, (count * batch, 3, size, size), channels last."""

    def draw(self, images: Images, indices: Sequence[int], g: torch.Generator, count: int = 2) -> Tensor:
        """Return both at once."""
        return self.finish(self.fetch(images, indices, g, count), g, count)

    def evaluate(self, images: Images, indices: Sequence[int], view: View) -> NDArray[np.uint8]:
        """Return the evaluation view of each image: uint8 (batch, size, size, 3)."""
        return np.stack(list(self.pool.map(lambda i: images.pixels([i], view)[0], indices)))


class MemoryViews(Pipeline):
    """Images of one size that lie in memory: cropped by matrix products."""

    def fetch(self, images: Images, indices: Sequence[int], g: torch.Generator, count: int) -> Tensor:
        assert isinstance(images, Arrays)
        return torch.from_numpy(images.array[np.asarray(indices)])  # (batch, h, w, 3)

    def finish(self, fetched: Tensor, g: torch.Generator, count: int) -> Tensor:
        x = fetched.to(self.device).permute(0, 3, 1, 2).float().repeat(count, 1, 1, 1)
        height, width = (torch.full((len(x),), float(side)) for side in x.shape[2:])
        boxes = random_boxes(len(x), height, width, self.views.crop, g).to(self.device)
        flip = drawn_images(len(x), self.views.flip, g).to(self.device)
        x = crop_resize(x, boxes, self.size, flip)
        return Recolour(self.views, self.size)(x, g).contiguous(memory_format=torch.channels_last)


class Cutter(Pipeline):
    """One that begins with decoded pictures, wherever they came from."""

    def fetch(self, images: Images, indices: Sequence[int], g: torch.Generator, count: int) -> Any:
        return self.cut(list(self.pool.map(images.image, indices)), g, count)

    @abstractmethod
    def cut(self, pictures: Sequence[Image.Image], g: torch.Generator, count: int) -> Any:
        """Return what can be done ahead of `count` views of each of these pictures."""


class PictureViews(Cutter):
    """Photos of any size: decoded once, each view cut and resized by Pillow on a pool of threads."""

    def cut(self, pictures: Sequence[Image.Image], g: torch.Generator, count: int) -> Tensor:
        """Return random boxes of decoded pictures: uint8 (count * batch, size, size, 3)."""
        sizes = torch.tensor([picture.size for picture in pictures], dtype=torch.float32).repeat(count, 1)
        boxes = random_boxes(len(sizes), sizes[:, 1], sizes[:, 0], self.views.crop, g)
        cuts = list(self.pool.map(self._cut, list(pictures) * count, boxes.tolist()))
        return torch.from_numpy(np.stack(cuts))

    def finish(self, fetched: Tensor, g: torch.Generator, count: int) -> Tensor:
        x = fetched.to(self.device).permute(0, 3, 1, 2).float()
        flip = drawn_images(len(x), self.views.flip, g).to(self.device)
        x[flip] = x[flip].flip(3)
        return Recolour(self.views, self.size)(x, g).contiguous(memory_format=torch.channels_last)

    def _cut(self, image: Image.Image, box: Sequence[float]) -> NDArray[np.uint8]:
        top, left, height, width = box
        corners = (left, top, left + width, top + height)
        return np.asarray(image.resize((self.size, self.size), Image.Resampling.BILINEAR, box=corners))


# The same views by torchvision's transforms v2, one image after another: what the batched ones are held against.


class TorchvisionViews(Cutter):
    """Slower, and drawn by the thread that learns: torchvision takes its chances from torch's one generator."""

    def __init__(self, views: Views, size: int, device: torch.device | None = None, *, threads: int = 2) -> None:
        super().__init__(views, size, device, threads=threads)
        self.transform = simclr(views, size)

    def cut(self, pictures: Sequence[Image.Image], g: torch.Generator, count: int) -> list[Tensor]:
        """Return decoded pictures as torchvision expects them, (3, h, w)."""
        return [torch.from_numpy(np.array(picture)).permute(2, 0, 1) for picture in pictures]

    def finish(self, fetched: list[Tensor], g: torch.Generator, count: int) -> Tensor:
        seed = int(torch.randint(2**62, (), generator=g))
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            views = [self.transform(picture) for _ in range(count) for picture in fetched]
        x: Tensor = torch.stack(views).to(self.device).float()
        return x.contiguous(memory_format=torch.channels_last)


def simclr(views: Views, size: int) -> Any:
    """Turn uint8 (3, h, w) into uint8 (3, size, size)."""
    from torchvision.transforms import v2

    jitter = v2.ColorJitter(views.brightness, views.contrast, views.saturation, views.hue)
    return v2.Compose(
        [
            v2.RandomResizedCrop(size, scale=views.crop, antialias=True),
            v2.RandomHorizontalFlip(views.flip),
            v2.RandomApply([jitter], p=views.jitter),
            v2.RandomGrayscale(views.grey),
            v2.RandomApply([v2.GaussianBlur(blur_kernel(size), SIGMA)], p=views.blur),
        ]
    )


# Crop, flip, blur, colour jitter and grey of a whole batch, each image with its own chances and strengths.


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
