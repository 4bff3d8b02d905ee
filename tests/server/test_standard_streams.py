"""Descriptors 0, 1 and 2 belong to the server: C libraries that write there block no worker and garble no log."""

from __future__ import annotations

import io
import json
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

from nonneg_runtime.bundle.bundle_folder import Bundle

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]


def noisy_fax() -> bytes:
    """A TIFF of whose lines nearly each is broken: libtiff writes some hundred kilobytes to stderr about it."""
    rng = np.random.default_rng(0)
    buffer = io.BytesIO()
    Image.fromarray(rng.integers(0, 2, (6000, 64)).astype(bool)).save(buffer, "TIFF", compression="group4")
    data, chance = bytearray(buffer.getvalue()), random.Random(0)
    for at in range(60, len(data) - 300, 10):
        data[at] = chance.randrange(256)
    return bytes(data)


def photo() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (64, 48), (200, 90, 30)).save(buffer, "JPEG")
    return buffer.getvalue()


@contextmanager
def serving(bundle: Bundle, *arguments: str, redirect: str = "") -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server under a shell that redirects its streams; stderr is a pipe that is not read. Its port is fixed by us."""
    nonneg = Path(sys.executable).with_name("nonneg")
    with Listener() as port:
        command = (
            f'exec {nonneg} serve --model "{bundle.path}" --port {port} --drain 0 {" ".join(arguments)} {redirect}'
        )
        process = subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    address = f"http://127.0.0.1:{port}"
    try:
        until_ready(address, process)
        yield address, process
    finally:
        process.kill()
        process.communicate()


class Listener:
    """A port that is free now."""

    def __enter__(self) -> int:
        import socket

        self.socket = socket.create_server(("127.0.0.1", 0))
        return int(self.socket.getsockname()[1])

    def __exit__(self, *_: object) -> None:
        self.socket.close()


def until_ready(address: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert process.poll() is None, process.communicate()
        try:
            if httpx.get(f"{address}/readyz", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError("not ready within a minute")


def test_what_libtiff_writes_blocks_no_worker_though_the_log_is_not_read(bundle: Bundle) -> None:
    noise = noisy_fax()
    with serving(bundle, "--threads", "2") as (address, process), httpx.Client(base_url=address, timeout=20) as client:
        for _ in range(12):
            assert client.post("/embed", content=noise).status_code in (200, 422)
        assert client.post("/embed", content=photo()).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_a_json_log_holds_nothing_but_json_whatever_libraries_write(bundle: Bundle) -> None:
    arguments = ("--log-format", "json", "--log-level", "debug", "--access-log")
    with serving(bundle, *arguments) as (address, process):
        assert httpx.post(f"{address}/embed", content=noisy_fax(), timeout=20).status_code in (200, 422)
        assert httpx.post(f"{address}/embed", content=photo(), timeout=20).status_code == 200
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=20)
    assert log
    assert [json.loads(line)["message"] for line in log.splitlines()]
    assert b"Fax4Decode" not in log


@pytest.mark.parametrize("redirect", [">&- 2>&-", "<&- >&- 2>&-", "2>&-"])
def test_missing_streams_are_opened_before_a_socket_could_take_their_numbers(bundle: Bundle, redirect: str) -> None:
    with serving(bundle, redirect=redirect) as (address, process):
        opened = [str(Path(f"/proc/{process.pid}/fd/{number}").readlink()) for number in range(3)]
        assert not any("socket" in path or "eventpoll" in path for path in opened), opened
        assert httpx.post(f"{address}/embed", content=noisy_fax(), timeout=20).status_code in (200, 422)
        assert httpx.post(f"{address}/embed", content=photo(), timeout=20).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_a_full_standard_output_does_not_keep_a_server_from_serving(bundle: Bundle) -> None:
    with serving(bundle, redirect=">/dev/full") as (address, process):
        assert httpx.post(f"{address}/embed", content=photo(), timeout=20).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


def test_a_server_that_cannot_start_still_says_why_on_standard_error(bundle: Bundle, tmp_path: Path) -> None:
    nonneg = str(Path(sys.executable).with_name("nonneg"))
    command = [nonneg, "serve", "--model", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert re.search(r"^Error: .*none", done.stderr, re.MULTILINE)


def test_missing_streams_do_no_harm_to_a_file_that_a_command_writes(tmp_path: Path) -> None:
    script = "from nonneg_core.process.start_up import open_missing_streams; import os; open_missing_streams(); "
    script += "found = os.open('made', os.O_CREAT | os.O_RDWR); os.write(2, b'noise'); assert found > 2"
    done = subprocess.run(["bash", "-c", f'{sys.executable} -c "{script}" <&- >&- 2>&-'], cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert (tmp_path / "made").read_bytes() == b""
