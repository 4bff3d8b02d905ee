"""What embeds images: a client of a server, or a bundle in this process. Both are asked the same way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from nonneg_client.results import BatchResult
from nonneg_client.sources.images import ImageSources, Item
from nonneg_client.wire.protocol import Options
from nonneg_core.progress import Progress

if TYPE_CHECKING:
    from nonneg_client.embeddings import Embeddings
    from nonneg_client.embeddings_builder import OnError
    from nonneg_client.query import Query


@dataclass(frozen=True)
class Model:
    """What vectors come from."""

    name: str
    fingerprint: str
    dimensions: int

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """Read the answer of GET /models/NAME, or of GET /models, which names the default first."""
        found = answer["models"][0] if "models" in answer else answer
        return cls(str(found["name"]), str(found["fingerprint"]), int(found["dimensions"]))


class Embedder(ABC):
    """Images in, embeddings out; to be closed."""

    @abstractmethod
    def stream(
        self, images: Iterable[Item], options: Options, *, downscale: int | None = None
    ) -> Generator[BatchResult, None, None]:
        """Return the outcomes in the order of the images, some at a time, with a bounded number under way."""

    @abstractmethod
    def model(self, name: str | None = None) -> Model:
        """Return the model of this name; without one that with which images are embedded by default."""

    @abstractmethod
    def query(self, expression: str, dimensions: int | None = None, *, model: str | None = None) -> Query:
        """Read an expression, `photo.jpg + dim:snow !dim:40`, as weightings of the first `dimensions`."""

    @abstractmethod
    def close(self) -> None:
        """Give back what is held."""

    def embed(
        self,
        images: ImageSources | None = None,
        dimensions: int | None = None,
        top_k: int | None = None,
        *,
        texts: str | Iterable[str] | None = None,
        truncate: bool = False,
        normalize: bool = True,
        model: str | None = None,
        downscale: int | None = None,
        on_error: OnError = "raise",
        progress: Progress = None,
    ) -> Embeddings:
        """Embed one image or many: paths, globs, folders, URLs, bytes, PIL images, arrays, or an iterable of them.

        texts: in their place, words that the model knows: "a golden retriever". truncate: read the first of too many.
        dimensions, top_k, normalize: as the server's own: the first `dimensions` columns, of these each vector's
            `top_k` largest, then length one.
        downscale: shrink each image to this short side before sending: less to send, slightly another vector.
        on_error: "raise" at the first image that fails, or "return" it in `Embeddings.failures` and go on.
        progress: True, False, or None for a bar where standard error is a terminal; or a function(done, total).
        """
        from nonneg_client.embeddings_builder import EmbedCall

        run = EmbedCall(images, texts, on_error, progress)
        options = Options(dimensions, top_k, normalize, model, truncate)
        parts = self.stream(run.images, options, downscale=downscale)
        with closing(parts), run.watch:
            for part in parts:
                run.add(part)
        return run.collected.embeddings()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def local(bundle: str | None = None, threads: int | None = None, provider: str | None = None) -> Embedder:
    """Open a bundle in this process; without a name the default model. It needs what runs models, no server.

    provider: as for `nonneg serve`.
    """
    from nonneg_core.installing import needing

    with needing("embedding without a server", extra="local"):
        from nonneg_client.local import Encoder
    return Encoder(bundle, threads=threads, provider=provider)
