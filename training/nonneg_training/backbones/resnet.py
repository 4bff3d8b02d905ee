"""torchvision's ResNets without their classifier, with ImageNet's stem or the 3x3 one for small images."""

from __future__ import annotations

from torch import nn

import nonneg_training.torchvision_schemas  # noqa: F401 - before torchvision
from nonneg_training.backbones.backbone import Backbone


def resnet(name: str, *, small: bool, pretrained: str | None = None) -> Backbone:
    """resnet18, resnet34 or resnet50; `pretrained` is the name of a torchvision weight, or DEFAULT."""
    from torchvision import models

    network = models.get_model(name, weights=pretrained)
    width: int = network.fc.in_features
    network.fc = nn.Identity()
    if small:  # the authors' CIFAR setting: no stride before the first stage
        network.conv1 = nn.Conv2d(3, 64, kernel_size=3, stride=1, padding=1, bias=False)
        nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
        network.maxpool = nn.Identity()
    return Backbone(network, width, size=32 if small else 224)
