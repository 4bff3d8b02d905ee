"""torchvision's MobileNetV3 and its vision transformer, without their classifiers."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

import nonneg_training.torchvision_schemas  # noqa: F401 - before torchvision
from nonneg_core.errors import ConfigInvalid
from nonneg_training.backbones.backbone import Backbone
from nonneg_training.backbones.torchvision_weights import fetch

MOBILENETS = {"mobilenet-v3-small": "mobilenet_v3_small", "mobilenet-v3-large": "mobilenet_v3_large"}


def torchvision_model(name: str, weights: str | None, limit: int | None = None) -> nn.Module:
    """Return torchvision's model of that name with the weights of that name; DEFAULT are its best. `limit`: bytes."""
    from torchvision import models

    known = [w.name for w in models.get_model_weights(name)]
    if weights not in (None, "DEFAULT", *known):
        raise ConfigInvalid(
            f"{name} has no weights called {weights}",
            fix=f"use DEFAULT or one of {', '.join(known)}",
            field="model.pretrained",
            value=weights,
        )
    if weights is not None:
        fetch(models.get_model_weights(name)[weights], limit)
    model: nn.Module = models.get_model(name, weights=weights)
    return model


def mobilenet(name: str, *, pretrained: str | None, size: int | None) -> Backbone:
    """Return mobilenet-v3-small or -large: the pooled features before both layers of the classifier."""
    network: Any = torchvision_model(MOBILENETS[name], pretrained)
    width: int = network.classifier[0].in_features
    network.classifier = nn.Identity()
    return Backbone(network, width, size=size or 224)


def vit(*, pretrained: str | None, size: int | None) -> Backbone:
    """Build ViT-S: 12 layers, 6 heads, 384 wide, 22 million weights; patches of 16 pixels, of 4 for small images."""
    if pretrained:
        raise ConfigInvalid(
            "torchvision has no weights for vit-s-16",
            fix="install timm and use timm:vit_small_patch16_224.augreg_in1k",
            field="model.pretrained",
            value=pretrained,
        )
    from torchvision.models.vision_transformer import VisionTransformer

    side = size or 224
    patch = 16 if side > 64 else 4
    if side % patch:
        raise ConfigInvalid(
            f"views.size={side} is not a multiple of {patch}, the side of vit-s-16's patches",
            fix=f"use {side // patch * patch or patch}",
            field="views.size",
            value=side,
        )
    norm = partial(nn.LayerNorm, eps=1e-6)
    network = VisionTransformer(side, patch, 12, 6, 384, 1536, num_classes=1, norm_layer=norm)
    network.heads = nn.Identity()
    return Backbone(network, 384, size=side)
