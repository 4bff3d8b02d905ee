"""The C allocator, told to give back what images took, and to keep what opening a model frees.

glibc raises the size from which it maps memory singly to that of the largest block it ever freed, up to 32 MB: bodies
and pixels then live in its heaps, which fragment and never shrink. Measured under photos of 2.4 MB: 259 MB resident and
climbing with its defaults, 112 MB and flat with these.

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


def gather() -> bool:
    """For opening models, before there are threads; True where the allocator is glibc's and took the settings."""
    return _set((_ARENA_MAX, ARENAS), (_MMAP_THRESHOLD, MOST_MAPPED_FROM), (_TRIM_THRESHOLD, 2**30))


def settle() -> bool:
    """For serving images; True as above."""
    return _set((_ARENA_MAX, ARENAS), (_MMAP_THRESHOLD, MAP_FROM), (_TRIM_THRESHOLD, KEEP))


def give_back() -> None:
    """Free what a model held that rests, was replaced or unloaded: a session of the runtime stands in a cycle."""
    gc.collect()
    trim()


def trim() -> None:
    """Give back what loading a model took and no longer needs: 15 MB with the default one."""
    malloc_trim = _of_glibc("malloc_trim")
    if malloc_trim is not None:
        malloc_trim(ctypes.c_size_t(0))


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
