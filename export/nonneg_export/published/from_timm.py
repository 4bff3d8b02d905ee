"""A model of timm, its weights from the hub as safetensors: `timm:NAME`, or a repository that timm wrote."""

from __future__ import annotations

from typing import Any

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_export.published.address import ModelAddress, hub_address
from nonneg_export.published.open_tower import of_repository as of_any
from nonneg_export.published.repository import HubRepository, open_repository
from nonneg_export.published.timm_view import seen_by
from nonneg_export.published.torch_tower import as_tower, package
from nonneg_export.published.tower import Tower, TowerOverrides
from nonneg_export.published.unused_options import refuse_unused
from nonneg_export.silence import silenced

WEIGHTS = "model.safetensors"


def tower(where: ModelAddress, wishes: TowerOverrides) -> Tower:
    """Return the model of that name, from the repository that timm keeps its weights in."""
    library = package("timm")
    try:
        config = library.models.get_pretrained_cfg(where.name, allow_unregistered=False)
    except RuntimeError as error:
        raise ConfigInvalid(
            f"timm has no model {where.name!r}", fix="see timm.list_models()", field="model", value=where.name
        ) from error
    hub_id = getattr(config, "hf_hub_id", None)
    if not hub_id:
        raise ConfigInvalid(
            f"timm keeps no weights of {where.name!r} on the hub",
            fix="choose one of timm.list_pretrained()",
            field="model",
            value=where.name,
        )
    return of_any(open_repository(hub_address(f"hf:{hub_id}"), wishes.limit), wishes)


def of_repository(repository: HubRepository, config: dict[str, Any], wishes: TowerOverrides) -> Tower:
    """Return the model that a repository's configuration names, with the repository's weights and view."""
    given = {"--output": wishes.output, "--pool": wishes.pool, "--no-text": not wishes.text}
    refuse_unused(f"a model of timm through torch ({repository}), which pools for itself", given)
    library, name = package("timm"), str(config.get("architecture"))
    if WEIGHTS not in repository.files:
        raise DataInvalid(
            f"{repository} has no {WEIGHTS}: reading a pickle runs what its author wrote",
            fix="take a revision that has it",
            field="model",
        )
    path = repository.fetch(WEIGHTS)
    view, scaling = wishes.applied(*seen_by(config["pretrained_cfg"]))
    try:
        with silenced():
            model = library.create_model(name, pretrained=False, num_classes=0)
            told = library.models.load_checkpoint(model, str(path), strict=False)
    except Exception as error:  # safetensors' and torch's many classes
        raise DataInvalid(
            f"{repository} cannot be loaded ({str(error).strip().splitlines()[0]})", fix="name another revision"
        ) from error
    if told.missing_keys:
        raise DataInvalid(
            f"{WEIGHTS} of {repository} lacks {len(told.missing_keys)} of the model's weights "
            f"({', '.join(told.missing_keys[:3])})",
            fix="name another revision",
        )
    graph, reference = as_tower(model, lambda inner, x: inner(x), view, scaling)
    notes = (f"timm's {name} through torch, pooled as timm does",)
    return Tower(graph, view, f"{repository}, {WEIGHTS}", notes=notes, reference=reference)
