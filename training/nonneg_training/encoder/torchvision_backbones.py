"""torchvision's ResNets, MobileNetV3 and vision transformer without their classifiers, and its files of weights."""

import hashlib
import pickle
import re
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import torch
from torch import hub, nn

import nonneg_training.encoder.torchvision_schemas  # noqa: F401 - before torchvision
from nonneg_core.errors import ConfigInvalid, ConnectionFailed, DataInvalid, DigestMismatch
from nonneg_training.encoder.backbone import Backbone

WEIGHTS_DIGEST = re.compile(r"-([0-9a-f]{8,})\.")  # in the name of a file: how its sha256 begins


def fetch_weights(weights: Any, limit: int | None = None) -> None:
    """Bring the file of a torchvision weight to where torchvision reads it, and verify it; `limit`: bytes.

    torchvision's own reading of the file would run code in it: only a file that is data alone comes that far.
    """
    path = Path(hub.get_dir()) / "checkpoints" / weights.url.rpartition("/")[2]
    if not path.exists():
        _download(weights, path, limit)
    _verify(path)
    try:
        torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DataInvalid(
            f"{path} holds more than weights, or is broken ({reason})", fix="delete it, and run the command again"
        ) from error


def _download(weights: Any, path: Path, limit: int | None) -> None:
    size = weights.meta.get("_file_size", 0) * 2**20
    if limit is not None and size > limit:
        raise DataInvalid(
            f"{path.name} has {size / 2**20:,.0f} MB, more than {limit / 2**20:,.0f}",
            fix="choose another model, or raise --max-download",
            field="max_download",
            value=int(size),
            limit=limit,
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        hub.download_url_to_file(weights.url, str(path))
    except OSError as error:
        if isinstance(error, HTTPError):
            error.close()  # it holds the connection
        raise ConnectionFailed(
            f"{weights.url} cannot be fetched ({error})",
            fix=f"fetch it once where there is a network, and put it here: {path}",
        ) from error


def _verify(path: Path) -> None:
    """Raise where the file is not the one that its name tells of."""
    stated = WEIGHTS_DIGEST.search(path.name)
    with path.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    if stated and not checksum.startswith(stated[1]):
        raise DigestMismatch(
            f"{path} is not the file that its name tells of: its sha256 begins with {checksum[:8]}",
            fix="delete it and run the command again",
            field=path.name,
        )


# torchvision's MobileNetV3 and its vision transformer, without their classifiers.

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
        fetch_weights(models.get_model_weights(name)[weights], limit)
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


# torchvision's ResNets without their classifier, with ImageNet's stem or the 3x3 one for small images.


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


def pad_stem(backbone: Backbone) -> None:
    """Pad the first convolution by 2 in place of 1, as solo-learn's ResNets for small images do."""
    stem: Any = getattr(backbone.network, "conv1", None)
    if stem is None or stem.kernel_size != (3, 3):
        raise ConfigInvalid(
            "model.stem=padded is of solo-learn's ResNets", fix="use resnet18, resnet34 or resnet50", field="model.stem"
        )
    stem.padding = (2, 2)
