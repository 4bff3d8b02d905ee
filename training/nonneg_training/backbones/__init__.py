"""The backbones by name."""

from __future__ import annotations

from nonneg_core.errors import ConfigInvalid
from nonneg_training.backbones.backbone import Backbone
from nonneg_training.backbones.lite import JOINED, SIZES, joined, lite
from nonneg_training.backbones.resnet import resnet
from nonneg_training.backbones.slim_resnet import slim_resnet
from nonneg_training.backbones.timm import PREFIX as TIMM
from nonneg_training.backbones.timm import timm
from nonneg_training.backbones.tiny import tiny_cnn
from nonneg_training.backbones.torchvision_models import MOBILENETS, mobilenet, vit

__all__ = ["NAMES", "Backbone", "backbone"]

OWN = ("tiny-cnn", "slim-resnet")
RESNETS = ("resnet18", "resnet34", "resnet50")
NAMES = (*OWN, *RESNETS, *MOBILENETS, "vit-s-16", *SIZES, JOINED, "timm:NAME")


def backbone(name: str, *, small: bool, pretrained: str | None = None, size: int | None = None) -> Backbone:
    """Return the backbone of that name for images of `size`; `small` chooses the stem for up to 64 px."""
    if name in OWN:
        if pretrained:
            raise ConfigInvalid(
                f"{name} has no weights called {pretrained}",
                fix="leave model.pretrained out, or give the folder of a run of this backbone",
                field="model.pretrained",
                value=pretrained,
            )
        return tiny_cnn() if name == "tiny-cnn" else slim_resnet(small=small)
    if name in RESNETS:
        return resnet(name, small=small, pretrained=pretrained)
    if name in MOBILENETS:
        return mobilenet(name, pretrained=pretrained, size=size)
    if name == "vit-s-16":
        return vit(pretrained=pretrained, size=size)
    if name == JOINED:
        return joined(pretrained=pretrained, size=size)
    if name in SIZES:
        return lite(name, pretrained=pretrained, size=size)
    if name.startswith(TIMM):
        return timm(name.removeprefix(TIMM), pretrained=pretrained, size=size)
    raise ConfigInvalid(
        f"backbone={name!r} is unknown", fix=f"choose one of {', '.join(NAMES)}", field="model.backbone", value=name
    )


def __dir__() -> list[str]:
    return sorted(__all__)
