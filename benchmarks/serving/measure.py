"""One contestant, measured: cold start, memory, one client, eight, thirty-two; or overloaded."""

from __future__ import annotations

import json
import os
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
from processes import Server, running


@dataclass(frozen=True)
class Plan:
    """What is the same for everybody."""

    bundle: Path
    photos: Path
    bodies: list[bytes]
    size: str
    seconds: float
    home: Path  # environments and logs


@contextmanager
def started(contestant: Contestant, plan: Plan) -> Iterator[Server]:
    command = contestant.prepared(plan.home)
    model = {"BUNDLE": str(plan.bundle), "PYTHONPATH": SOURCES} if contestant.requirements else {}
    environment = {"NONNEG_MODEL": str(plan.bundle), **model, **dict(contestant.environment)}
    log = plan.home / f"{contestant.name}.log"
    with running(command, contestant.path, plan.bodies[0], env=environment, cwd=HERE / "peers", log=log) as server:
        yield server


def throughput(contestant: Contestant, plan: Plan, clients: tuple[int, ...] = (1, 8, 32)) -> dict[str, Any]:
    """Closed loops of several widths, with the CPU time an image costs the server."""
    with started(contestant, plan) as server:
        found: dict[str, Any] = {"cold_start_s": server.cold_start}
        load.run(server.url, plan.bodies, clients=8, seconds=1.0)  # warm every worker
        for count in clients:
            cpu = server.cpu_seconds()
            summary = load.run(server.url, plan.bodies, clients=count, seconds=plan.seconds)
            summary["cpu_ms_per_image"] = round(1000 * (server.cpu_seconds() - cpu) / max(1, summary["ok"]), 3)
            found[f"c{count}"] = summary
        found["pss_mb"] = server.pss_mb()
    return found


def overload(contestant: Contestant, plan: Plan, *, times: float, seconds: float) -> dict[str, Any]:
    """An open loop at so many times the peak: what is still answered, how fast, and how the rest is refused."""
    with started(contestant, plan) as server:
        load.run(server.url, plan.bodies, clients=8, seconds=1.0)
        peak = load.run(server.url, plan.bodies, clients=32, seconds=plan.seconds)
        flood = load.run(server.url, plan.bodies, rate=peak["rate"] * times, seconds=seconds)
        after = load.run(server.url, plan.bodies, clients=8, seconds=plan.seconds)
        memory = server.pss_mb()
    return {"peak": peak, "flood": flood, "after": after, "pss_mb": memory, "goodput": flood["rate"] / peak["rate"]}


def limit(plan: Plan, *, naive: bool = False) -> dict[str, Any]:
    """The in-process limit, in a process of its own."""
    command = [sys.executable, "limit.py", str(plan.bundle), str(plan.photos), str(plan.seconds), plan.size]
    out = subprocess.run(
        [*command, *(["naive"] if naive else [])], cwd=HERE, env=dict(os.environ), check=True, capture_output=True
    )
    time.sleep(0.2)
    found: dict[str, Any] = json.loads(out.stdout)
    return found
