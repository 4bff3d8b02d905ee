"""Search by image, vector or dimensions: one `Index` over an engine in this process or a server of an engine.

index           what is asked: checks, exact re-ranking, dimensions that are unwanted
hits            what is answered: scores, reasons, and where random photos begin to score as much
connectors      one file for each store: Qdrant in this process (extra `search`), the default; Qdrant, pgvector, Milvus
                and OpenSearch on servers; `engine` says what each must do
contact_sheet   hits with thumbnails in one HTML file
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nonneg_client.search.connectors.engine import Description, Where
    from nonneg_client.search.hits import Hit
    from nonneg_client.search.index import Index, describe

__all__ = ["Description", "Hit", "Index", "Where", "describe"]

_HOME = {
    "Description": "connectors.engine",
    "Where": "connectors.engine",
    "Hit": "hits",
    "Index": "index",
    "describe": "index",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
