"""Was the machine ours? The share of its CPU time that others used during a slice, from /proc/stat."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from processes import TICK

CORES = len(os.sched_getaffinity(0))


class Watch:
    """From its making to `others()`: how much of the cores went to processes that are not `ours`."""

    def __init__(self, ours: Callable[[], float]) -> None:
        self._ours = ours
        self._before = _stat(), self._mine()

    def others(self) -> float:
        (busy_before, total_before), mine_before = self._before
        busy, total = _stat()
        spent = (busy - busy_before) / TICK - (self._mine() - mine_before)
        return max(0.0, spent / max(1e-9, (total - total_before) / TICK))

    def _mine(self) -> float:
        times = os.times()
        return self._ours() + times.user + times.system


def _stat() -> tuple[float, float]:
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4], float(sum(fields))
