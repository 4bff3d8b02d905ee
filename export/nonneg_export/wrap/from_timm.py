"""A model of timm, its weights from the hub as safetensors: `timm:NAME`, or a repository that timm wrote."""

from typing import Any

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_export.graphs.canonical import silenced
from nonneg_export.share.hub_repository import HubRepository, ModelAddress, hub_address, open_repository
from nonneg_export.wrap.open_tower import of_repository as of_any
from nonneg_export.wrap.open_tower import view_of_timm
from nonneg_export.wrap.torch_tower import as_tower, fetch_weights, package
from nonneg_export.wrap.tower import Tower, TowerOverrides, refuse_unused

WEIGHTS = "model.safetensors"


def tower(where: ModelAddress, overrides: TowerOverrides) -> Tower:
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
    return of_any(open_repository(hub_address(f"hf:{hub_id}"), overrides.limit), overrides)


def of_repository(repository: HubRepository, config: dict[str, Any], overrides: TowerOverrides) -> Tower:
    """Return the model that a repository's configuration names, with the repository's weights and view."""
    given = {"--output": overrides.output, "--pool": overrides.pool, "--no-text": not overrides.text}
    refuse_unused(f"a model of timm through torch ({repository}), which pools for itself", given)
    library, name = package("timm"), str(config.get("architecture"))
    path = fetch_weights(repository, WEIGHTS, fix="take a revision that has it")
    view, scaling = overrides.applied(*view_of_timm(config["pretrained_cfg"]))
    try:
        with silenced():
            model = library.create_model(name, pretrained=False, num_classes=0)
            mismatch = library.models.load_checkpoint(model, str(path), strict=False)
    except Exception as error:  # safetensors' and torch's many classes
        raise DataInvalid(
            f"{repository} cannot be loaded ({str(error).strip().splitlines()[0]})", fix="name another revision"
        ) from error
    if mismatch.missing_keys:
        raise DataInvalid(
            f"{WEIGHTS} of {repository} lacks {len(mismatch.missing_keys)} of the model's weights "
            f"({', '.join(mismatch.missing_keys[:3])})",
            fix="name another revision",
        )
    graph, reference = as_tower(model, lambda inner, x: inner(x), view, scaling)
    notes = (f"timm's {name} through torch, pooled as timm does",)
    return Tower(graph, view, f"{repository}, {WEIGHTS}", notes=notes, reference=reference)
