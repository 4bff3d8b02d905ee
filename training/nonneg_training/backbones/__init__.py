"""The backbones by name."""

from __future__ import annotations

from nonneg_client.errors import ConfigInvalid
from nonneg_training.backbones.backbone import Backbone
from nonneg_training.backbones.resnet import resnet
from nonneg_training.backbones.slim import slim_resnet
from nonneg_training.backbones.tiny import tiny_cnn

__all__ = ["NAMES", "Backbone", "backbone"]

NAMES = ("tiny-cnn", "slim-resnet", "resnet18", "resnet34", "resnet50")


def backbone(name: str, *, small: bool, pretrained: str | None = None) -> Backbone:
    """The backbone of that name; `small` chooses the stem for images of up to 64 px."""
    if name in ("tiny-cnn", "slim-resnet"):
        if pretrained:
            raise ConfigInvalid(f"{name} has no pretrained weights", fix="leave `pretrained` out", field="pretrained")
        return tiny_cnn() if name == "tiny-cnn" else slim_resnet(small=small)
    if name in ("resnet18", "resnet34", "resnet50"):
        return resnet(name, small=small, pretrained=pretrained)
    raise ConfigInvalid(
        f"backbone={name!r} is unknown", fix=f"choose one of {', '.join(NAMES)}", field="backbone", value=name
    )
