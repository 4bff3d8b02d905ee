"""How many cores this process may really use: what the container grants, not what the host has."""

from __future__ import annotations

import math
import os
from pathlib import Path, PurePosixPath

ROOT = Path("/")


def available_cores(root: Path = ROOT) -> int:
    """Return whole cores to plan for: CPU affinity (cpusets included), capped by the cgroup's quota, at least 1."""
    limits = [float(affinity())]
    quota = cgroup_quota(root)
    if quota is not None:
        limits.append(quota)
    return max(1, math.ceil(min(limits)))


def affinity() -> int:
    """Return the CPUs the scheduler lets this process run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # macOS and Windows have no affinity to ask for


def cgroup_quota(root: Path = ROOT) -> float | None:
    """Return CPU time per second that the tightest enclosing cgroup allows; None when nothing limits it."""
    found = [quota for folder in _folders(root) if (quota := _quota(folder)) is not None]
    return min(found, default=None)


def _folders(root: Path) -> list[Path]:
    """List this process's cgroup (v2, or v1's cpu controller) and all above it, as this mount namespace has them."""
    base = root / "sys/fs/cgroup"
    folders: list[Path] = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            mounts = [base]
        elif "cpu" in controllers.split(","):
            mounts = [base / "cpu", base / "cpu,cpuacct"]
        else:
            continue
        inside = PurePosixPath(path.lstrip("/"))
        folders += [mount / step for mount in mounts for step in (inside, *inside.parents)]
    return folders


def _quota(folder: Path) -> float | None:
    if limit := _text(folder / "cpu.max").split():  # v2: "50000 100000" or "max 100000"
        quota, period = limit[0], limit[1] if len(limit) > 1 else "100000"
    else:  # v1: one number a file, -1 for no limit
        quota, period = _text(folder / "cpu.cfs_quota_us").strip(), _text(folder / "cpu.cfs_period_us").strip()
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return None
    return int(quota) / int(period)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
