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
from nonneg_training.views.augmentations import SIGMA, Recolour, blur_kernel, crop_resize, drawn_images, random_boxes


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
