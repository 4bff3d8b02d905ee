"""From the parts of a stream to one `Embeddings`, or to several that are put away one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from nonneg_client.embedding_progress import EmbeddingProgress
from nonneg_client.embeddings import Embeddings
from nonneg_client.results import BatchResult, Failure, SparseVector, joined
from nonneg_client.sources.images import ImageSources, Item, inputs
from nonneg_core.errors import ConfigInvalid, DataInvalid, NonnegError
from nonneg_core.progress import Progress

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
        found = inputs(images, texts)
        known = None if isinstance(images, Iterator) else list(found)
        self.images: Iterable[Item] = found if known is None else known
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
