"""An ONNX file of a repository with the files of weights that it names, in one folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from nonneg_core.errors import DataInvalid
from nonneg_export.published.onnx_choice import OnnxFile
from nonneg_export.published.repository import Repository
from nonneg_runtime.external_data import external_files


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
