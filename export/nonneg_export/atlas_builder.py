"""Making an atlas: which images activate each dimension most, their thumbnails within a budget, suggested names."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nonneg_core.image_files import path_text
from nonneg_core.pixels.decode import decode
from nonneg_core.shortening import unit
from nonneg_export.activations import Activations
from nonneg_export.photo_folder import Photos
from nonneg_export.statistics import CHUNK, chunks
from nonneg_runtime.atlas import AtlasDimension, ExampleRecord, Image, write_atlas
from nonneg_runtime.manifest import AtlasRecord

CLEAR = 0.5  # share of the examples that a class needs to lend its name
LIFT = 3  # and so many times its share of all photos: what most photos are says nothing about a dimension
QUALITY = 75


@dataclass(frozen=True)
class Top:
    """For each dimension the indices of the images that activate it most, strongest first; -1 where there is none."""

    images: NDArray[np.int64]  # (D, n)
    activations: NDArray[np.float32]  # (D, n) of the row-normalised vectors


def strongest(rows: NDArray[np.float32], n: int, at_once: int = CHUNK) -> Top:
    """Pass once over the activations (images, D), in pieces that fit in memory; of equals the earlier image first."""
    columns = rows.shape[1]
    images, activations = np.full((columns, n), -1), np.zeros((columns, n), np.float32)
    start = 0
    for chunk in chunks(rows, at_once):
        values = np.concatenate([activations, unit(chunk).T], axis=1)  # (D, n + chunk)
        numbers = np.concatenate([images, np.tile(np.arange(start, start + len(chunk)), (columns, 1))], axis=1)
        best = np.argsort(-values, axis=1, kind="stable")[:, :n]
        images, activations = np.take_along_axis(numbers, best, 1), np.take_along_axis(values, best, 1)
        start += len(chunk)
    return Top(np.where(activations > 0, images, -1), activations)


def build_atlas(
    seen: Activations,
    photos: Photos,
    path: Path,
    *,
    examples: int,
    side: int,
    budget: int,
    data: str,
    fingerprint: str,
) -> AtlasRecord:
    """Write the atlas of `seen` to `path`, with at most `budget` bytes of thumbnails; `fingerprint`: the model's."""
    top = strongest(seen.values, examples)
    labels = [photos.label(p) for p in seen.paths]
    usual = {label: count / len(labels) for label, count in Counter(labels).items()}
    names = [_name(j, [labels[i] for i in row if i >= 0], usual) for j, row in enumerate(top.images)]
    images, place_of = _thumbnails(top, seen.paths, labels, photos.folder, side, budget)
    entries = [
        ExampleRecord(j, place, place_of[i], round(float(top.activations[j, place]), 6))
        for j, row in enumerate(top.images)
        for place, i in enumerate(row.tolist())
        if i in place_of
    ]
    write_atlas(path, images, names, entries, fingerprint=fingerprint)
    return AtlasRecord(
        data=data or photos.folder.name,
        digest=seen.digest,
        searched=len(seen.paths),
        images=len(images),
        examples=examples,
        thumbnail=side,
        named=sum(bool(d.name) for d in names),
    )


def _name(j: int, labels: Sequence[str], usual: Mapping[str, float]) -> AtlasDimension:
    """Return the class that most examples belong to, if it is most of them and far more than usual."""
    known = Counter(label for label in labels if label)
    if not known:
        return AtlasDimension(j, "", 0.0)
    label, count = max(known.items(), key=lambda item: (item[1], item[0]))
    share = count / len(labels)
    clear = share >= max(CLEAR, LIFT * usual[label])
    return AtlasDimension(j, label if clear else "", round(share, 4))


def _thumbnails(
    top: Top, paths: Sequence[Path], labels: Sequence[str], folder: Path, side: int, budget: int
) -> tuple[list[Image], dict[int, int]]:
    """Return the strongest example of every dimension first, then the second ones, until the budget is used."""
    images: list[Image] = []
    place_of: dict[int, int] = {}
    for i in _by_place(top):
        jpeg = thumbnail(paths[i], side)
        if len(jpeg) > budget:
            break
        budget -= len(jpeg)
        place_of[i] = len(images)
        images.append(Image(path_text(paths[i].relative_to(folder)), labels[i], jpeg))
    return images, place_of


def _by_place(top: Top) -> Iterator[int]:
    met: set[int] = {-1}
    for i in top.images.T.ravel().tolist():
        if i not in met:
            met.add(i)
            yield i


def thumbnail(path: Path, side: int) -> bytes:
    """Return the whole image, at most `side` pixels wide and high, as JPEG without any metadata."""
    image = decode(path.read_bytes())
    image.thumbnail((side, side))
    small = image.copy()
    small.info.clear()
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=QUALITY, optimize=True)
    return buffer.getvalue()
