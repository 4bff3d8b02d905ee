"""From a model's address to its image tower."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from nonneg_core.errors import DataInvalid
from nonneg_core.installing import needing
from nonneg_core.pixels.view import View
from nonneg_export.published import from_onnx
from nonneg_export.published.address import ModelAddress
from nonneg_export.published.families import has_two_towers, pooling
from nonneg_export.published.fetching import fetch_onnx, gathered
from nonneg_export.published.licence import check_licence, licence_of
from nonneg_export.published.onnx_choice import OnnxFile, choose, onnx_files
from nonneg_export.published.repository import CONFIG, LARGEST_TEXT, HubRepository, open_repository
from nonneg_export.published.text_from_onnx import text_encoder
from nonneg_export.published.timm_view import seen_by
from nonneg_export.published.tower import Tower, TowerOverrides
from nonneg_export.published.unused_options import refuse_unused
from nonneg_export.texts.text_towers import TOKENIZER, TextEncoder
from nonneg_training.onnx_backbone.huggingface_preprocessor import read_preprocessor
from nonneg_training.onnx_backbone.scaling_and_pooling import Scaling

PREPROCESSORS = ("preprocessor_config.json", "processor_config.json")
TORCH = "torch"
OF_TIMM = "pretrained_cfg"  # what a configuration has that timm wrote


def open_tower(where: ModelAddress, wishes: TowerOverrides) -> Tower:
    """Return the tower at an address that is not a file."""
    if where.kind == "hf":
        return of_repository(open_repository(where, wishes.limit), wishes)
    if where.kind != "timm":  # its weights lie in a repository
        given = {"--file": wishes.file, "--output": wishes.output, "--pool": wishes.pool}
        refuse_unused(f"{where}, which has one file and pools for itself", given)
    return _module(f"from_{where.kind}").tower(where, wishes)  # type: ignore[no-any-return]


def of_repository(repository: HubRepository, wishes: TowerOverrides) -> Tower:
    """Return the tower of a repository: of its ONNX file if it has one, else through torch."""
    licence = licence_of(repository.card)
    warning = check_licence(licence, str(repository), accepted=wishes.accepted)
    config = repository.json(CONFIG)
    through_torch = wishes.file == TORCH or (wishes.file is None and not onnx_files(repository.files))
    if OF_TIMM in config and through_torch:
        found: Tower = _module("from_timm").of_repository(repository, config, wishes)
    else:
        found = _of_transformers(repository, config, wishes)
    notes = (f"licence: {licence}", *found.notes, *([warning] if warning else []))
    return replace(found, licence=licence, notes=notes, fetched=repository.fetched())


def _of_transformers(repository: HubRepository, config: dict[str, Any], wishes: TowerOverrides) -> Tower:
    view, scaling = preprocessing(repository, config, wishes)
    two = has_two_towers(config)
    chosen = None if wishes.file == TORCH else choose(repository.files, two_towers=two, asked=wishes.file)
    if chosen is None:
        return _module("from_transformers").tower(repository, config, view, scaling, wishes)  # type: ignore[no-any-return]
    return _of_onnx(repository, chosen, config, view, scaling, wishes)


def _of_onnx(
    repository: HubRepository,
    chosen: OnnxFile,
    config: dict[str, Any],
    view: View,
    scaling: Scaling,
    wishes: TowerOverrides,
) -> Tower:
    with tempfile.TemporaryDirectory(prefix="nonneg-") as place:
        path = gathered(fetch_onnx(repository, chosen), Path(place))
        given = from_onnx.OnnxInterface(path, view, scaling, output_name=wishes.output, pool=wishes.pool)
        how = from_onnx.by_family(given, pooling(config))
        graph, taken = from_onnx.features(how), from_onnx.taken(how)
    others = [str(file) for file in onnx_files(repository.files) if file.name != chosen.name]
    notes = (
        f"taken: {chosen}, {taken}" + (f", pooled by {how.pool}" if how.pool else ""),
        *([f"with --file: {', '.join(others)}, or torch"] if others else []),
    )
    text, said = _text(repository, chosen, config, wishes)
    return Tower(graph, view, weights=f"{repository}, {chosen}", notes=(*notes, *said), text=text)


def _text(
    repository: HubRepository, image: OnnxFile, config: dict[str, Any], wishes: TowerOverrides
) -> tuple[TextEncoder | None, tuple[str, ...]]:
    """Return the text tower beside an image tower's file, and what to say of it."""
    if not wishes.text or not has_two_towers(config):
        return None, ()
    of_texts = [file for file in onnx_files(repository.files) if file.role == "text"]
    chosen = next((file for file in of_texts if file.precision == image.precision), None)
    if chosen is None or TOKENIZER not in repository.files:
        lacking = f"text file in {image.precision}" if chosen is None else TOKENIZER
        return None, (f"its text tower is left out, because the repository lacks a {lacking}: --file torch takes both",)
    return text_encoder(repository, chosen, config), (f"with its text tower, {chosen}",)


def preprocessing(repository: HubRepository, config: dict[str, Any], wishes: TowerOverrides) -> tuple[View, Scaling]:
    """Return how the model's own files say that photos are seen, with what was said in its place."""
    if wishes.preprocessing is not None:
        return wishes.applied(*wishes.preprocessing)
    for name in PREPROCESSORS:
        if name in repository.files:
            return wishes.applied(*read_preprocessor(repository.fetch(name, LARGEST_TEXT), wishes.otherwise))
    if OF_TIMM in config:
        return wishes.applied(*seen_by(config[OF_TIMM]))
    if wishes.otherwise is None:
        raise DataInvalid(
            f"{repository} does not say how photos are to be seen (it has no {PREPROCESSORS[0]})",
            fix="say it with --size, --crop, --fit, --interpolation, --mean and --std, or --preprocessor FILE",
            field="preprocessor",
        )
    return wishes.applied(wishes.otherwise, Scaling())


def _module(name: str) -> Any:
    """Return what needs torch and the packages of models, loaded when it is needed."""
    with needing("this model", extra="wrap"):
        return import_module(f"nonneg_export.published.{name}")
