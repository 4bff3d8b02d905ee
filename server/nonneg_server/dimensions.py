"""One dimension of a model, as its bundle knows it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from nonneg_client.errors import NotFound
from nonneg_export.manifest import Manifest


def card(manifest: Manifest, j: int) -> dict[str, Any]:
    """The dimension's place and where more is said of it."""
    return {"dimension": j, "name": None, "details": f"/models/{quote(manifest.name)}/dimensions/{j}"}


def details(manifest: Manifest, j: int) -> dict[str, Any]:
    """The evidence for its rank: statistics over the calibration images."""
    if not 0 <= j < manifest.dimensions:
        raise NotFound(
            f"{manifest.name} has no dimension {j}",
            fix=f"ask for 0 to {manifest.dimensions - 1}",
            field="dimension",
            value=j,
            limit=manifest.dimensions - 1,
        )
    columns = manifest.columns
    return {
        "model": manifest.name,
        "fingerprint": manifest.fingerprint,
        "dimension": j,
        "name": None,
        "original": columns.original[j],
        "expected_activation": columns.expected_activation[j],
        "frequency": columns.frequency[j],
        "variance": columns.variance[j],
        "calibration_images": manifest.calibration.images,
        "examples": [],
    }
