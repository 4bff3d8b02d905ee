"""Was the machine ours? The share of its CPU time that others used during a slice, from /proc/stat.

Sides are measured in rounds, a slice each in turn; the rounds that others disturbed least count.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from processes import TICK

CORES = len(os.sched_getaffinity(0))
QUIET = 0.06  # of the machine's CPU time may have gone to others during a slice that counts
ENOUGH = 7  # rounds that count
Round = dict[str, dict[str, Any]]  # slices that were taken one right after the other, by kind


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


def await_quiet(seconds: float) -> None:
    """Until others leave the machine alone, but not for longer."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        watch = Watch(lambda: 0.0)
        time.sleep(0.25)
        if watch.others() <= QUIET:
            return


def disturbance(one: Round) -> float:
    return max(float(kind["others"]) for kind in one.values())


def is_quiet(one: Round) -> bool:
    return disturbance(one) <= QUIET


def counting(rounds: Sequence[Round]) -> list[Round]:
    """Return the rounds that count: those that were disturbed least."""
    return sorted(rounds, key=disturbance)[:ENOUGH]
