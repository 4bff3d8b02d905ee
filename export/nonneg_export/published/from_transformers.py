"""A model of the library transformers: its weights from safetensors, its image tower through torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.pixels.view import View
from nonneg_export.published.families import pooling
from nonneg_export.published.image_answer import check_weights, choose, unmasked
from nonneg_export.published.librarys_pixels import librarys_pixels
from nonneg_export.published.repository import HubRepository
from nonneg_export.published.text_from_transformers import text_encoder
from nonneg_export.published.torch_tower import as_tower, package
from nonneg_export.published.tower import OriginalPixels, Tower, TowerOverrides
from nonneg_export.silence import silenced
from nonneg_training.onnx_backbone.scaling_and_pooling import Scaling

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")
SPARE = ("pooler", "classifier", "head", "logit_", "fc.")  # weights that a picture of an image may do without


def tower(
    repository: HubRepository, config: dict[str, Any], view: View, scaling: Scaling, wishes: TowerOverrides
) -> Tower:
    """Load the model and export its image tower."""
    folder = fetch_weights(repository)
    model, missing = load(repository, folder, config)
    answer = choose(model, pooling(config), wishes, view.size)
    check_weights(model, answer, missing, view.size)
    graph, reference = as_tower(model, answer, view, scaling)
    original, unseen = original_pixels(folder, scaling, wishes)
    words = wishes.text and hasattr(model, "get_text_features")
    text, said = text_encoder(repository, model) if words else (None, "")
    return Tower(
        graph,
        view,
        weights=f"{repository}, {WEIGHTS}",
        notes=(
            f"{config.get('model_type')} through torch, taken: {answer}",
            *filter(None, (said, unseen)),
        ),
        reference=reference,
        text=text,
        original_pixels=original,
    )


def original_pixels(folder: Path, scaling: Scaling, wishes: TowerOverrides) -> tuple[OriginalPixels | None, str]:
    """Return how the library sees photos, if the model's own files are followed; else perhaps what to say of that."""
    if wishes.sees_otherwise:
        return None, ""
    try:
        return librarys_pixels(folder, scaling), ""
    except Exception as error:  # the library raises what its many processors raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return None, f"how it sees photos was not compared with the library ({reason})"


def fetch_weights(repository: HubRepository) -> Path:
    """Return the folder with configuration and weights; never a pickle."""
    if INDEX in repository.files and WEIGHTS not in repository.files:
        shards = sorted(set(repository.json(INDEX).get("weight_map", {}).values()))
        repository.check_together([str(shard) for shard in shards])
        for shard in shards:
            repository.fetch(str(shard))
        repository.fetch(INDEX)
    elif WEIGHTS in repository.files:
        repository.fetch(WEIGHTS)
    else:
        pickles = [name for name in repository.files if name.endswith(PICKLES)]
        raise DataInvalid(
            f"{repository} has neither an ONNX file nor safetensors"
            + (f", only {', '.join(pickles[:3])}: reading a pickle runs what its author wrote" if pickles else ""),
            fix="take a revision with model.safetensors (the hub converts), or export it to ONNX",
            field="model",
        )
    return repository.fetch("config.json").parent


def load(repository: HubRepository, folder: Path, config: dict[str, Any]) -> tuple[nn.Module, list[str]]:
    """Return the module and which of its spare weights are lacking; code that lies in a repository is never run."""
    library = transformers()
    kind = config.get("model_type")
    if kind not in library.CONFIG_MAPPING:
        raise ConfigInvalid(
            f"{repository} is a {kind!r}, which transformers {library.__version__} does not know"
            + (" (it brings code of its own, which is not run)" if "auto_map" in config else ""),
            fix="export it to ONNX yourself and wrap the file",
            field="model",
            value=str(kind),
        )
    from safetensors import SafetensorError

    try:
        with silenced():
            model, told = library.AutoModel.from_pretrained(
                folder,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                dtype="float32",
                output_loading_info=True,
            )
    except (SafetensorError, RuntimeError, ValueError, OSError, KeyError) as error:
        raise DataInvalid(
            f"{repository} cannot be loaded ({str(error).strip().splitlines()[0]})",
            fix="its files do not fit each other or are broken: name another revision",
        ) from error
    lacking = sorted(name for name in told["missing_keys"] if not any(part in name for part in SPARE))
    if lacking:
        raise DataInvalid(
            f"{WEIGHTS} of {repository} lacks {len(lacking)} of the model's weights ({', '.join(lacking[:3])})",
            fix="name another revision",
        )
    return unmasked(model.eval()), list(told["missing_keys"])


def transformers() -> Any:
    """Return the library, told not to draw bars."""
    library = package("transformers")
    library.utils.logging.disable_progress_bar()
    return library
