"""The dimensions of a model: one as its bundle knows it, and all of them filtered, sorted and cut into pages."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any
from urllib.parse import quote

from nonneg_core.errors import NotFound
from nonneg_runtime.bundle.atlas_file import Atlas, open_atlas
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.bundle.manifest import Manifest
from nonneg_runtime.words.column_facts import known_names, why_unnamed
from nonneg_runtime.words.names import Name
from nonneg_server.requests.parameters import Listing


def card(bundle: Bundle, atlas: Atlas | None, j: int) -> dict[str, Any]:
    """Return a dimension in a list of others."""
    return {
        "dimension": j,
        **naming(known_names(bundle).get(j)),
        "details": path_of(bundle.manifest, j),
        "examples": [example["image"] for example in examples(bundle.manifest, atlas, j)],
    }


def dimension_details(bundle: Bundle, j: int) -> dict[str, Any]:
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
    exemplars = [] if atlas is None else atlas.examples(j)
    return [
        {
            "image": f"{path_of(manifest, j)}/examples/{place}",
            "activation": example.activation,
            "label": example.image.label or None,
        }
        for place, example in enumerate(exemplars)
    ]


def thumbnail(bundle: Bundle, j: int, place: int) -> bytes:
    """Return one example's JPEG."""
    check_dimension(bundle.manifest, j)
    with open_atlas(bundle) or nullcontext() as atlas:
        exemplars = [] if atlas is None else atlas.examples(j)
    if place >= len(exemplars):
        raise NotFound(
            f"dimension {j} of {bundle.manifest.name} has no example {place}",
            fix="ask the dimension itself which examples it has",
            field="example",
            value=place,
        )
    return exemplars[place].image.jpeg


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


# The dimensions of a model as a list: filtered, sorted and cut into pages.


def list_dimensions(bundle: Bundle, listing: Listing) -> dict[str, Any]:
    """Return the page that was asked for, and how many dimensions all pages have together."""
    manifest, names = bundle.manifest, known_names(bundle)
    frequency = manifest.columns.frequency
    chosen = [j for j in range(manifest.dimensions) if _matches(names.get(j), listing)]
    chosen.sort(key=lambda j: _place(j, listing.sort, names, frequency))
    page = chosen[listing.offset : listing.offset + listing.limit]
    return {
        "model": manifest.name,
        "fingerprint": manifest.fingerprint,
        "named": len(names),
        "unnamed": why_unnamed(bundle) or None,
        "total": len(chosen),
        "offset": listing.offset,
        "dimensions": [
            {
                "dimension": j,
                **naming(names.get(j)),
                "frequency": frequency[j],
                "expected_activation": manifest.columns.expected_activation[j],
                "variance": manifest.columns.variance[j],
                "details": path_of(manifest, j),
            }
            for j in page
        ],
    }


def _matches(name: Name | None, listing: Listing) -> bool:
    if name is None:
        return not listing.named and not listing.contains and listing.evidence is None
    has = {"precision": name.precision is not None, "rank": name.rank is not None}
    if listing.evidence is not None and not has[listing.evidence]:
        return False
    return (listing.contains or "").casefold() in f"{name.name}\n{name.common}".casefold()


def _place(j: int, sort: str, names: Mapping[int, Name], frequency: tuple[float, ...]) -> tuple[Any, ...]:
    """Return what a dimension is sorted by; equal ones stay in the order of the columns."""
    name = names.get(j)
    if sort == "frequency":
        return (-frequency[j], j)
    if sort == "name":
        return (name is None, name.name.casefold() if name else "", j)
    if sort == "evidence":
        return (*strength(name), j)
    return (j,)


def strength(name: Name | None) -> tuple[int, float]:
    """Return how good the evidence for a name is, the best first: precisions, then ranks, then names without either."""
    if name is None:
        return (3, 0.0)
    if name.precision is not None:
        return (0, -name.precision)
    return (2, 0.0) if name.rank is None else (1, float(name.rank))
