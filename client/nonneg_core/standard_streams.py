"""Standard streams that are missing, opened on /dev/null before anything else can take their numbers.

What is opened first would become descriptor 0, 1 or 2: a socket, or a file of vectors, into which libraries then write
their messages.
"""

from __future__ import annotations

import os
import sys


def open_missing_streams() -> None:
    """Open those of descriptors 0, 1 and 2 that are closed, and give Python the streams that it therefore lacks."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            found = os.open(os.devnull, os.O_RDWR)
            if found != number:  # cannot be, as the lowest free number is taken; were it so, 0 to 2 would be in order
                os.close(found)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
