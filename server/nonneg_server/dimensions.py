"""One dimension of a model, as its bundle knows it: its place, its evidence, its name and examples."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any
from urllib.parse import quote

from nonneg_core.errors import NotFound
from nonneg_runtime.atlas import Atlas, open_atlas
from nonneg_runtime.bundle import Bundle
from nonneg_runtime.manifest import Manifest


def card(manifest: Manifest, atlas: Atlas | None, j: int) -> dict[str, Any]:
    """A dimension in a list of others."""
    return {
        "dimension": j,
        "name": name_of(atlas, j),
        "details": path_of(manifest, j),
        "examples": [example["image"] for example in examples(manifest, atlas, j)],
    }


def details(bundle: Bundle, j: int) -> dict[str, Any]:
    """The evidence for its rank: statistics over the calibration images, and the images that activate it most."""
    manifest, columns = bundle.manifest, bundle.manifest.columns
    check_dimension(manifest, j)
    with open_atlas(bundle) or nullcontext() as atlas:
        name, shown = name_of(atlas, j), examples(manifest, atlas, j)
    return {
        "model": manifest.name,
        "fingerprint": manifest.fingerprint,
        "dimension": j,
        "name": name,
        "original": columns.original[j],
        "expected_activation": columns.expected_activation[j],
        "frequency": columns.frequency[j],
        "variance": columns.variance[j],
        "calibration_images": manifest.calibration.images,
        "examples": shown,
    }


def name_of(atlas: Atlas | None, j: int) -> str | None:
    """What most of its examples show, where they were labelled."""
    return None if atlas is None else atlas.dimension(j).name or None


def examples(manifest: Manifest, atlas: Atlas | None, j: int) -> list[dict[str, Any]]:
    """Where the pictures are, how strongly each activates the dimension, what it shows."""
    found = [] if atlas is None else atlas.examples(j)
    return [
        {
            "image": f"{path_of(manifest, j)}/examples/{place}",
            "activation": example.activation,
            "label": example.image.label or None,
        }
        for place, example in enumerate(found)
    ]


def thumbnail(bundle: Bundle, j: int, place: int) -> bytes:
    """One example's JPEG."""
    check_dimension(bundle.manifest, j)
    with open_atlas(bundle) or nullcontext() as atlas:
        found = [] if atlas is None else atlas.examples(j)
    if place >= len(found):
        raise NotFound(
            f"dimension {j} of {bundle.manifest.name} has no example {place}",
            fix="ask the dimension itself which examples it has",
            field="example",
            value=place,
        )
    return found[place].image.jpeg


def check_dimension(manifest: Manifest, j: int) -> None:
    """Raise NotFound where the model has no dimension of this number."""
    if not 0 <= j < manifest.dimensions:
        raise NotFound(
            f"{manifest.name} has no dimension {j}",
            fix=f"ask for 0 to {manifest.dimensions - 1}",
            field="dimension",
            value=j,
            limit=manifest.dimensions - 1,
        )


def path_of(manifest: Manifest, j: int) -> str:
    """The path of a dimension's own page."""
    return f"/models/{quote(manifest.name)}/dimensions/{j}"
