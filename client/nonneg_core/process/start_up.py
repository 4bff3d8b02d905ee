"""What happens first in a process: missing standard streams, no usage reports, names that are loaded when used.

What is opened first would become descriptor 0, 1 or 2: a socket, or a file of vectors, into which libraries then write
their messages.
"""

import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def open_missing_streams() -> None:
    """Open those of descriptors 0, 1 and 2 that are closed, and give Python the streams that it therefore lacks."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            descriptor = os.open(os.devnull, os.O_RDWR)
            if (
                descriptor != number
            ):  # cannot be, as the lowest free number is taken; were it so, 0 to 2 would be in order
                os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


# Usage reports of the runtimes are turned off: some send them to their makers by default.
#
# ONNX Runtime does so from 1.29 on, with names and hashes of models; it reads the variable when it is loaded. Each
# package of ours that uses it therefore calls this first. With the variable at 0 they are sent.

VARIABLE = "ORT_DISABLE_TELEMETRY"


def refuse() -> None:
    """Turn off ONNX Runtime's usage reports, unless its environment variable is set."""
    os.environ.setdefault(VARIABLE, "1")


# Packages whose public names are loaded when they are first used: importing such a package costs next to nothing.


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make the `__getattr__` and the `__dir__` of a package; `homes`: the module of each public name."""

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted(homes)
