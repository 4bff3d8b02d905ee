"""Progress of a stream: a bar on standard error, a function of the caller's, or silence."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeAlias

if TYPE_CHECKING:
    from nonneg_client.results import Part

Progress: TypeAlias = bool | Callable[[int, int | None], object] | None


class Watch:
    """Called with each part as it passes; a context, so that a bar vanishes whatever happens."""

    def __init__(self, total: int | None, progress: Progress) -> None:
        self._total = total
        self._done = 0
        self._tell = progress if callable(progress) else None
        shown = sys.stderr.isatty() if progress is None else bool(progress)
        self._bar = _bar() if shown and self._tell is None else None

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
            self._bar.add_task("embedding", total=self._total, rate="")
        return self

    def __call__(self, part: Part) -> None:
        self._done += len(part.results)
        if self._tell:
            self._tell(self._done, self._total)
        if self._bar:
            task = self._bar.tasks[0]
            rate = f"{task.speed:.0f}/s" if task.speed else ""
            self._bar.update(task.id, completed=self._done, rate=rate)

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()


def _bar() -> Any:
    from rich import progress as bars
    from rich.console import Console

    return bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("{task.fields[rate]}"),
        bars.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
