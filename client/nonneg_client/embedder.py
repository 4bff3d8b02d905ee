"""What embeds images, a client of a server or a bundle in this process; and how its stream becomes `Embeddings`."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from nonneg_client.sources.image_sources import ImageSources, Item, inputs
from nonneg_client.wire.answer_limits import dimensions_of, readable
from nonneg_client.wire.protocol import Options
from nonneg_core.errors import ConfigInvalid, DataInvalid, NonnegError
from nonneg_core.terminal.progress import Progress, ProgressBar
from nonneg_vectors.storage.bits import BitForm
from nonneg_vectors.storage.embeddings import Embeddings
from nonneg_vectors.storage.results import BatchResult, Failure, SparseVector, joined

if TYPE_CHECKING:
    from nonneg_vectors.search.query_and_hits import Query


class EmbeddingProgress:
    """Called with each part as it passes; a context, so that a bar vanishes whatever happens."""

    def __init__(self, total: int | None, progress: Progress, *, lines: bool = False) -> None:
        self._total = total
        self._done = 0
        self._tell = progress if callable(progress) else None
        self._bar = ProgressBar("embedding", total, shown=False if callable(progress) else progress, lines=lines)

    def __enter__(self) -> Self:
        return self

    def __call__(self, part: BatchResult) -> None:
        self._done += len(part.results)
        if self._tell:
            self._tell(self._done, self._total)
        self._bar.move(self._done)

    def over(self, parts: Iterable[BatchResult]) -> Iterator[BatchResult]:
        """Yield the parts, watched as they pass."""
        for part in parts:
            self(part)
            yield part

    def __exit__(self, *_: object) -> None:
        self._bar.__exit__()


# From the parts of a stream to one `Embeddings`, or to several that are put away one after the other.

OnError = Literal["raise", "return"]

SECONDS = 10.0  # after which what is done is put away


class EmbeddingsBuilder:
    """What has come so far."""

    def __init__(self, on_error: OnError) -> None:
        if on_error not in ("raise", "return"):
            raise ConfigInvalid(f"on_error={on_error!r}", fix='choose "raise" or "return"', field="on_error")
        self._on_error = on_error
        self._meta = BatchResult(())
        self.vectors: list[SparseVector] = []
        self.failures: list[Failure] = []

    def add(self, part: BatchResult) -> None:
        """Take a part; with `raise` the first failure ends it all."""
        self._meta = joined(self._meta, part)
        for result in part.results:
            if isinstance(result, SparseVector):
                self.vectors.append(result)
            elif self._on_error == "raise":
                raise with_id(result)
            else:
                self.failures.append(result)

    def embeddings(self) -> Embeddings:
        """Return all vectors, in the order of the images."""
        if not self.vectors:
            if self.failures:
                first = self.failures[0]
                raise DataInvalid(
                    f"none of {len(self.failures)} images could be embedded; {with_id(first).message}",
                    fix=first.error.fix,
                )
            raise DataInvalid("images=[] holds no images to embed", fix="give at least one")
        return Embeddings.from_rows(
            [(vector.indices, vector.values) for vector in self.vectors],
            dimensions=self._meta.dimensions,
            fingerprint=self._meta.fingerprint,
            model=self._meta.model,
            ids=tuple(vector.id for vector in self.vectors),
            normalized=self._meta.normalized,
            failures=tuple(self.failures),
        )


class EmbedCall:
    """One call of `embed`, of either client: its images, what is asked, and what has come of it."""

    def __init__(
        self, images: ImageSources | None, texts: str | Iterable[str] | None, on_error: OnError, progress: Progress
    ) -> None:
        items = inputs(images, texts)
        known = None if isinstance(images, Iterator) else list(items)
        self.images: Iterable[Item] = items if known is None else known
        self.collected = EmbeddingsBuilder(on_error)
        self.watch = EmbeddingProgress(None if known is None else len(known), progress)

    def add(self, part: BatchResult) -> None:
        """Take a part as it comes."""
        self.collected.add(part)
        self.watch(part)


def grouped(
    parts: Iterable[BatchResult], most: int, *, seconds: float = SECONDS, clock: Callable[[], float] = time.monotonic
) -> Iterator[list[BatchResult]]:
    """Yield parts with `most` images together, or those of some seconds; raise an error after what came before."""
    coming = iter(parts)
    waiting: list[BatchResult] = []
    begun = clock()
    while True:
        part = failed = None
        try:
            part = next(coming, None)
        except BaseException as error:
            failed = error
        if part is not None:
            waiting.append(part)
        full = sum(len(p.results) for p in waiting) >= most or clock() - begun >= seconds
        if waiting and (full or part is None):
            yield waiting
            waiting, begun = [], clock()
        if failed is not None:
            raise failed
        if part is None:
            return


def with_id(failure: Failure) -> NonnegError:
    """Return the failure's error with the image's id in its message, once."""
    error = failure.error
    if failure.id not in error.message:
        error.message = f"{failure.id}: {error.message}"
    return error


@dataclass(frozen=True)
class Model:
    """What vectors come from."""

    name: str
    fingerprint: str
    dimensions: int

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """Read the answer of GET /models/NAME, or of GET /models, which names the default first."""
        with readable("the description of a model"):
            entry = answer["models"][0] if "models" in answer else answer
            return cls(str(entry["name"]), str(entry["fingerprint"]), dimensions_of(entry))


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

    def served(self) -> list[Model]:
        """Return all models that can be asked."""
        return [self.model()]

    @abstractmethod
    def query(self, expression: str, dimensions: int | None = None, *, model: str | None = None) -> Query:
        """Read an expression, `photo.jpg + dim:goldfish !dim:40`, as weightings of the first `dimensions`."""

    @abstractmethod
    def bit_form(self, model: str | None = None) -> BitForm:
        """Return which columns of a model have a bit, and how whole vectors ask vectors of bits."""

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
    from nonneg_core.terminal.installing import needing

    with needing("embedding without a server", extra="local"):
        from nonneg_client.local import Encoder
    return Encoder(bundle, threads=threads, provider=provider)
