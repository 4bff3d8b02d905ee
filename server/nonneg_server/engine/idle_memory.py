"""An idle server gives back what its heaps kept of a burst of large photos."""

from __future__ import annotations

from collections.abc import Iterable

from nonneg_core import allocator
from nonneg_server.engine.admission import Admission

QUIET = 5.0  # seconds without an image
MUCH = 16 * 2**20  # bytes; less is soon taken again


class Idle:
    """Looks once a second, on the event loop, which has nothing else to do when it acts."""

    def __init__(self) -> None:
        self._entered = 0
        self._since: float | None = None  # when an image was last seen; None if all is given back

    def look(self, now: float, gates: Iterable[Admission]) -> None:
        busy, entered = 0, 0
        for gate in set(gates):
            busy, entered = busy + gate.images, entered + gate.entered
        if busy or entered != self._entered:
            self._entered, self._since = entered, now
        elif self._since is not None and now - self._since >= QUIET:
            self._since = None
            if allocator.free_bytes() >= MUCH:
                allocator.trim()
