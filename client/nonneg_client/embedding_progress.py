"""Progress of an embedding run: parts as they come move a bar, or call a function of the caller's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Self

from nonneg_client.results import BatchResult
from nonneg_core.progress import Progress, ProgressBar


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
