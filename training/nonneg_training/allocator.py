"""Have glibc keep what a step frees: the next one asks for the same again.

By default each large tensor is mapped afresh and given back: tens of thousands of page faults a step, a sixth of its
time on a CPU. One arena for all threads, so that what one freed another can use.
"""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # malloc.h
LARGEST = 2**31 - 1


def keep_freed_memory() -> None:
    """For this process, from now on; does nothing where there is no glibc."""
    if not sys.platform.startswith("linux"):
        return
    try:
        library = ctypes.CDLL("libc.so.6")
    except OSError:  # another C library
        return
    for option, value in ((M_ARENA_MAX, 1), (M_MMAP_THRESHOLD, LARGEST), (M_TRIM_THRESHOLD, LARGEST)):
        library.mallopt(option, value)
