"""A torchvision model with the weights that its name stands for, without its classifier."""

from typing import Any

from torch import nn

from nonneg_core.errors import ConfigInvalid
from nonneg_core.pixels.view import View
from nonneg_export.share.hub_repository import ModelAddress
from nonneg_export.share.model_card import NOT_STATED, check_licence
from nonneg_export.wrap.torch_tower import as_tower
from nonneg_export.wrap.tower import Tower, TowerOverrides, refuse_unused
from nonneg_training.encoder.torchvision_backbones import torchvision_model
from nonneg_training.onnx_backbone.scaling_and_pooling import Scaling

LICENCES = {"https://github.com/facebookresearch/SWAG/blob/main/LICENSE": "cc-by-nc-4.0"}


def tower(where: ModelAddress, overrides: TowerOverrides) -> Tower:
    """Return the model with its best weights and their own view; torch reads its file of weights as data alone."""
    from torchvision import models

    refuse_unused(str(where), {"--no-text": not overrides.text})
    if where.name not in models.list_models(module=models):
        raise ConfigInvalid(
            f"torchvision has no classifier called {where.name!r}, and no file of that name is here",
            fix="choose one of torchvision.models.list_models(), or give the path of an ONNX file",
            field="model",
            value=where.name,
        )
    weights = models.get_model_weights(where.name).DEFAULT
    licence = licence_of_weights(weights.meta)
    warning = check_licence(licence, f"torchvision's {where.name}", accepted=overrides.accepted)
    view, scaling = overrides.applied(*seen_by(weights.transforms()))
    model = without_classifier(torchvision_model(where.name, weights.name, overrides.limit))
    graph, reference = as_tower(model, lambda inner, x: inner(x), view, scaling)
    notes = (
        f"licence: {licence}",
        f"{where.name} with torchvision's weights {weights.name}, without its classifier",
        *([warning] if warning else []),
    )
    named = f"torchvision {where.name}, {weights.url.rpartition('/')[2]}"
    return Tower(graph, view, named, licence=licence, notes=notes, reference=reference)


def licence_of_weights(meta: dict[str, Any]) -> str:
    """Return the licence that torchvision states of weights, by its short name where that is known."""
    stated = str(meta.get("license") or NOT_STATED)
    return LICENCES.get(stated, stated)


def seen_by(transforms: Any) -> tuple[View, Scaling]:
    """Return a weight's own preprocessing as view and scaling."""
    size, resized = transforms.crop_size[0], transforms.resize_size[0]
    view = View(size=size, crop=min(1.0, size / resized), interpolation=transforms.interpolation.value)
    return view, Scaling(mean=tuple(transforms.mean), std=tuple(transforms.std))


def without_classifier(model: nn.Module) -> nn.Module:
    """Return the model with an identity in place of its last linear layer."""
    last = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)][-1:]
    if not last:
        raise ConfigInvalid("this model has no classifier to cut off", fix="export it to ONNX and wrap the file")
    parent, _, child = last[0].rpartition(".")
    setattr(model.get_submodule(parent), child, nn.Identity())
    return model
