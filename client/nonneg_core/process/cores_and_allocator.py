"""How many cores this process may really use, and the settings of the C allocator."""

import ctypes
import gc
import math
import os
import sys
from pathlib import Path, PurePosixPath
from typing import Any

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
    quotas = [quota for folder in _folders(root) if (quota := _quota(folder)) is not None]
    return min(quotas, default=None)


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


# Settings of the C allocator for loading models, for serving and for training.
#
# glibc gives every thread a heap of its own, up to eight a core, and each keeps the largest bodies and pixels it ever
# had: with its defaults a server's memory climbs under large photos. Two heaps are enough, and their tops are given
# back. Above a megabyte blocks are mapped singly, though the kernel then clears them each time: kept in the heaps
# they were a twentieth faster for photos of 12 megapixels, but under mixed images what lay between them went on
# growing.
#
# A model is copied three times while it is opened, and for blocks that are mapped singly the kernel clears new pages
# each time, which takes longer than all the rest: until models are open, freed blocks are kept and used again.

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # glibc's malloc.h
MAP_FROM = 2**20  # bytes from which a block is mapped by itself, and returned at once
KEEP = 8 * 2**20  # bytes a heap may keep at its top
ARENAS = 2
MOST_MAPPED_FROM = 2**25  # the highest that every glibc takes


def tune_for_loading() -> bool:
    """Tune for opening models, before there are threads; True where the allocator is glibc's and took the settings."""
    return _set((_ARENA_MAX, ARENAS), (_MMAP_THRESHOLD, MOST_MAPPED_FROM), (_TRIM_THRESHOLD, 2**30))


def tune_for_serving() -> bool:
    """Tune for serving images; False where the allocator is not glibc's."""
    return _set((_ARENA_MAX, ARENAS), (_MMAP_THRESHOLD, MAP_FROM), (_TRIM_THRESHOLD, KEEP))


def tune_for_training() -> bool:
    """Keep what a step frees, in one heap: the next step asks for the same again.

    By default each large tensor is mapped afresh and given back: tens of thousands of page faults a step, a sixth of
    its time on a CPU.
    """
    return _set((_ARENA_MAX, 1), (_MMAP_THRESHOLD, 2**31 - 1), (_TRIM_THRESHOLD, 2**31 - 1))


def give_back() -> None:
    """Free what an unloaded or replaced model held: a session of the runtime is part of a reference cycle."""
    gc.collect()
    trim()


def trim() -> None:
    """Give back what loading a model took and no longer needs: 15 MB with the default one."""
    malloc_trim = _of_glibc("malloc_trim")
    if malloc_trim is not None:
        malloc_trim(ctypes.c_size_t(0))


def free_bytes() -> int:
    """Return bytes that the heaps hold for nothing, as glibc counts them: also those that were given back already."""
    mallinfo = _of_glibc("mallinfo2")  # since glibc 2.33
    if mallinfo is None:
        return 0
    mallinfo.restype = _Mallinfo
    return int(mallinfo().fordblks)


class _Mallinfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


def _set(*options: tuple[int, int]) -> bool:
    mallopt = _of_glibc("mallopt")
    return mallopt is not None and all(mallopt(ctypes.c_int(name), ctypes.c_int(value)) for name, value in options)


def _of_glibc(name: str) -> Any:
    if sys.platform != "linux":
        return None
    try:
        return getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):  # musl has no such thing
        return None
