"""Settings of the C allocator for loading models, for serving and for training.

glibc gives every thread a heap of its own, up to eight a core, and each keeps the largest bodies and pixels it ever
had: with its defaults a server's memory climbs under large photos. Two heaps are enough, and their tops are given back.
Above a megabyte blocks are mapped singly, though the kernel then clears them each time: kept in the heaps they were a
twentieth faster for photos of 12 megapixels, but under mixed images what lay between them went on growing.

A model is copied three times while it is opened, and for blocks that are mapped singly the kernel clears new pages each
time, which takes longer than all the rest: until models are open, freed blocks are kept and used again.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any

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


def _set(*wanted: tuple[int, int]) -> bool:
    mallopt = _of_glibc("mallopt")
    return mallopt is not None and all(mallopt(ctypes.c_int(name), ctypes.c_int(value)) for name, value in wanted)


def _of_glibc(name: str) -> Any:
    if sys.platform != "linux":
        return None
    try:
        return getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):  # musl has no such thing
        return None
