"""What is looked at, in one answer: the model, its lengths, and the folder."""

from __future__ import annotations

from typing import Any

from nonneg_runtime.bundle import Bundle
from nonneg_server.cell_maps import can_locate
from nonneg_server.studio.collection import IndexedFolder


def overview(bundle: Bundle, dimensions: int, named: int, held: IndexedFolder | None) -> dict[str, Any]:
    """Return what is looked at; `dimensions`: the model's, or those of them that the folder's index holds."""
    from nonneg_server.api.native.models import lengths

    manifest = bundle.manifest
    return {
        "model": manifest.name,
        "fingerprint": manifest.fingerprint,
        "dimensions": dimensions,
        "named": named,
        "lengths": lengths(manifest),
        "where": can_locate(bundle),
        "folder": held and {"name": held.root.name, "photos": len(held), "groups": held.groups is not None},
    }
