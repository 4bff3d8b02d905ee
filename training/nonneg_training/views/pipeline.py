"""From image numbers to random views: crop and flip, colour jitter, grey, blur - SimCLR's, a batch at a time.

Images that lie in memory are cropped by matrix products; photos are decoded once, and each view is cut and resized by
Pillow on a pool of threads. The rest is the same for both. Every draw comes from the generator that is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from nonneg_client.pixels.view import View
from nonneg_training.data import Arrays, Images
from nonneg_training.settings import Views
from nonneg_training.views import colour, resample


def evaluation_view(views: Views, size: int) -> View:
    """The one view an image is embedded by: in monitoring, in the bundle, on the server."""
    return View(size=size, fit=views.fit, crop=views.centre, interpolation=views.interpolation)


class Pipeline:
    """Draws views of `images` as `views` says, `size` pixels wide."""

    def __init__(
        self, images: Images, views: Views, size: int, *, device: torch.device | None = None, threads: int = 2
    ) -> None:
        self.images, self.views, self.size = images, views, size
        self.device = device or torch.device("cpu")
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="decode")

    def draw(self, indices: Sequence[int], g: torch.Generator, count: int = 2) -> Tensor:
        """`count` views of each image, first all first views: float 0..255, (count * batch, 3, size, size)."""
        cut = self._from_memory if isinstance(self.images, Arrays) else self._from_files
        x = cut(indices, g, count)
        x = self._jitter(x, g)
        x = self._grey(x, g)
        x = self._blur(x, g)
        return x.contiguous(memory_format=torch.channels_last)

    def evaluate(self, indices: Sequence[int], view: View) -> Tensor:
        """The evaluation view of each image: float 0..255, (batch, 3, size, size)."""
        seen = self._pool.map(lambda i: self.images.pixels([i], view)[0], indices)
        return torch.from_numpy(np.stack(list(seen))).to(self.device).permute(0, 3, 1, 2).float()

    def _from_memory(self, indices: Sequence[int], g: torch.Generator, count: int) -> Tensor:
        assert isinstance(self.images, Arrays)
        source = torch.from_numpy(self.images.array[np.asarray(indices)])  # (batch, h, w, 3)
        x = source.to(self.device).permute(0, 3, 1, 2).float().repeat(count, 1, 1, 1)
        height, width = (torch.full((len(x),), float(side)) for side in x.shape[2:])
        boxes = resample.random_boxes(len(x), height.cpu(), width.cpu(), self.views.crop, g).to(self.device)
        return resample.crop_resize(x, boxes, self.size, self._chosen(len(x), self.views.flip, g))

    def _from_files(self, indices: Sequence[int], g: torch.Generator, count: int) -> Tensor:
        images = list(self._pool.map(self.images.image, indices))
        sizes = torch.tensor([image.size for image in images], dtype=torch.float32).repeat(count, 1)  # width, height
        boxes = resample.random_boxes(len(sizes), sizes[:, 1], sizes[:, 0], self.views.crop, g)
        views = list(self._pool.map(self._cut, images * count, boxes.tolist()))
        x = torch.from_numpy(np.stack(views)).to(self.device).permute(0, 3, 1, 2).float()
        flip = self._chosen(len(x), self.views.flip, g)
        x[flip] = x[flip].flip(3)
        return x

    def _cut(self, image: Image.Image, box: Sequence[float]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        top, left, height, width = box
        corners = (left, top, left + width, top + height)
        return np.asarray(image.resize((self.size, self.size), Image.Resampling.BILINEAR, box=corners))

    def _jitter(self, x: Tensor, g: torch.Generator) -> Tensor:
        """Four changes in an order drawn once a batch (torchvision draws it once an image)."""
        v = self.views
        chosen = self._chosen(len(x), v.jitter, g)
        y = x[chosen]
        if not len(y):
            return x
        for change in torch.randperm(4, generator=g).tolist():
            change_name = ("brightness", "contrast", "saturation", "hue")[change]
            strength = float(getattr(v, change_name))
            draw = torch.empty(len(y)).uniform_(-strength, strength, generator=g).to(x.device)
            if strength and change_name == "hue":
                y = colour.hue(y, draw)
            elif strength:
                y = _LINEAR[change_name](y, (1 + draw).clamp(min=0))
        x[chosen] = y
        return x

    def _grey(self, x: Tensor, g: torch.Generator) -> Tensor:
        chosen = self._chosen(len(x), self.views.grey, g)
        if chosen.any():
            x[chosen] = colour.grey(x[chosen]).expand(-1, 3, -1, -1)
        return x

    def _blur(self, x: Tensor, g: torch.Generator) -> Tensor:
        chosen = self._chosen(len(x), self.views.blur, g)
        sigma = torch.empty(len(x)).uniform_(0.1, 2.0, generator=g).to(x.device)[chosen]
        if len(sigma):
            matrix = resample.blur_weights(sigma, self.size, kernel=max(3, self.size // 20 * 2 + 1))
            x[chosen] = resample.separable(x[chosen], matrix, matrix)
        return x

    def _chosen(self, count: int, probability: float, g: torch.Generator) -> Tensor:
        return (torch.rand(count, generator=g) < probability).to(self.device)


_LINEAR = {"brightness": colour.brightness, "contrast": colour.contrast, "saturation": colour.saturation}
