"""A Ray cluster: joined, or started on this machine's cores without its known, useless lines, and left again."""

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from importlib import import_module
from typing import Any

from nonneg_core.errors import ConnectionFailed
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_core.process.python_child import PLACE
from nonneg_core.terminal.installing import needing

STANDARD_ERROR = 2


@contextmanager
def without_line(known: str) -> Iterator[None]:
    """Hold back standard error of the whole process, and pass on at the end what does not contain `known`."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as buffer:
        before = os.dup(STANDARD_ERROR)
        os.dup2(buffer.fileno(), STANDARD_ERROR)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(before, STANDARD_ERROR)
            os.close(before)
            buffer.seek(0)
            for line in buffer:
                if known.encode() not in line:
                    os.write(STANDARD_ERROR, line)


THIS_MACHINE = "local"  # the address that starts a cluster of this machine alone
LOG_LEVEL = "RAY_BACKEND_LOG_LEVEL"


@contextmanager
def joined(address: str) -> Iterator[Any]:
    """Join the cluster at an address, or start one on this machine; give the package `ray`, connected."""
    ray = import_ray()
    shown = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": True}
    started = {"num_cpus": available_cores(), "include_dashboard": False} if address == THIS_MACHINE else {}
    try:
        # Ray says a line of the variable that keeps it silent; its workers look for modules first where it is called
        with without_line(LOG_LEVEL), chdir(PLACE):
            ray.init(address, ignore_reinit_error=True, **shown, **started)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ConnectionFailed(
            f"no Ray cluster answers at {address} ({error})",
            fix=f"start it, `ray start --head`, or name {THIS_MACHINE} for this machine alone",
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def import_ray() -> Any:
    """Return the package with its data part; MissingExtra where it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it reports to its makers otherwise
    os.environ.setdefault("RAY_DATA_LOG_LEVEL", "ERROR")  # it speaks of itself otherwise
    os.environ.setdefault(LOG_LEVEL, "fatal")  # errors that matter come as exceptions
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")  # each lost worker takes a paragraph on standard output
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or it warns of a change to come
    with needing("a Ray cluster", extra="ray"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray = import_module("ray")
        import_module("ray.data")
    return ray
