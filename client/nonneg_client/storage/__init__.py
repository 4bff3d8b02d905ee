"""Files of vectors: written, read, and read in parts."""

from nonneg_vectors.storage.parquet import parts
from nonneg_vectors.storage.vector_files import FORMATS, check_writable, files_of, load, save

__all__ = ["FORMATS", "check_writable", "files_of", "load", "parts", "save"]
