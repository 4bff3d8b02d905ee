"""Labelled images for evaluation: which files there are and what each one shows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nonneg_client.errors import DataInvalid
from nonneg_client.finding import find_images


@dataclass(frozen=True)
class Labelled:
    """Images and their labels, in the same order."""

    paths: tuple[Path, ...]
    labels: tuple[str, ...]

    def kept(self, ids: tuple[str, ...] | None) -> list[str]:
        """The labels of those images that were embedded, in the order of their ids."""
        by_id = {str(path): label for path, label in zip(self.paths, self.labels, strict=True)}
        return [by_id[name] for name in ids or ()]


def image_folder(folder: Path) -> Labelled:
    """A folder whose subfolders are the labels; images that lie in the folder itself have none and are refused."""
    paths = find_images(folder)
    labels = [path.relative_to(folder).parts[0] if path.parent != folder else "" for path in paths]
    if "" in labels:
        raise DataInvalid(
            f"{paths[labels.index('')]} lies in no labelled subfolder of {folder}",
            fix="put the images of each label into a subfolder of its name",
        )
    if len(set(labels)) < 2:
        raise DataInvalid(f"{folder} has images of one label only ({labels[0]})", fix="give at least two labels")
    return Labelled(tuple(paths), tuple(labels))
