"""nonneg: embed images as non-negative, sparse vectors that can be shortened; search and evaluate them.

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from typing import TYPE_CHECKING

from nonneg_core.process.start_up import lazy_names

if TYPE_CHECKING:
    from nonneg_client.async_client import AsyncClient
    from nonneg_client.client import Client
    from nonneg_client.evaluation import evaluate
    from nonneg_client.local import Encoder
    from nonneg_client.model_of_vectors import Index
    from nonneg_core.errors import NonnegError
    from nonneg_core.pixels.view import View
    from nonneg_core.shortening import shorten
    from nonneg_core.version import __version__
    from nonneg_vectors.storage.embeddings import Embeddings

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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "AsyncClient": "nonneg_client.async_client",
        "Client": "nonneg_client.client",
        "Embeddings": "nonneg_vectors.storage.embeddings",
        "Encoder": "nonneg_client.local",
        "Index": "nonneg_client.model_of_vectors",
        "NonnegError": "nonneg_core.errors",
        "View": "nonneg_core.pixels.view",
        "__version__": "nonneg_core.version",
        "evaluate": "nonneg_client.evaluation",
        "shorten": "nonneg_core.shortening",
    },
)
