"""Why two images are alike: their cosine, split into the products that sum to it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from nonneg_core.shortening import Vectors
from nonneg_runtime.atlas import open_atlas
from nonneg_runtime.bundle import Bundle
from nonneg_runtime.cell_map import Cells
from nonneg_server.cell_maps import Located
from nonneg_server.dimensions import card


def explain(bundle: Bundle, a: Vectors, b: Vectors, limit: int) -> dict[str, Any]:
    """Find the `limit` dimensions that add most to two unit vectors' cosine, and what the others add together."""
    products = a.astype(np.float64) * b.astype(np.float64)  # (k,), none negative: nothing cancels
    cosine = float(products.sum())
    order = np.argsort(-products, kind="stable")[:limit]
    order = order[products[order] > 0]
    with open_atlas(bundle) or nullcontext() as atlas:
        listed = [
            {
                **card(bundle, atlas, int(j)),
                "values": [float(a[j]), float(b[j])],
                "contribution": float(products[j]),
                "share": float(products[j]) / cosine,
            }
            for j in order
        ]
    return {
        "model": bundle.manifest.name,
        "fingerprint": bundle.manifest.fingerprint,
        "dimensions": len(a),
        "cosine": cosine,
        "shared": int((products > 0).sum()),
        "nnz": [int(np.count_nonzero(a)), int(np.count_nonzero(b))],
        "contributions": listed,
        "rest": float(products.sum() - products[order].sum()),
    }


def with_cells(found: dict[str, Any], located: Sequence[Located]) -> dict[str, Any]:
    """Add the cells of each image that the dimensions come from; they sum to the dimension's value."""
    listed = found["contributions"]
    for i, one in enumerate(listed):
        one["cells"] = [
            scaled(place.cells[i], value).tolist() for place, value in zip(located, one["values"], strict=True)
        ]
    return {**found, "boxes": [list(place.box) for place in located]}


def scaled(cells: Cells, value: float) -> Cells:
    """Return cells that sum to a value; all zero where they are."""
    total = float(cells.sum())
    return np.asarray(cells * (value / total), np.float32) if total > 0 else np.zeros_like(cells)
