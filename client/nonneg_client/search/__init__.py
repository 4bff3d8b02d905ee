"""Search by image, vector or dimensions: one `Index` over an engine in this process or on a server."""

from typing import TYPE_CHECKING

from nonneg_core.process.start_up import lazy_names

if TYPE_CHECKING:
    from nonneg_client.model_of_vectors import Index
    from nonneg_vectors.search.attributes import read_attributes
    from nonneg_vectors.search.index import describe
    from nonneg_vectors.search.query_and_hits import Hit
    from nonneg_vectors.search.vector_engine import Description, Where

__all__ = ["Description", "Hit", "Index", "Where", "describe", "read_attributes"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Description": "nonneg_vectors.search.vector_engine",
        "Hit": "nonneg_vectors.search.query_and_hits",
        "Index": "nonneg_client.model_of_vectors",
        "Where": "nonneg_vectors.search.vector_engine",
        "describe": "nonneg_vectors.search.index",
        "read_attributes": "nonneg_vectors.search.attributes",
    },
)
