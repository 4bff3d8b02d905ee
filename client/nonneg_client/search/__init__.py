"""Search by image, vector or dimensions: one `Index` over an engine in this process or a server of an engine.

index           what is asked: checks, exact re-ranking, dimensions that are unwanted
hits            what is answered: scores, reasons, and where random photos begin to score as much
connectors      one file for each store: Qdrant in this process (extra `search`), the default; Qdrant, pgvector, Milvus
                and OpenSearch on servers; `engine` says what each must do
contact_sheet   hits with thumbnails in one HTML file
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nonneg_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from nonneg_client.search.connectors.engine import Description, Where
    from nonneg_client.search.hits import Hit
    from nonneg_client.search.index import Index, describe

__all__ = ["Description", "Hit", "Index", "Where", "describe"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Description": "nonneg_client.search.connectors.engine",
        "Hit": "nonneg_client.search.hits",
        "Index": "nonneg_client.search.index",
        "Where": "nonneg_client.search.connectors.engine",
        "describe": "nonneg_client.search.index",
    },
)
