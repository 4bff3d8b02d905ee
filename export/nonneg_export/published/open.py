"""From a model's address to its image tower."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from nonneg_core.errors import DataInvalid, MissingExtra
from nonneg_core.installing import extra_hint
from nonneg_core.pixels.view import View
from nonneg_export.published import from_onnx
from nonneg_export.published.address import Address
from nonneg_export.published.families import has_two_towers, pooling
from nonneg_export.published.fetching import fetch_onnx, gathered
from nonneg_export.published.licence import check_licence, licence_of
from nonneg_export.published.onnx_choice import OnnxFile, choose, onnx_files
from nonneg_export.published.repository import CONFIG, LARGEST_TEXT, Repository, open_repository
from nonneg_export.published.text_from_onnx import text_encoder
from nonneg_export.published.tower import Tower, Wishes
from nonneg_export.text_towers import TOKENIZER, TextEncoder
from nonneg_training.onnx_backbone.adapting import Scaling
from nonneg_training.onnx_backbone.huggingface_preprocessor import read_preprocessor

PREPROCESSORS = ("preprocessor_config.json", "processor_config.json")
TORCH = "torch"


def open_tower(where: Address, wishes: Wishes) -> Tower:
    """The tower at an address that is not a file."""
    if where.kind == "hf":
        return of_repository(open_repository(where, wishes.limit), wishes)
    return _module(f"from_{where.kind}").tower(where, wishes)  # type: ignore[no-any-return]


def of_repository(repository: Repository, wishes: Wishes) -> Tower:
    """The tower of a repository: of its ONNX file if it has one, else through torch."""
    licence = licence_of(repository.card)
    warning = check_licence(licence, str(repository), accepted=wishes.accepted)
    config = repository.json(CONFIG)
    if "pretrained_cfg" in config and (
        (wishes.file is not None and wishes.file != TORCH) or not onnx_files(repository.files)
    ):
        found: Tower = _module("from_timm").of_repository(repository, config, wishes)
    else:
        found = _of_transformers(repository, config, wishes)
    notes = (f"licence: {licence}", *found.notes, *([warning] if warning else []))
    return replace(found, licence=licence, notes=notes)


def _of_transformers(repository: Repository, config: dict[str, Any], wishes: Wishes) -> Tower:
    view, scaling = preprocessing(repository, wishes)
    two = has_two_towers(config)
    chosen = None if wishes.file == TORCH else choose(repository.files, two_towers=two, asked=wishes.file)
    if chosen is None:
        return _module("from_transformers").tower(repository, config, view, scaling, wishes)  # type: ignore[no-any-return]
    return _of_onnx(repository, chosen, config, view, scaling, wishes)


def _of_onnx(
    repository: Repository, chosen: OnnxFile, config: dict[str, Any], view: View, scaling: Scaling, wishes: Wishes
) -> Tower:
    with tempfile.TemporaryDirectory(prefix="nonneg-") as place:
        path = gathered(fetch_onnx(repository, chosen), Path(place))
        given = from_onnx.Encoding(path, view, scaling, output_name=wishes.output, pool=wishes.pool)
        how = from_onnx.by_family(given, pooling(config))
        graph = from_onnx.features(how)
    others = [str(file) for file in onnx_files(repository.files) if file.name != chosen.name]
    taken = how.output_name or "its only output"
    notes = (
        f"taken: {chosen}, {taken}" + (f", pooled by {how.pool}" if how.pool else ""),
        *([f"with --file: {', '.join(others)}, or torch"] if others else []),
    )
    text, said = _text(repository, chosen, config, wishes)
    return Tower(graph, view, weights=f"{repository}, {chosen}", notes=(*notes, *said), text=text)


def _text(
    repository: Repository, image: OnnxFile, config: dict[str, Any], wishes: Wishes
) -> tuple[TextEncoder | None, tuple[str, ...]]:
    """The text tower beside an image tower's file, and what to say of it."""
    if not wishes.text or not has_two_towers(config):
        return None, ()
    of_texts = [file for file in onnx_files(repository.files) if file.role == "text"]
    chosen = next((file for file in of_texts if file.precision == image.precision), None)
    if chosen is None or TOKENIZER not in repository.files:
        lacking = f"text file in {image.precision}" if chosen is None else TOKENIZER
        return None, (f"its text tower is left out, for there is no {lacking}: --file torch takes both",)
    return text_encoder(repository, chosen, config), (f"with its text tower, {chosen}",)


def preprocessing(repository: Repository, wishes: Wishes) -> tuple[View, Scaling]:
    """How the model's own files say that photos are seen, with what was said in its place."""
    for name in PREPROCESSORS:
        if name in repository.files:
            return wishes.applied(*read_preprocessor(repository.fetch(name, LARGEST_TEXT)))
    if wishes.preprocessing is None and "size" not in wishes.seen:
        raise DataInvalid(
            f"{repository} does not say how photos are to be seen (it has no {PREPROCESSORS[0]})",
            fix="say it with --size, --crop, --fit, --interpolation, --mean and --std, or --preprocessor FILE",
            field="preprocessor",
        )
    return wishes.applied(View(size=1), Scaling())


def _module(name: str) -> Any:
    """What needs torch and the packages of models, loaded when it is needed."""
    try:
        return import_module(f"nonneg_export.published.{name}")
    except ModuleNotFoundError as error:
        raise MissingExtra(f"this model needs {error.name}", fix=extra_hint("wrap")) from None
