"""Progress: a bar on a terminal, a line a minute elsewhere, a function of the caller's, or silence."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeAlias

Progress: TypeAlias = bool | Callable[[int, int | None], object] | None

MINUTE = 60.0  # seconds
FORM = "{desc} {bar:30} {n_fmt}/{total_fmt} {rate_noinv_fmt}{postfix} {remaining} left"


class Lines:
    """A line a minute on standard error, for a log: what is done, how fast, and how long it will take."""

    def __init__(
        self, label: str, total: int | None, done: int, unit: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._label, self._total, self._unit, self._clock = label, total, unit, clock
        self._began = self._last = clock()
        self._first = done

    def move(self, done: int, total: int | None, text: str) -> None:
        """Show that `done` of `total` are done; `text` stands behind the rate."""
        now = self._clock()
        if now - self._last < MINUTE:
            return
        self._last, self._total = now, self._total if total is None else total
        rate = (done - self._first) / (now - self._began)
        of = "" if self._total is None else f" of {self._total:,}"
        parts = [f"{self._label}: {done:,}{of} {self._unit}", f"{rate:.3g} {self._unit}/s", *([text] if text else [])]
        if self._total is not None and rate > 0:
            parts.append(f"{_duration((self._total - done) / rate)} left")
        sys.stderr.write(", ".join(parts) + "\n")
        sys.stderr.flush()


class ProgressBar:
    """A bar on standard error with count, rate and time left; it vanishes when done.

    shown: True, False, None for a bar on a terminal only, or a function that is told in place of it. lines: without a
    terminal, a line a minute.
    """

    def __init__(
        self,
        label: str,
        total: int | None = None,
        *,
        done: int = 0,
        unit: str = "images",
        shown: Progress = None,
        lines: bool = False,
    ) -> None:
        begin = {"desc": label, "total": total, "initial": done, "unit": f" {unit}"}
        self._total, self._tell = total, shown if callable(shown) else None
        drawn = shown is True or (shown is None and sys.stderr.isatty())
        self._bar = _bar(begin) if drawn else None
        line_mode = lines and shown is None and self._bar is None
        self._lines = Lines(label, total, done, unit) if line_mode else None

    def __enter__(self) -> Self:
        return self

    def move(self, done: int, total: int | None = None, text: str = "") -> None:
        """Show that `done` of `total` are done; `text` stands behind the rate."""
        if self._tell is not None:
            self._tell(done, self._total if total is None else total)
        if self._lines is not None:
            self._lines.move(done, total, text)
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


def _duration(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _bar(begin: Mapping[str, Any]) -> Any:
    from tqdm import tqdm

    drawn = type("Drawn", (tqdm,), {"monitor_interval": 0})  # no thread that watches the bar
    return drawn(**begin, file=sys.stderr, leave=False, dynamic_ncols=True, miniters=1, bar_format=FORM)
