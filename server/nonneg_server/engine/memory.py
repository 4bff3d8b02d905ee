"""The C allocator, told to give back what images took.

glibc raises the size from which it maps memory singly to that of the largest block it ever freed, up to 32 MB: bodies
and pixels then live in its heaps, which fragment and never shrink. Measured under photos of 2.4 MB: 259 MB resident and
climbing with its defaults, 112 MB and flat with these.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # glibc's malloc.h
MAP_FROM = 2**20  # bytes from which a block is mapped by itself, and returned at once
KEEP = 8 * 2**20  # bytes a heap may keep at its top
ARENAS = 2


def settle() -> bool:
    """True where the allocator is glibc's and took the settings; elsewhere nothing is done."""
    mallopt = _of_glibc("mallopt")
    if mallopt is None:
        return False
    wanted = ((_MMAP_THRESHOLD, MAP_FROM), (_TRIM_THRESHOLD, KEEP), (_ARENA_MAX, ARENAS))
    return all(mallopt(ctypes.c_int(name), ctypes.c_int(value)) for name, value in wanted)


def trim() -> None:
    """Give back what loading a model took and no longer needs: 15 MB with the default one."""
    malloc_trim = _of_glibc("malloc_trim")
    if malloc_trim is not None:
        malloc_trim(ctypes.c_size_t(0))


def _of_glibc(name: str) -> Any:
    if sys.platform != "linux":
        return None
    try:
        return getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):  # musl has no such thing
        return None
