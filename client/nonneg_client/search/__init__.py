"""Search by image, vector or dimensions: one `Index` over an engine in this process or a server of an engine.

index           what is asked: checks, exact re-ranking, dimensions that are unwanted
hits            what is answered: scores, reasons, and where random photos begin to score as much
connectors      one file for each store: Qdrant in this process (extra `search`), the default; Qdrant, pgvector, Milvus
                and OpenSearch on servers; `engine` says what each must do
contact_sheet   hits with thumbnails in one HTML file
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nonneg_core.process.start_up import lazy_names

if TYPE_CHECKING:
    from nonneg_vectors.search.index import Index, describe
    from nonneg_vectors.search.query_and_hits import Hit
    from nonneg_vectors.search.vector_engine import Description, Where

__all__ = ["Description", "Hit", "Index", "Where", "describe"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Description": "nonneg_vectors.search.vector_engine",
        "Hit": "nonneg_vectors.search.query_and_hits",
        "Index": "nonneg_vectors.search.index",
        "Where": "nonneg_vectors.search.vector_engine",
        "describe": "nonneg_vectors.search.index",
    },
)
