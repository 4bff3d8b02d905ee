"""Logging never waits, whether the log is read or not."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from nonneg_server.observation.logs import MOST, NonBlockingHandler

pytestmark = pytest.mark.slow


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        with suppress(OSError):
            os.close(end)


def logger_to(handler: NonBlockingHandler) -> logging.Logger:
    made = logging.Logger("handler")
    made.addHandler(handler)
    return made


def read_until(number: int, ending: bytes, seconds: float = 10) -> bytes:
    found, until = b"", time.monotonic() + seconds
    while not found.endswith(ending) and time.monotonic() < until:
        found += os.read(number, 1 << 16)
    return found


def test_lines_are_written_whole_and_in_order_from_many_threads(pipe: tuple[int, int]) -> None:
    handler = NonBlockingHandler(pipe[1])
    log = logger_to(handler)
    writers = [
        threading.Thread(target=lambda name=name: [log.warning("%s %d", name, n) for n in range(200)])
        for name in "abcd"
    ]
    for writer in writers:
        writer.start()
    found = b""
    while found.count(b"\n") < 800:
        found += os.read(pipe[0], 1 << 16)
    for name in "abcd":
        assert [line for line in found.decode().splitlines() if line[0] == name] == [f"{name} {n}" for n in range(200)]
    assert handler.lost == 0


def fill(number: int) -> int:
    """Write to a pipe until it takes no more, so that the next writer waits from its first byte on."""
    os.set_blocking(number, False)
    written = 0
    with suppress(BlockingIOError):
        while True:
            written += os.write(number, b"." * 4096)
    os.set_blocking(number, True)
    return written


def test_who_logs_does_not_wait_and_what_is_lost_is_counted_and_told(pipe: tuple[int, int]) -> None:
    before = fill(pipe[1])
    handler = NonBlockingHandler(pipe[1])
    log, line = logger_to(handler), "x" * 999
    for _ in range(2000):
        log.warning(line)
    lost = handler.lost
    kept = 2000 - lost
    assert kept in (MOST, MOST + 1)  # one more where the writer took one already
    found = b""
    while found.count(b"\n") < kept + 1:  # the lines that were kept, and one that tells of the others
        found += os.read(pipe[0], 1 << 16)
    lines = found[before:].decode().splitlines()
    told = f"{lost} lines of the log before this one were lost: they were not read in time"
    assert sorted(lines) == sorted([line] * kept + [told])
    log.warning("and on")
    assert read_until(pipe[0], b"and on\n") == b"and on\n"


def test_flush_waits_for_the_reader_but_not_for_long(pipe: tuple[int, int]) -> None:
    handler = NonBlockingHandler(pipe[1])
    log = logger_to(handler)
    log.warning("last words")
    handler.flush()
    assert os.read(pipe[0], 100) == b"last words\n"
    for _ in range(200):
        log.warning("x" * 999)
    handler.flush()  # it comes back, although the pipe is full and is not read
    assert len(os.read(pipe[0], 1 << 20)) >= 60_000


def test_a_reader_that_is_gone_costs_lines_and_nothing_else(pipe: tuple[int, int]) -> None:
    handler = NonBlockingHandler(pipe[1])
    log = logger_to(handler)
    os.close(pipe[0])
    for n in range(3):
        log.warning("unread %d", n)
        handler.flush()
    assert handler.lost == 3


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_costs_lines_and_nothing_else() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:
        handler = NonBlockingHandler(full.fileno())
        log = logger_to(handler)
        log.warning("no room")
        handler.flush()
        assert handler.lost == 1


def test_a_server_whose_log_is_not_read_answers_and_leaves_in_time() -> None:
    command = [str(Path(sys.executable).with_name("nonneg")), "serve", "--port", "0", "--access-log"]
    command += ["--log-format", "json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        address = "http://" + process.stdout.readline().split(b"http://")[1].split()[0].decode()
        with httpx.Client(base_url=address, timeout=10) as client:
            for number in range(3000):  # some 200 bytes each, of which the pipe takes 64 KiB
                assert client.get(f"/livez?{number}").status_code == 200
            metrics = client.get("/metrics").text
        lost = float(metrics.split("\nnonneg_log_lines_lost_total ")[1].split()[0])
        assert lost > 100
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        lines = process.stderr.read().splitlines()
        assert lines
        assert all(line.startswith(b"{") for line in lines[:200])
    finally:
        process.kill()
        process.stdout.close()
        process.stderr.close()
