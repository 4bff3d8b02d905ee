"""What the default server costs a machine, and what it says when it starts."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from nonneg_client import Client

pytestmark = pytest.mark.slow
NONNEG = str(Path(sys.executable).with_name("nonneg"))
MEBIBYTE = 2**20


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the resident memory from /proc")
def test_the_default_server_stays_under_200_megabytes_and_starts_without_a_warning(photos: Path) -> None:
    files = sorted(photos.rglob("*.jpg"))
    process = subprocess.Popen(
        [NONNEG, "serve", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = re.search(r"http://\S+:\d+", line)
        assert url, line
        with Client(url[0]) as client:
            for _ in range(5):
                client.embed(files)
        status = Path(f"/proc/{process.pid}/status").read_text()
    finally:
        process.terminate()
        out, err = process.communicate(timeout=20)
    resident = int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]
    assert resident <= 200 * MEBIBYTE, f"{resident / MEBIBYTE:.0f} MiB"
    assert (out, err) == ("", ""), "a normal start and stop is one line"
    assert process.returncode == 0


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads the processor time from /proc")
def test_a_start_is_ready_after_less_than_a_second_of_a_core() -> None:
    def imports() -> float:  # of what every server of this kind imports: how fast this core is just now
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", "import fastapi, onnxruntime"], check=True, timeout=60)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def once() -> float:
        process = subprocess.Popen([NONNEG, "serve", "--port", "0"], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert "http://" in process.stdout.readline()
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2].split()
        process.terminate()
        process.communicate(timeout=60)
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    pairs = [(once(), imports()) for _ in range(5)]  # of the processor: how long one waits for a core is not counted
    assert any(start < max(1, 3 * usual) for start, usual in pairs), pairs
