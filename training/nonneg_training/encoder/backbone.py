"""A backbone: from normalised pixels to one feature vector an image; and the two small ones of our own."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nonneg_core.arrays import Floats
from nonneg_training.setup.run_settings import Channels

IMAGENET_MEAN: Channels = (123.675, 116.28, 103.53)
IMAGENET_STD: Channels = (58.395, 57.12, 57.375)
PIXELS: dict[str, tuple[Channels, Channels]] = {  # of values 0..255, as solo-learn has them
    "cifar10": ((125.307, 122.961, 113.8575), (62.985, 62.0925, 66.708)),
    "cifar100": ((129.3105, 124.0575, 112.4295), (68.1615, 65.382, 70.431)),
}


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
        classifier: Floats | None = None,
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


# A CNN so small that a test can train it: three convolutions, no batch statistics.


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


# ResNet-18's plan at a quarter of its width: 36 million multiplications at 32 px, minutes an epoch on two cores.


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, incoming: int, outgoing: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(incoming, outgoing, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outgoing)
        self.conv2 = nn.Conv2d(outgoing, outgoing, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outgoing)
        self.shortcut = nn.Sequential()
        if stride != 1 or incoming != outgoing:
            self.shortcut = nn.Sequential(
                nn.Conv2d(incoming, outgoing, 1, stride, bias=False), nn.BatchNorm2d(outgoing)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        return F.relu(y + self.shortcut(x), inplace=True)


def slim_resnet(width: int = 16, *, small: bool = True) -> Backbone:
    """Return four stages of two blocks, `width` to 8 x `width` channels; `small`: the 3x3 stem without pooling."""
    stem = nn.Conv2d(3, width, 3, 1 if small else 2, 1, bias=False)
    layers: list[nn.Module] = [stem, nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
    if not small:
        layers.append(nn.MaxPool2d(3, 2, 1))
    incoming = width
    for stage in range(4):
        outgoing = width * 2**stage
        layers += [ResidualBlock(incoming, outgoing, 1 if stage == 0 else 2), ResidualBlock(outgoing, outgoing, 1)]
        incoming = outgoing
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            torch.nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return Backbone(network, incoming, size=32 if small else 64)
