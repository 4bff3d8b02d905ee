"""ResNet-18's plan at a quarter of its width: 36 million multiplications at 32 px, minutes an epoch on two cores."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nonneg_training.backbones.backbone import Backbone


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
