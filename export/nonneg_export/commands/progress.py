"""A progress bar on stderr that is not there when nobody looks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nonneg_export.activations import Tick


@contextmanager
def progress(label: str) -> Iterator[Tick]:
    """Yields the function to call with (done, of how many)."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
