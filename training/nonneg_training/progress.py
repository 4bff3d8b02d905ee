"""The bar on a terminal's stderr: how far, loss, images a second, time left; elsewhere nothing."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self


class Progress:
    """A context in which `show` (of training) or `move` (of anything else) moves the bar."""

    def __init__(self, total: int, done: int, *, shown: bool | None = None, text: str = "") -> None:
        self._total, self._done, self._text = total, done, text
        self._shown = sys.stderr.isatty() if shown is None else shown

    def __enter__(self) -> Self:
        if self._shown:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[text]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task("train", total=self._total, completed=self._done, text=self._text)
            self._bar.start()
        return self

    def show(self, step: int, loss: float, rate: float) -> None:
        """`step` steps are done."""
        if self._shown:
            self._bar.update(self._task, completed=step, text=f"loss {loss:.4f}  {rate:,.0f} images/s")

    def move(self, done: int, total: int) -> None:
        """`done` of `total` are done."""
        if self._shown:
            self._bar.update(self._task, completed=done, total=total)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._shown:
            self._bar.stop()
