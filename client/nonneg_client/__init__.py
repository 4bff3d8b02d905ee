"""nonneg: embed images as non-negative, sparse vectors that can be shortened; search and evaluate them.

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nonneg_client.async_client import AsyncClient
    from nonneg_client.client import Client
    from nonneg_client.embeddings import Embeddings
    from nonneg_client.evaluation.evaluate import evaluate
    from nonneg_client.local import Encoder
    from nonneg_client.search.index import Index
    from nonneg_core.errors import NonnegError
    from nonneg_core.pixels.view import View
    from nonneg_core.shortening import shorten
    from nonneg_core.version import __version__

__all__ = [
    "AsyncClient",
    "Client",
    "Embeddings",
    "Encoder",
    "Index",
    "NonnegError",
    "View",
    "__version__",
    "evaluate",
    "shorten",
]

_HOME = {
    "AsyncClient": "nonneg_client.async_client",
    "Client": "nonneg_client.client",
    "Embeddings": "nonneg_client.embeddings",
    "Encoder": "nonneg_client.local",
    "Index": "nonneg_client.search.index",
    "NonnegError": "nonneg_core.errors",
    "View": "nonneg_core.pixels.view",
    "__version__": "nonneg_core.version",
    "evaluate": "nonneg_client.evaluation.evaluate",
    "shorten": "nonneg_core.shortening",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
