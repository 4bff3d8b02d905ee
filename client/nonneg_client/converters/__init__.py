"""Vectors in the forms that databases and libraries take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nonneg_core.process.start_up import lazy_names

if TYPE_CHECKING:
    from nonneg_vectors.search.converters import (
        Sparse,
        active,
        binary,
        elasticsearch,
        elasticsearch_points,
        elasticsearch_without,
        milvus,
        milvus_points,
        milvus_without,
        opensearch,
        pgvector,
        pgvector_binary,
        pgvector_points,
        pgvector_without,
        pinecone,
        pinecone_points,
        pinecone_without,
        qdrant,
        qdrant_points,
        qdrant_without,
        torch_csr,
    )

__all__ = [
    "Sparse",
    "active",
    "binary",
    "elasticsearch",
    "elasticsearch_points",
    "elasticsearch_without",
    "milvus",
    "milvus_points",
    "milvus_without",
    "opensearch",
    "pgvector",
    "pgvector_binary",
    "pgvector_points",
    "pgvector_without",
    "pinecone",
    "pinecone_points",
    "pinecone_without",
    "qdrant",
    "qdrant_points",
    "qdrant_without",
    "torch_csr",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys(__all__, "nonneg_vectors.search.converters"),
)
