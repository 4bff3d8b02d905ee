"""Filters known, useless lines out of what native code writes to standard error while something starts."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

STANDARD_ERROR = 2


@contextmanager
def without_line(known: str) -> Iterator[None]:
    """Hold back standard error of the whole process, and pass on at the end what does not contain `known`."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held:
        before = os.dup(STANDARD_ERROR)
        os.dup2(held.fileno(), STANDARD_ERROR)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(before, STANDARD_ERROR)
            os.close(before)
            held.seek(0)
            for line in held:
                if known.encode() not in line:
                    os.write(STANDARD_ERROR, line)
