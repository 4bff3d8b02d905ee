"""torchvision's ResNets without their classifier, with ImageNet's stem or the 3x3 one for small images."""

from __future__ import annotations

from typing import Any

from torch import nn

from nonneg_training.backbones.backbone import Backbone
from nonneg_training.backbones.torchvision_models import torchvision_model


def resnet(name: str, *, small: bool, pretrained: str | None = None) -> Backbone:
    """Return resnet18, resnet34 or resnet50; `pretrained` is the name of a torchvision weight, or DEFAULT."""
    network: Any = torchvision_model(name, pretrained)
    width: int = network.fc.in_features
    network.fc = nn.Identity()
    if small:  # the authors' CIFAR setting: no stride before the first stage
        network.conv1 = nn.Conv2d(3, 64, kernel_size=3, stride=1, padding=1, bias=False)
        nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
        network.maxpool = nn.Identity()
    return Backbone(network, width, size=32 if small else 224)
