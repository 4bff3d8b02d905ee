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
    from nonneg_client.errors import NonnegError
    from nonneg_client.evaluation.evaluate import evaluate
    from nonneg_client.pixels.view import View
    from nonneg_client.shortening import shorten
    from nonneg_client.version import __version__

__all__ = ["AsyncClient", "Client", "Embeddings", "NonnegError", "View", "__version__", "evaluate", "shorten"]

_HOME = {
    "AsyncClient": "async_client",
    "Client": "client",
    "Embeddings": "embeddings",
    "NonnegError": "errors",
    "View": "pixels.view",
    "__version__": "version",
    "evaluate": "evaluation.evaluate",
    "shorten": "shortening",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
