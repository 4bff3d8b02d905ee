"""No test connects anywhere but to this machine: an audit hook that refuses it, and reports it where that is caught.

Every Python process that a test starts has the hook, too, by `sitecustomize.py` beside this file. Not seen are
connections that are not made by Python's own sockets: uvloop's to a literal address, and other programs'.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # every process of a test imports this file: nothing is loaded before it is needed
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

REPORT = "LOOPBACK_REPORT"  # the variable that names the file of what was tried
RAY = "ray/dashboard/dashboard.py"  # asks which cloud this is, whatever it is told: refused, but not reported
LOOKUPS = ("socket.getaddrinfo", "socket.gethostbyname")


class LeftLoopback(Exception):
    """A test would have connected to another machine, or asked a name server."""


def refuse_others() -> None:
    """Let this process connect to this machine alone, and look up no name but its own."""
    sys.addaudithook(_on_event)


def in_processes(report: Path) -> None:
    """Have every Python process that is started from now on do the same, and report to this file."""
    os.environ[REPORT] = str(report)
    folder = __file__.rpartition(os.sep)[0]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))


def _on_event(event: str, details: tuple[Any, ...]) -> None:
    if event == "socket.connect":
        import socket

        kind, address = details[0], details[1]
        if (
            kind.family in (socket.AF_INET, socket.AF_INET6) and kind.type != socket.SOCK_DGRAM
        ):  # the latter sends nothing
            _check(event, str(address[0]), is_here)
    elif event in LOOKUPS:
        _check(event, _text(details[0]), is_known)


def _check(event: str, host: str, allowed: Any) -> None:
    if allowed(host):
        return
    said, program = f"{event} of {host!r}", " ".join(sys.argv)[:300]
    if REPORT in os.environ and RAY not in program:
        with open(os.environ[REPORT], "a", encoding="utf-8") as file:  # noqa: PTH123
            file.write(f"{said} by {program}\n")
    raise LeftLoopback(said)


def is_known(host: str) -> bool:
    """Whether what this host's address is needs no name server."""
    import socket

    return not host or host in ("localhost", socket.gethostname()) or _is_numeric(host)


def is_here(host: str) -> bool:
    """Whether a connection to this host stays on this machine: only its own addresses can be bound."""
    import socket

    if not _is_numeric(host):
        return is_known(host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as tried:
        try:
            tried.bind((host, 0))
        except OSError:
            return False
    return True


def _is_numeric(host: str) -> bool:
    import ipaddress
    import socket

    try:
        ipaddress.ip_address(host)
    except ValueError:
        try:
            socket.inet_aton(host)  # 0x7f.1, say
        except OSError:
            return False
    return True


def _text(host: object) -> str:
    return host.decode("ascii", "replace") if isinstance(host, bytes) else str(host or "")
