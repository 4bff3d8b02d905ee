"""Vectors in the forms that databases and libraries take."""

from nonneg_vectors.search.converters import *  # noqa: F403
from nonneg_vectors.search.converters import __all__ as __all__


def __dir__() -> list[str]:
    return sorted(__all__)
