"""Making an atlas: the images that activate each dimension most, with suggested names, and its HTML page."""

import base64
import html
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nonneg_core.arrays import Floats, Numbers
from nonneg_core.files.atomic import atomic_write
from nonneg_core.files.image_files import path_text
from nonneg_core.pixels.decode import decode
from nonneg_core.shortening import unit
from nonneg_export.calibrate.activations import Activations
from nonneg_export.calibrate.column_ranking import CHUNK, chunks
from nonneg_export.calibrate.photo_folder import Photos
from nonneg_runtime.bundle.atlas_file import Atlas, AtlasDimension, ExampleRecord, Image, write_atlas
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.bundle.manifest import AtlasRecord
from nonneg_runtime.words.column_facts import known_names

CLEAR = 0.5  # share of the examples that a class needs to lend its name
LIFT = 3  # and so many times its share of all photos: what most photos are says nothing about a dimension
QUALITY = 75


@dataclass(frozen=True)
class Top:
    """For each dimension the indices of the images that activate it most, strongest first; -1 where there is none."""

    images: Numbers  # (D, n)
    activations: Floats  # (D, n) of the row-normalised vectors


def strongest(rows: Floats, n: int, at_once: int = CHUNK) -> Top:
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
    activations: Activations,
    photos: Photos,
    path: Path,
    *,
    examples: int,
    side: int,
    budget: int,
    data: str,
    fingerprint: str,
) -> AtlasRecord:
    """Write the atlas to `path`, with at most `budget` bytes of thumbnails; `fingerprint`: the model's."""
    top = strongest(activations.values, examples)
    labels = [photos.label(p) for p in activations.paths]
    usual = {label: count / len(labels) for label, count in Counter(labels).items()}
    names = [_name(j, [labels[i] for i in row if i >= 0], usual) for j, row in enumerate(top.images)]
    images, place_of = _thumbnails(top, activations.paths, labels, photos.folder, side, budget)
    entries = [
        ExampleRecord(j, place, place_of[i], round(float(top.activations[j, place]), 6))
        for j, row in enumerate(top.images)
        for place, i in enumerate(row.tolist())
        if i in place_of
    ]
    write_atlas(path, images, names, entries, fingerprint=fingerprint)
    return AtlasRecord(
        data=data or photos.folder.name,
        digest=activations.digest,
        searched=len(activations.paths),
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


# An atlas as one HTML file that opens anywhere: every dimension with its name, evidence and strongest photos.

PAGE = Path(__file__).with_suffix(".html")


def write_atlas_page(path: Path, bundle: Bundle, atlas: Atlas, photos: str) -> None:
    """Write the page; `photos`: what the examples were taken from. Names are the bundle's, else the atlas's."""
    pictures: dict[bytes, int] = {}
    shown = [_dimension(bundle, atlas, j, pictures) for j in range(bundle.manifest.dimensions)]
    title = f"{bundle.manifest.name}: what its dimensions show in {photos}"
    contents = {
        "dimensions": shown,
        "pictures": [base64.b64encode(jpeg).decode() for jpeg in pictures],
        "prefix": sum(d["name"] != "" for d in shown[:512]),
    }
    page = PAGE.read_text(encoding="utf-8").replace("{{title}}", html.escape(title))
    page = page.replace("{{fingerprint}}", html.escape(bundle.manifest.fingerprint))
    with atomic_write(path) as temporary:
        temporary.write_text(page.replace("{{data}}", _embedded(contents)), encoding="utf-8")


def _dimension(bundle: Bundle, atlas: Atlas, j: int, pictures: dict[bytes, int]) -> dict[str, Any]:
    """Return a dimension as the page knows it; `pictures` grows by those it shows, each kept once."""
    name, columns = known_names(bundle).get(j), bundle.manifest.columns
    return {
        "name": name.name if name else "",
        "common": name.common if name else "",
        "evidence": name.evidence if name else "",
        "strength": None if name is None or name.precision is None else name.precision,
        "frequency": round(columns.frequency[j], 4),
        "examples": [
            [pictures.setdefault(e.image.jpeg, len(pictures)), round(e.activation, 3), e.image.path]
            for e in atlas.examples(j)
        ],
    }


def _embedded(value: object) -> str:
    """Return JSON as it may stand inside a script element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
