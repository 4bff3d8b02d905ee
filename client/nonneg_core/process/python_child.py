"""How a Python process of ours is started: nothing in the current folder, where others' photos may lie, is code."""

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

PLACE = os.path.abspath(os.sep)  # noqa: PTH100  where children work: nothing is written there


def start_python(
    module: str, *arguments: str, env: Mapping[str, str] | None = None, **how: Any
) -> subprocess.Popen[bytes]:
    """Start `python -m module` with what `env` adds to the environment; `how` are options of `subprocess.Popen`."""
    command = [sys.executable, "-P", "-m", module, *arguments]
    return subprocess.Popen(command, cwd=PLACE, env=_environment() | dict(env or {}), **how)


def _environment() -> dict[str, str]:
    """Return our own environment with a search path that names no current folder."""
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    if "PYTHONPATH" in environment:  # an empty entry stands for the current folder
        entries = filter(None, environment["PYTHONPATH"].split(os.pathsep))
        environment["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, entries))
    return environment
