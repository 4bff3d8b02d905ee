"""From a model's address to its image tower."""

from __future__ import annotations

import shutil
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
from nonneg_export.published.licence import check_licence, licence_of
from nonneg_export.published.onnx_choice import OnnxFile, choose, onnx_files
from nonneg_export.published.repository import CONFIG, LARGEST_TEXT, Repository, open_repository
from nonneg_export.published.tower import Tower, Wishes
from nonneg_runtime.external_data import external_files
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
    return Tower(graph, view, weights=f"{repository}, {chosen}", notes=notes)


def gathered(paths: list[Path], place: Path) -> Path:
    """The first of the files, with the others beside it: the cache holds links, and onnx refuses these."""
    if len(paths) == 1:
        return paths[0]
    for path in paths:
        shutil.copyfile(path, place / path.name)
    return place / paths[0].name


def fetch_onnx(repository: Repository, chosen: OnnxFile) -> list[Path]:
    """The file, and the files of weights beside it that it names."""
    path = repository.fetch(chosen.name)
    found = [path]
    folder = chosen.name.rpartition("/")[0]
    for beside in sorted(external_files(path)):
        name = f"{folder}/{beside}" if folder else beside
        if name not in repository.files:
            raise DataInvalid(
                f"{chosen.name} of {repository} reads its weights from {beside!r}, which the repository does not have",
                fix="choose another file with --file",
                value=beside,
            )
        found.append(repository.fetch(name))
    return found


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
