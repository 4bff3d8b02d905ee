"""Progress: a bar on standard error, a function of the caller's, or silence."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeAlias

Progress: TypeAlias = bool | Callable[[int, int | None], object] | None

FORM = "{desc} {bar:30} {n_fmt}/{total_fmt} {rate_fmt}{postfix} {remaining} left"


class Bar:
    """A bar on standard error with count, rate and time left; it vanishes when done, and in a pipe there is none."""

    def __init__(
        self, label: str, total: int | None = None, *, done: int = 0, unit: str = "images", shown: bool | None = None
    ) -> None:
        begin = {"desc": label, "total": total, "initial": done, "unit": f" {unit}"}
        self._bar = _bar(begin) if shown or (shown is None and sys.stderr.isatty()) else None

    def __enter__(self) -> Self:
        return self

    def move(self, done: int, total: int | None = None, text: str = "") -> None:
        """`done` of `total` are done; `text` stands behind the rate."""
        if self._bar is None:
            return
        if total is not None:
            self._bar.total = total
        if text:
            self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(done - self._bar.n)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


def _bar(begin: Mapping[str, Any]) -> Any:
    from tqdm import tqdm

    drawn = type("Drawn", (tqdm,), {"monitor_interval": 0})  # no thread that watches the bar
    return drawn(**begin, file=sys.stderr, leave=False, dynamic_ncols=True, miniters=1, bar_format=FORM)
