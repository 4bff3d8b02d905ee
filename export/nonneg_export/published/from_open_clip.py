"""A model of open_clip with both of its towers, its weights from the hub as safetensors: `open_clip:NAME/TAG`."""

from __future__ import annotations

from typing import Any

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.pixels.view import View
from nonneg_export.published.address import ModelAddress, hub_address
from nonneg_export.published.licence import check_licence, licence_of
from nonneg_export.published.repository import CONFIG, LARGEST_TEXT, HubRepository, open_repository
from nonneg_export.published.text_from_open_clip import text_encoder
from nonneg_export.published.torch_tower import as_tower, package
from nonneg_export.published.tower import Tower, TowerOverrides
from nonneg_export.silence import silenced
from nonneg_training.onnx_backbone.scaling_and_pooling import Scaling

WEIGHTS = "open_clip_model.safetensors"


def tower(where: ModelAddress, wishes: TowerOverrides) -> Tower:
    """Load both towers of that architecture with the weights of that tag."""
    library = package("open_clip")
    tag = where.rest or ""
    config = library.get_pretrained_cfg(where.name, tag)
    hub_id = str((config or {}).get("hf_hub") or "").strip("/")
    if not hub_id:
        known = library.list_pretrained_tags_by_model(where.name)
        raise ConfigInvalid(
            f"open_clip has no weights {tag!r} of {where.name!r} on the hub",
            fix=f"choose a tag of {', '.join(known)}" if known else "see open_clip.list_pretrained()",
            field="model",
            value=str(where),
        )
    repository = open_repository(hub_address(f"hf:{hub_id}"), wishes.limit)
    licence = licence_of(repository.card)
    warning = check_licence(licence, str(where), accepted=wishes.accepted)
    model, described = load(repository, where.name)
    view, scaling = wishes.applied(*seen_by(model.visual, config))
    graph, reference = as_tower(model, lambda inner, x: inner.encode_image(x), view, scaling)
    text, said = text_encoder(repository, where.name, model) if wishes.text else (None, "")
    notes = (f"licence: {licence}", "its image tower through torch, projected", said, warning or "")
    weights = f"{where} ({repository})"
    fetched = {**repository.fetched(), **described}
    return Tower(graph, view, weights, licence, tuple(filter(None, notes)), reference, text, fetched)


def load(repository: HubRepository, name: str) -> tuple[Any, dict[str, str]]:
    """Return the model with the repository's weights, and what else was fetched to know its architecture."""
    library = package("open_clip")
    if WEIGHTS not in repository.files:
        raise DataInvalid(
            f"{repository} has no {WEIGHTS}: reading a pickle runs what its author wrote",
            fix="choose a tag whose repository has it",
            field="model",
        )
    path = repository.fetch(WEIGHTS)
    options, described = text_architecture(library.get_model_config(name), repository.limit)
    try:
        with silenced():
            model = library.create_model(name, pretrained=None, **options)
            library.load_checkpoint(model, str(path))
    except Exception as error:  # safetensors' and torch's many classes
        raise DataInvalid(
            f"{repository} cannot be loaded ({str(error).strip().splitlines()[0]})", fix="choose another tag"
        ) from error
    return model.eval(), described


def text_architecture(config: dict[str, Any], limit: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what makes open_clip take a text tower of transformers from its configuration alone.

    By itself open_clip fetches that tower's own weights as well, whatever they are, and then replaces them.
    """
    text = config.get("text_cfg", {})
    named = text.get("hf_model_name")
    if not named:
        return {}, {}
    described = open_repository(hub_address(f"hf:{named}"), limit)
    folder = described.fetch(CONFIG, LARGEST_TEXT).parent
    options = {**text, "hf_model_name": str(folder), "hf_model_pretrained": False}
    return {"text_cfg": options}, described.fetched()


def seen_by(visual: Any, config: dict[str, Any]) -> tuple[View, Scaling]:
    """Return open_clip's own evaluation view."""
    size = visual.image_size[0] if isinstance(visual.image_size, (tuple, list)) else visual.image_size
    mode = config.get("resize_mode") or "shortest"
    view = View(
        size=int(size),
        crop=1.0,
        fit="squash" if mode == "squash" else "contain" if mode == "longest" else "cover",
        interpolation=config.get("interpolation") or "bicubic",
    )
    return view, Scaling(mean=tuple(config["mean"]), std=tuple(config["std"]))
