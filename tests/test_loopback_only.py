"""The watch over all tests sees what would leave this machine, and lets through what does not."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

OTHERS = ["socket.create_connection(('203.0.113.1', 9), 0.1)", "socket.getaddrinfo('nonneg.example', 80)"]
OWN = [
    "socket.getaddrinfo('localhost', 80)",
    "socket.getaddrinfo('203.0.113.1', 80)",  # no name server is asked
    "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('203.0.113.1', 9))",  # nothing is sent
]


@pytest.mark.parametrize("call", OTHERS)
def test_a_process_of_a_test_that_leaves_this_machine_is_reported_even_where_it_catches_that(
    call: str, tmp_path: Path
) -> None:
    report = tmp_path / "report"
    code = f"import socket\ntry: {call}\nexcept Exception as error: print(type(error).__name__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "LOOPBACK_REPORT": str(report)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "LeftLoopback\n"
    assert ("203.0.113.1" if "203" in call else "nonneg.example") in report.read_text()


@pytest.mark.parametrize("call", OWN)
def test_what_stays_on_this_machine_is_let_through(call: str, tmp_path: Path) -> None:
    report = tmp_path / "report"
    env = {**os.environ, "LOOPBACK_REPORT": str(report)}
    code = f"import socket\ntry: {call}\nexcept OSError: pass"  # a machine without a route
    subprocess.run([sys.executable, "-c", code], env=env, timeout=60, check=True)
    assert not report.exists()


def test_this_process_connects_to_itself_and_to_unix_sockets(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()):
        pass
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        client.connect(str(tmp_path / "socket"))
