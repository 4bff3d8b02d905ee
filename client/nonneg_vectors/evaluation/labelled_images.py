"""Labelled images for evaluation: which files there are, what each one shows, and which of them ask."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import DataInvalid
from nonneg_core.files.csv_table import read_table
from nonneg_core.files.image_files import find_images, labels_of, path_text
from nonneg_vectors.storage.embeddings import Embeddings

Names = NDArray[np.str_]
QUERIES, GALLERY = ("query", "queries", "test", "val"), ("gallery", "database", "train", "index")


@dataclass(frozen=True)
class Labelled:
    """Images and their labels, in the same order; without `asks` every image asks all the others."""

    paths: tuple[Path, ...]
    labels: tuple[str, ...]
    asks: tuple[bool, ...] | None = None
    root: Path = Path()  # the folder, or that of the CSV file

    def labels_of(self, ids: tuple[str, ...] | None) -> list[str]:
        """Return the labels of those images that were embedded, in the order of their ids."""
        by_id = {path_text(path): label for path, label in zip(self.paths, self.labels, strict=True)}
        return [by_id[name] for name in _known(ids, by_id)]

    def sides(self, embeddings: Embeddings) -> tuple[Embeddings, Names, Embeddings | None, Names | None]:
        """Return the gallery and its labels, then the queries and theirs; None where all ask for all."""
        labels, asks = np.array(self.labels_of(embeddings.ids)), self.asks_of(embeddings.ids)
        if asks is None:
            return embeddings, labels, None, None
        ask = np.array(asks)
        return embeddings[~ask], labels[~ask], embeddings[ask], labels[ask]

    def asks_of(self, ids: tuple[str, ...] | None) -> list[bool] | None:
        """Return which of the embedded images ask, in the order of their ids."""
        if self.asks is None:
            return None
        by_id = {path_text(path): asks for path, asks in zip(self.paths, self.asks, strict=True)}
        return [by_id[name] for name in ids or ()]


def read_dataset(path: Path) -> Labelled:
    """Return a folder of labelled subfolders, or a CSV file."""
    return csv_file(path) if path.suffix.lower() == ".csv" else image_folder(path)


def image_folder(folder: Path) -> Labelled:
    """Read a folder whose subfolders are the labels; images in the folder itself have none and are refused."""
    paths = find_images(folder)
    return Labelled(tuple(paths), _several(labels_of(paths, folder), folder), root=folder)


def csv_file(path: Path) -> Labelled:
    """Return rows of `path`, `label` and perhaps `split` (query or gallery); paths are relative to the file."""
    columns, rows = read_table(path, ("path", "label"))
    if not rows:
        raise DataInvalid(f"{path} names no images", fix="give a line for each: path,label", value=str(path))
    paths = [path.parent / row["path"] for row in rows]
    if len(set(paths)) < len(paths):
        twice = next(p for i, p in enumerate(paths) if p in paths[:i])
        raise DataInvalid(f"{path} names {twice} twice", fix="give each image once")
    asks = [_asks(path, row["split"]) for row in rows] if "split" in columns else None
    if asks is not None and (all(asks) or not any(asks)):
        raise DataInvalid(f"{path} has queries or a gallery, not both", fix="mark some rows query and some gallery")
    return Labelled(
        tuple(paths),
        _several(tuple(row["label"] for row in rows), path),
        None if asks is None else tuple(asks),
        path.parent,
    )


def _asks(path: Path, split: str | None) -> bool:
    if (split or "").lower() not in (*QUERIES, *GALLERY):
        raise DataInvalid(f"{path}: {split!r} is not a split", fix=f"write {QUERIES[0]} or {GALLERY[0]}", field="split")
    return (split or "").lower() in QUERIES


def _several(labels: tuple[str, ...], where: Path) -> tuple[str, ...]:
    if len(set(labels)) < 2:
        raise DataInvalid(f"{where} has images of one label only ({labels[0]})", fix="give at least two labels")
    return labels


def _known(ids: tuple[str, ...] | None, by_id: dict[str, str]) -> tuple[str, ...]:
    unknown = next((name for name in ids or () if name not in by_id), None)
    if unknown is not None:
        raise DataInvalid(f"{unknown} is none of the labelled images", fix="use the paths as they were embedded")
    return ids or ()
