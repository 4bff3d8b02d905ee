"""Stored vectors: kept in files, searched, curated and evaluated with numpy alone; no server, no model."""

from typing import TYPE_CHECKING

from nonneg_core.process.start_up import lazy_names

if TYPE_CHECKING:
    from nonneg_vectors.curation.collection import Collection, read_collection
    from nonneg_vectors.curation.curation_parts import CurationOptions, curate, curate_two
    from nonneg_vectors.curation.distinguish import distinguish
    from nonneg_vectors.evaluation.retrieval import by_length
    from nonneg_vectors.search.index import Index
    from nonneg_vectors.storage.bits import BitForm, BitVectors
    from nonneg_vectors.storage.embeddings import Embeddings

__all__ = [
    "BitForm",
    "BitVectors",
    "Collection",
    "CurationOptions",
    "Embeddings",
    "Index",
    "by_length",
    "curate",
    "curate_two",
    "distinguish",
    "read_collection",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BitForm": "nonneg_vectors.storage.bits",
        "BitVectors": "nonneg_vectors.storage.bits",
        "Collection": "nonneg_vectors.curation.collection",
        "CurationOptions": "nonneg_vectors.curation.curation_parts",
        "Embeddings": "nonneg_vectors.storage.embeddings",
        "Index": "nonneg_vectors.search.index",
        "by_length": "nonneg_vectors.evaluation.retrieval",
        "curate": "nonneg_vectors.curation.curation_parts",
        "curate_two": "nonneg_vectors.curation.curation_parts",
        "distinguish": "nonneg_vectors.curation.distinguish",
        "read_collection": "nonneg_vectors.curation.collection",
    },
)
