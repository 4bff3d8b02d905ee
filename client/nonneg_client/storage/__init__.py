"""Files of vectors: written, read, and read in parts."""

from typing import TYPE_CHECKING

from nonneg_core.process.start_up import lazy_names

if TYPE_CHECKING:
    from nonneg_vectors.storage.parquet import parts
    from nonneg_vectors.storage.vector_files import FORMATS, check_writable, files_of, load, save

__all__ = ["FORMATS", "check_writable", "files_of", "load", "parts", "save"]

__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys(__all__, "nonneg_vectors.storage.vector_files") | {"parts": "nonneg_vectors.storage.parquet"},
)
