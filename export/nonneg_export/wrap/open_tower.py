"""From a model's address to its image tower."""

import tempfile
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, cast

from nonneg_core.errors import DataInvalid
from nonneg_core.pixels.view import View
from nonneg_core.terminal.installing import needing
from nonneg_export.assembly.text_towers import TOKENIZER, TextEncoder
from nonneg_export.share.hub_repository import CONFIG, LARGEST_TEXT, HubRepository, ModelAddress, open_repository
from nonneg_export.share.model_card import check_licence, licence_of
from nonneg_export.wrap import from_onnx
from nonneg_export.wrap.from_onnx import OnnxFile, choose, fetch_onnx, gathered, onnx_files
from nonneg_export.wrap.published_text import text_encoder
from nonneg_export.wrap.tower import Tower, TowerOverrides, has_two_towers, pooling, refuse_unused
from nonneg_training.onnx_backbone.huggingface_preprocessor import read_preprocessor
from nonneg_training.onnx_backbone.scaling_and_pooling import Scaling

PREPROCESSORS = ("preprocessor_config.json", "processor_config.json")
TORCH = "torch"
OF_TIMM = "pretrained_cfg"  # what a configuration has that timm wrote


def open_tower(where: ModelAddress, overrides: TowerOverrides) -> Tower:
    """Return the tower at an address that is not a file."""
    if where.kind == "hf":
        return of_repository(open_repository(where, overrides.limit), overrides)
    if where.kind != "timm":  # its weights lie in a repository
        given = {"--file": overrides.file, "--output": overrides.output, "--pool": overrides.pool}
        refuse_unused(f"{where}, which has one file and pools for itself", given)
    return _module(f"from_{where.kind}").tower(where, overrides)  # type: ignore[no-any-return]


def of_repository(repository: HubRepository, overrides: TowerOverrides) -> Tower:
    """Return the tower of a repository: of its ONNX file if it has one, else through torch."""
    licence = licence_of(repository.card)
    warning = check_licence(licence, str(repository), accepted=overrides.accepted)
    config = repository.json(CONFIG)
    through_torch = overrides.file == TORCH or (overrides.file is None and not onnx_files(repository.files))
    if OF_TIMM in config and through_torch:
        tower: Tower = _module("from_timm").of_repository(repository, config, overrides)
    else:
        tower = _of_transformers(repository, config, overrides)
    notes = (f"licence: {licence}", *tower.notes, *([warning] if warning else []))
    return replace(tower, licence=licence, notes=notes, fetched=repository.fetched())


def _of_transformers(repository: HubRepository, config: dict[str, Any], overrides: TowerOverrides) -> Tower:
    view, scaling = preprocessing(repository, config, overrides)
    two = has_two_towers(config)
    chosen = None if overrides.file == TORCH else choose(repository.files, two_towers=two, choice=overrides.file)
    if chosen is None:
        return _module("from_transformers").tower(repository, config, view, scaling, overrides)  # type: ignore[no-any-return]
    return _of_onnx(repository, chosen, config, view, scaling, overrides)


def _of_onnx(
    repository: HubRepository,
    chosen: OnnxFile,
    config: dict[str, Any],
    view: View,
    scaling: Scaling,
    overrides: TowerOverrides,
) -> Tower:
    with tempfile.TemporaryDirectory(prefix="nonneg-") as place:
        path = gathered(fetch_onnx(repository, chosen), Path(place))
        given = from_onnx.OnnxInterface(path, view, scaling, output_name=overrides.output, pool=overrides.pool)
        how = from_onnx.by_family(given, pooling(config))
        graph, taken = from_onnx.features(how), from_onnx.output_taken(how)
    others = [str(file) for file in onnx_files(repository.files) if file.name != chosen.name]
    notes = (
        f"taken: {chosen}, {taken}" + (f", pooled by {how.pool}" if how.pool else ""),
        *([f"with --file: {', '.join(others)}, or torch"] if others else []),
    )
    text, text_notes = _text(repository, chosen, config, overrides)
    return Tower(graph, view, weights=f"{repository}, {chosen}", notes=(*notes, *text_notes), text=text)


def _text(
    repository: HubRepository, image: OnnxFile, config: dict[str, Any], overrides: TowerOverrides
) -> tuple[TextEncoder | None, tuple[str, ...]]:
    """Return the text tower beside an image tower's file, and what to say of it."""
    if not overrides.text or not has_two_towers(config):
        return None, ()
    of_texts = [file for file in onnx_files(repository.files) if file.role == "text"]
    chosen = next((file for file in of_texts if file.precision == image.precision), None)
    if chosen is None or TOKENIZER not in repository.files:
        lacking = f"text file in {image.precision}" if chosen is None else TOKENIZER
        return None, (f"its text tower is left out, because the repository lacks a {lacking}: --file torch takes both",)
    return text_encoder(repository, chosen, config), (f"with its text tower, {chosen}",)


def preprocessing(repository: HubRepository, config: dict[str, Any], overrides: TowerOverrides) -> tuple[View, Scaling]:
    """Return how the model's own files say that photos are seen, with what was said in its place."""
    if overrides.preprocessing is not None:
        return overrides.applied(*overrides.preprocessing)
    for name in PREPROCESSORS:
        if name in repository.files:
            return overrides.applied(*read_preprocessor(repository.fetch(name, LARGEST_TEXT), overrides.otherwise))
    if OF_TIMM in config:
        return overrides.applied(*view_of_timm(config[OF_TIMM]))
    if overrides.otherwise is None:
        raise DataInvalid(
            f"{repository} does not say how photos are to be seen (it has no {PREPROCESSORS[0]})",
            fix="say it with --size, --crop, --fit, --interpolation, --mean and --std, or --preprocessor FILE",
            field="preprocessor",
        )
    return overrides.applied(overrides.otherwise, Scaling())


def _module(name: str) -> Any:
    """Return what needs torch and the packages of models, loaded when it is needed."""
    with needing("this model", extra="wrap"):
        return import_module(f"nonneg_export.wrap.{name}")


# How a configuration of timm says that photos are seen.


def view_of_timm(config: dict[str, Any]) -> tuple[View, Scaling]:
    """Return the view and scaling of timm's own evaluation."""
    fit = {"center": "cover", "squash": "squash", "border": "contain"}[config.get("crop_mode", "center")]
    view = View(
        size=int(config["input_size"][1]),
        crop=float(config.get("crop_pct") or 0.875),
        fit=cast('Literal["cover", "squash", "contain"]', fit),
        interpolation=config.get("interpolation") or "bicubic",
    )
    return view, Scaling(mean=tuple(config["mean"]), std=tuple(config["std"]))
