"""Any model of timm, when it is installed: `timm:NAME`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.installing import needing
from nonneg_training.backbones.backbone import Backbone

PREFIX = "timm:"


def timm(name: str, *, pretrained: str | None, size: int | None) -> Backbone:
    """Return timm's model without classifier, fed with pixels as it was trained; `pretrained` is DEFAULT or nothing."""
    with needing(f"{PREFIX}{name}", package="timm"):
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
