"""A process that is told to end ends: while it loads, with clients who do not finish, with a thread that hangs."""

import json
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from nonneg_core.pixels.decoder_process import LONGEST
from nonneg_core.pixels.pricing.price import MAX_SECONDS
from nonneg_runtime.bundle.bundle_folder import Bundle

pytestmark = [pytest.mark.slow, pytest.mark.waits]
HEAD = b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: 1000\r\n\r\n"

SLOW = """
import time
from nonneg_cli.table import main
from nonneg_server.models.served_models import Repository

def load_all(self):
    print("loading", flush=True)
    time.sleep(60)

Repository.load_all = load_all
main()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="signals of POSIX")
def test_while_it_loads_a_hangup_is_nothing_and_sigterm_ends_it_with_0(tmp_path: Path) -> None:
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    line = [sys.executable, str(script), "serve", "--port", "0"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.terminate()
        assert process.communicate(timeout=20) == ("", "")
        assert process.returncode == 0


def test_who_does_not_finish_within_the_grace_period_hears_why(start: Callable, bundle: Bundle) -> None:
    with start("--model", str(bundle.path), "--drain", "0", "--grace", "1") as (address, process):
        parts = urlsplit(address)
        with socket.create_connection((parts.hostname, parts.port), timeout=20) as connection:
            connection.sendall(HEAD + b"half")
            until = time.monotonic() + 60
            while "\nnonneg_upload_bytes 0.0\n" in httpx.get(f"{address}/metrics").text:  # it has read the half
                assert time.monotonic() < until
            process.terminate()
            received = b""
            while piece := connection.recv(65536):
                received += piece
        assert process.wait(20) == 0
        assert received.startswith(b"HTTP/1.1 503 ")
        assert json.loads(received.partition(b"\r\n\r\n")[2])["error"]["type"] == "not_ready"
        log = process.stderr.read()
        assert "cut off: 1 of the clients" in log
        assert "Traceback" not in log


def test_who_takes_no_answers_holds_up_the_end_no_longer_than_the_grace_period(start: Callable, bundle: Bundle) -> None:
    with start("--model", str(bundle.path), "--drain", "0", "--grace", "1") as (address, process):
        parts = urlsplit(address)
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect((parts.hostname, parts.port))
            deaf.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)  # some 30 MB of answers
            until = time.monotonic() + 30
            while "\nnonneg_upload_bytes 0.0\n" in httpx.get(f"{address}/metrics").text:  # none waits for it yet
                assert time.monotonic() < until
                time.sleep(0.05)
            process.terminate()
            assert process.wait(60) == 0
        assert "Cancel" not in process.stderr.read()


HANGING = """
import signal, time
from nonneg_cli.table import main
from nonneg_server.startup import serve_command

original = serve_command.repository_of

def repository_of(*given, **named):
    repository = original(*given, **named, stall_seconds=1)
    pool = repository.registry.workers.pool
    signal.signal(signal.SIGUSR1, lambda *_: pool.submit(lambda: time.sleep(600)))
    return repository

serve_command.repository_of = repository_of
main()
"""


@pytest.mark.parametrize("told", [False, True])
def test_a_thread_that_hangs_keeps_no_process_alive(
    start: Callable, bundle: Bundle, tmp_path: Path, told: bool
) -> None:
    script = tmp_path / "hanging.py"
    script.write_text(HANGING)
    flags = ("--model", str(bundle.path), "--drain", "0", "--grace", "1")
    with start(*flags, command=(str(script),)) as (address, process):
        assert httpx.get(f"{address}/livez").status_code == 200
        process.send_signal(signal.SIGUSR1)
        if told:
            process.terminate()
        assert process.wait(60) == 1
        log = process.stderr.read()
        assert ("has been running for more than 1 s" in log) is not told
        assert "time.sleep(600)" in log or 'hanging.py", line' in log, "where it hangs is told"


def held() -> bytes:
    """A BMP of 49 megapixels whose lines end after one point: the rest of each is filled in Python, one by one."""
    side = 7_000
    head = struct.pack("<IiiHHIIiiII", 40, side, side, 1, 8, 1, 0, 0, 0, 256, 0)
    return b"BM" + struct.pack("<IHHI", 0, 0, 0, 54 + 1024) + head + bytes(1024) + b"\1\5\0\0" * side


def test_an_image_that_holds_up_its_decoder_is_refused_and_the_server_goes_on(
    start: Callable, bundle: Bundle, png: Callable[[int], bytes]
) -> None:
    with start("--model", str(bundle.path)) as (address, process):
        for _ in range(2):
            refused = httpx.post(f"{address}/embed", content=held(), timeout=120)
            error = refused.json()["error"]
            assert (refused.status_code, error["type"], error["field"]) == (413, "image_too_large", "seconds")
            assert error["limit"] in (MAX_SECONDS, LONGEST)  # the latter where other work has the cores
            assert httpx.post(f"{address}/embed", content=png(0), timeout=60).status_code == 200
            assert httpx.get(f"{address}/livez").status_code == 200
        assert process.poll() is None


GONE_AT = """
import atexit, os, threading, time
from nonneg_server.startup import server_process

def began():
    told = time.monotonic()
    while True:
        with open(os.environ["BEATS"], "a") as file:  # a line is there whole or not at all when the process ends
            print(time.monotonic() - told, file=file)
        time.sleep(0.01)

stacks = server_process.thread_stacks
server_process.thread_stacks = lambda: threading.Thread(target=began, daemon=True).start() or stacks()
"""


def test_a_process_with_a_stuck_thread_is_gone_within_two_seconds_whatever_its_clients_do(
    start: Callable, bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, beats = tmp_path / "hanging.py", tmp_path / "beats"
    script.write_text(GONE_AT + HANGING)
    monkeypatch.setenv("BEATS", str(beats))
    flags = ("--model", str(bundle.path), "--drain", "30", "--grace", "30")
    with start(*flags, command=(str(script),)) as (address, process), socket.socket() as deaf, socket.socket() as slow:
        parts = urlsplit(address)
        for connection in (deaf, slow):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((parts.hostname, parts.port))
        slow.sendall(HEAD + b"half")
        deaf.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
        process.send_signal(signal.SIGUSR1)
        assert process.wait(60) == 1
    assert (
        0.3 < float(beats.read_text().splitlines()[-1]) < 2
    )  # by the clock of the process: a busy machine delays what reads its end
