"""Slices of a second or two, of a server and of the in-process limit, and a server overloaded."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import load
from contestants import HERE, SOURCES, Contestant
from processes import TICK, Server, running
from quiet import Watch


@dataclass(frozen=True)
class Plan:
    """What is the same for every contestant."""

    bundle: Path
    photos: Path
    bodies: list[bytes]
    size: str
    seconds: float  # of a slice
    home: Path  # environments and logs
    naive: bool = False  # also the limit when every JPEG is decoded whole


@contextmanager
def started(contestant: Contestant, plan: Plan) -> Iterator[Server]:
    command = contestant.prepared(plan.home)
    sources = {"PYTHONPATH": SOURCES} if contestant.requirements else {}
    model = {"NONNEG_MODEL": str(plan.bundle), "BUNDLE": str(plan.bundle)}
    environment = {**model, **sources, **dict(contestant.environment)}
    log = plan.home / f"{contestant.name}.log"
    with running(command, contestant.path, plan.bodies[0], env=environment, cwd=HERE / "peers", log=log) as server:
        yield server


def slice_of(server: Server, plan: Plan, clients: int) -> dict[str, Any]:
    """Run one closed loop; return what it did, with the server's CPU time and what other processes used meanwhile."""
    load.run(server.url, plan.bodies, clients=clients, seconds=0.2)
    watch, cpu = Watch(server.cpu_seconds), server.cpu_seconds()
    found = load.run(server.url, plan.bodies, clients=clients, seconds=plan.seconds)
    found["cpu_ms_per_image"] = round(1000 * (server.cpu_seconds() - cpu) / max(1, found["ok"]), 3)
    found["others"] = round(watch.others(), 3)
    return found


class Limit:
    """The in-process limit, in a process of its own."""

    def __init__(self, plan: Plan) -> None:
        command = [sys.executable, "limit.py", str(plan.bundle), str(plan.photos), plan.size]
        self._process = subprocess.Popen(command, cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()

    def slice(self, seconds: float, kind: str = "job") -> dict[str, Any]:
        """Return how often that kind of work is done; those of `limit.py`."""
        watch = Watch(self._cpu_seconds)
        self._say(f"{kind} {seconds}\n")
        found: dict[str, Any] = json.loads(self._answer())
        found["others"] = round(watch.others(), 3)
        return found

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(10)

    def _cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def _say(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def overload(contestant: Contestant, plan: Plan, *, times: float, seconds: float) -> dict[str, Any]:
    """Run an open loop at so many times the peak: what is still answered, how fast, and how the rest is refused."""
    with started(contestant, plan) as server:
        load.run(server.url, plan.bodies, clients=8, seconds=1.0)
        peak = slice_of(server, plan, 32)
        watch = Watch(server.cpu_seconds)
        flood = load.run(server.url, plan.bodies, rate=peak["rate"] * times, seconds=seconds)
        flood["others"] = round(watch.others(), 3)
        time.sleep(1)
        after = slice_of(server, plan, 32)
        memory = server.pss_mb()
    best = max(peak["rate"], after["rate"])
    return {"peak": peak, "flood": flood, "after": after, "pss_mb": memory, "goodput": flood["rate"] / best}
