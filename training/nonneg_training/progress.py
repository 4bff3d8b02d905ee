"""The bar on a terminal's stderr: step, loss, images a second, time left; elsewhere nothing."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self


class Progress:
    """A context in which `show` moves the bar."""

    def __init__(self, steps: int, done: int, *, shown: bool | None = None) -> None:
        self._steps, self._done = steps, done
        self._shown = sys.stderr.isatty() if shown is None else shown

    def __enter__(self) -> Self:
        if self._shown:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("loss {task.fields[loss]:.4f}  {task.fields[rate]:,.0f} images/s"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task("train", total=self._steps, completed=self._done, loss=0.0, rate=0.0)
            self._bar.start()
        return self

    def show(self, step: int, loss: float, rate: float) -> None:
        """`step` steps are done."""
        if self._shown:
            self._bar.update(self._task, completed=step, loss=loss, rate=rate)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._shown:
            self._bar.stop()
