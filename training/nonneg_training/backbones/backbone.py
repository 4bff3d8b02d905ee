"""A backbone: from normalised pixels to one feature vector an image, and what it expects of the pixels."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nonneg_training.settings import Channels

IMAGENET_MEAN: Channels = (123.675, 116.28, 103.53)
IMAGENET_STD: Channels = (58.395, 57.12, 57.375)


class Backbone(nn.Module):
    """A network without its classifier: (batch, 3, h, w) -> (batch, width)."""

    def __init__(
        self,
        network: nn.Module,
        width: int,
        *,
        size: int,
        mean: Channels = IMAGENET_MEAN,
        std: Channels = IMAGENET_STD,
        classifier: NDArray[np.float32] | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.width = width
        self.size = size  # the side it is usually fed
        self.mean = mean  # of pixel values 0..255
        self.std = std
        self.classifier = classifier  # (classes, width): of the pretrained network, where it is linear in the features

    def identity(self) -> bytes:
        """Return all that its features depend on, besides the pixels."""
        parts = [repr((self.mean, self.std)).encode()]
        for name, tensor in sorted(self.state_dict().items()):
            parts += [name.encode(), tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()]
        return b"".join(parts)

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.network(x)
        return features
