"""The same views by torchvision's transforms v2, one image after another: what the batched ones are held against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

import nonneg_training.torchvision_schemas  # noqa: F401 - before torchvision
from nonneg_training.settings import Views
from nonneg_training.views.jitter import SIGMA, blur_kernel
from nonneg_training.views.pipeline import Cutter


class PerImage(Cutter):
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
