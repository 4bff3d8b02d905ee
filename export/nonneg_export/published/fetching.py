"""An ONNX file of a repository with the files of weights that it names, in one folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from nonneg_core.errors import BundleInvalid, DataInvalid
from nonneg_export.published.onnx_choice import OnnxFile
from nonneg_export.published.repository import HubRepository
from nonneg_runtime.external_data import external_files


def gathered(paths: list[Path], place: Path) -> Path:
    """Return the first of the files, with the others beside it: the cache holds links, and onnx refuses these."""
    if len(paths) == 1:
        return paths[0]
    for path in paths:
        shutil.copyfile(path, place / path.name)
    return place / paths[0].name


def fetch_onnx(repository: HubRepository, chosen: OnnxFile) -> list[Path]:
    """Return the file, and the files of weights beside it that it names."""
    path = repository.fetch(chosen.name)
    found, folder = [path], chosen.name.rpartition("/")[0]
    names = []
    for beside in sorted(_external(path, f"{chosen.name} of {repository}")):
        name = f"{folder}/{beside}" if folder else beside
        if name not in repository.files:
            raise DataInvalid(
                f"{chosen.name} of {repository} reads its weights from {beside!r}, which the repository does not have",
                fix="choose another file with --file",
                value=beside,
            )
        names.append(name)
    repository.check_together([chosen.name, *names])
    return [*found, *map(repository.fetch, names)]


def _external(path: Path, what: str) -> set[str]:
    """Return the files that an ONNX file reads its weights from."""
    try:
        return set(external_files(path))
    except BundleInvalid as error:
        raise DataInvalid(
            f"{what} is not an ONNX model ({error.__cause__})",
            fix="choose another file with --file, or name another revision",
            field="file",
        ) from error
