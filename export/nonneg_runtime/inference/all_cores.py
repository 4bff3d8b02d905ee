"""The session that spreads one image over all cores: opened in the background when an image first is alone.

A server is ready sooner without it, and one that never sees a lone image never pays for it.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable

from nonneg_core import allocator
from nonneg_core.errors import CheckFailed, NonnegError
from nonneg_runtime.inference.providers import Runner

logger = logging.getLogger("nonneg")
LAST_RUNS = 10.0  # seconds in which a replaced session finishes what it is at; then its memory can be given back


class AllCoresSession:
    """`session` is there when it is open and tested; one that cannot be opened is not tried again."""

    def __init__(self) -> None:
        self.session: Runner | None = None
        self.replaced: weakref.ref[Runner] | None = None  # one that shared no weights with it
        self._begun = threading.Lock()  # never released

    @property
    def begun(self) -> bool:
        return self._begun.locked()

    def begin(self, open_it: Callable[[], Runner]) -> None:
        """Begin to open it, if that has not begun; does not wait."""
        if self._begun.acquire(blocking=False):  # no daemon, as its caller is: the process must not end during its work
            threading.Thread(target=self._open, args=(open_it,), name="wide", daemon=False).start()

    def _open(self, open_it: Callable[[], Runner]) -> None:
        try:
            self.session = open_it()
        except NonnegError as error:  # most likely the file was replaced, and a reload is to follow
            level = logging.WARNING if isinstance(error, CheckFailed) else logging.INFO
            logger.log(level, "a lone image will be computed on one core: %s", error)
        until = time.monotonic() + LAST_RUNS
        while self.replaced is not None and self.replaced() is not None and time.monotonic() < until:
            time.sleep(0.01)
        allocator.trim()
