"""One dimension of a model, as its bundle knows it: its place, its evidence, its name and examples."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any
from urllib.parse import quote

from nonneg_core.errors import NotFound
from nonneg_runtime.atlas import Atlas, open_atlas
from nonneg_runtime.bundle import Bundle
from nonneg_runtime.manifest import Manifest
from nonneg_runtime.words.known_names import known_names, why_unnamed
from nonneg_runtime.words.names import Name


def card(bundle: Bundle, atlas: Atlas | None, j: int) -> dict[str, Any]:
    """Return a dimension in a list of others."""
    return {
        "dimension": j,
        **naming(known_names(bundle).get(j)),
        "details": path_of(bundle.manifest, j),
        "examples": [example["image"] for example in examples(bundle.manifest, atlas, j)],
    }


def details(bundle: Bundle, j: int) -> dict[str, Any]:
    """Give the evidence for its rank: statistics over calibration images, and the images that activate it most."""
    manifest, columns = bundle.manifest, bundle.manifest.columns
    check_dimension(manifest, j)
    with open_atlas(bundle) or nullcontext() as atlas:
        shown = examples(manifest, atlas, j)
    return {
        "model": manifest.name,
        "fingerprint": manifest.fingerprint,
        "dimension": j,
        **naming(known_names(bundle).get(j)),
        "unnamed": None if j in known_names(bundle) else why_unnamed(bundle) or None,
        "original": columns.original[j],
        "expected_activation": columns.expected_activation[j],
        "frequency": columns.frequency[j],
        "variance": columns.variance[j],
        "calibration_images": manifest.calibration.images,
        "examples": shown,
    }


def naming(name: Name | None) -> dict[str, Any]:
    """Return what a dimension is called, what that is in everyday words, and the evidence for it."""
    if name is None:
        return {"name": None, "common": None, "evidence": None}
    evidence = {
        "source": name.source,
        "says": name.evidence,
        "precision": name.precision,
        "photos": name.photos,
        "rank": name.rank,
    }
    return {"name": name.name, "common": name.common or None, "evidence": evidence}


def examples(manifest: Manifest, atlas: Atlas | None, j: int) -> list[dict[str, Any]]:
    """Return where the pictures are, how strongly each activates the dimension, what it shows."""
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
    """Return one example's JPEG."""
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
    """Return the path of a dimension's own page."""
    return f"/models/{quote(manifest.name)}/dimensions/{j}"
