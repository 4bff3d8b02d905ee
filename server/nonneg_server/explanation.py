"""Why two images are alike: their cosine, split into the products that sum to it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from nonneg_core.shortening import Vectors
from nonneg_runtime.atlas import open_atlas
from nonneg_runtime.bundle import Bundle
from nonneg_server.dimensions import card


def explain(bundle: Bundle, a: Vectors, b: Vectors, limit: int) -> dict[str, Any]:
    """The `limit` dimensions that add most to the cosine of two unit vectors, and what all others add together."""
    products = a.astype(np.float64) * b.astype(np.float64)  # (k,), none negative: nothing cancels
    cosine = float(products.sum())
    order = np.argsort(-products, kind="stable")[:limit]
    order = order[products[order] > 0]
    with open_atlas(bundle) or nullcontext() as atlas:
        listed = [
            {
                **card(bundle.manifest, atlas, int(j)),
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
