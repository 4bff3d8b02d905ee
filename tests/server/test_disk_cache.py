"""Vectors on the disk: they outlive the process, are shared and bounded, and a bad disk never fails a request."""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_server.engine.disk_cache import FILE, DiskCache
from nonneg_server.engine.inference_engine import InferenceEngine
from nonneg_server.engine.jobs import Encoded
from nonneg_server.engine.vector_cache import Cache, key_of

Png = Callable[[int], bytes]
MIB = 2**20


def vector(seed: int, active: int = 300) -> np.ndarray:
    rng = np.random.default_rng(seed)
    z = np.zeros(1280, np.float32)
    z[rng.choice(1280, active, replace=False)] = rng.random(active, np.float32) + 0.01
    return z


def key(number: int) -> bytes:
    return key_of("model", number.to_bytes(4, "big"))


def entries(folder: Path) -> int:
    with closing(sqlite3.connect(folder / FILE)) as connection:
        return int(connection.execute("SELECT count(*) FROM vectors").fetchone()[0])


@pytest.mark.anyio
async def test_vectors_outlive_the_shelf_to_the_last_bit(tmp_path: Path) -> None:
    disk = DiskCache(tmp_path / "new" / "folder", 8 * MIB)
    for number in range(20):
        disk.put(key(number), vector(number))
    disk.put(key(99), np.zeros(1280, np.float32))
    disk.close()
    again = DiskCache(tmp_path / "new" / "folder", 8 * MIB)
    found = await again.find([key(3), key(50), key(99), key(3)])
    assert set(found) == {key(3), key(99)}
    np.testing.assert_array_equal(found[key(3)], vector(3))
    assert not found[key(99)].any()
    assert (again.hits, again.misses, again.failures) == (2, 1, 0)
    assert again.bytes > 20 * 300 * 8
    again.close()


@pytest.mark.anyio
async def test_the_file_stays_within_its_bytes_and_the_used_stay_longest(tmp_path: Path) -> None:
    now = [1_000_000]
    disk = DiskCache(tmp_path, MIB, stale=-1, now=lambda: now[0])  # every use is written down
    for number in range(1500):
        now[0] += 1
        if number % 10 == 0:
            assert number < 20 or key(0) in await disk.find([key(0)])
        disk.put(key(number), vector(number))
        if number % 5 == 0:
            disk.flush()
    disk.flush()
    assert disk.bytes <= MIB
    assert (tmp_path / FILE).stat().st_size <= 1.2 * MIB
    assert await disk.find([key(5)]) == {}
    assert len(await disk.find([key(0), key(1499)])) == 2
    assert 200 < entries(tmp_path) < 500
    disk.close()


WRITER = """
import sys, time
from pathlib import Path
import numpy as np
from nonneg_server.engine.disk_cache import DiskCache
disk, start = DiskCache(Path(sys.argv[1]), 8 << 20), int(sys.argv[2])
for number in range(start, start + 150):
    disk.put(number.to_bytes(4, "big"), np.full(64, number + 1, np.float32))
    time.sleep(0.001)
disk.close()
assert disk.failures == 0
"""


@pytest.mark.anyio
async def test_several_processes_share_one_folder(tmp_path: Path) -> None:
    line = [sys.executable, "-c", WRITER, str(tmp_path)]
    processes = [subprocess.Popen([*line, str(100 * n)], stderr=subprocess.PIPE) for n in range(3)]
    for process in processes:
        assert process.wait(30) == 0, process.stderr.read()
        process.stderr.close()
    disk = DiskCache(tmp_path, 8 * MIB)
    found = await disk.find([number.to_bytes(4, "big") for number in range(350)])
    assert len(found) == 350
    assert all(found[number.to_bytes(4, "big")][0] == number + 1 for number in range(350))
    disk.close()


def test_a_process_killed_while_writing_leaves_a_whole_file(tmp_path: Path) -> None:
    line = [sys.executable, "-c", WRITER.replace("150", "100000"), str(tmp_path), "0"]
    with subprocess.Popen(line) as process:
        until = time.monotonic() + 60
        while time.monotonic() < until and not (tmp_path / FILE).exists():
            time.sleep(0.05)
        time.sleep(0.3)
        process.send_signal(signal.SIGKILL)
    disk = DiskCache(tmp_path, 8 * MIB)
    assert disk.failures == 0
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert entries(tmp_path) > 0
    disk.close()


@pytest.mark.anyio
async def test_a_damaged_file_is_put_aside_and_a_damaged_vector_is_unknown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_bytes(b"this is not a database at all" * 1000)
    disk = DiskCache(tmp_path, 8 * MIB)
    assert "is damaged" in caplog.text
    assert len(list(tmp_path.glob("*.broken"))) == 1
    disk.put(key(0), vector(0))
    disk.put(key(1), vector(1))
    disk.flush()
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        (body,) = connection.execute("SELECT body FROM vectors WHERE key = ?", (key(0),)).fetchone()
        connection.execute("UPDATE vectors SET body = ? WHERE key = ?", (body[:-1] + b"x", key(0)))
        connection.commit()
    assert set(await disk.find([key(0), key(1)])) == {key(1)}
    disk.close()


@pytest.mark.anyio
async def test_a_folder_that_cannot_be_used_is_said_once_and_costs_nothing_but_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    disk = DiskCache(tmp_path / "file" / "cache", 8 * MIB, rest=0.0)
    for number in range(5):
        disk.put(key(number), vector(number))
        disk.flush()
        assert await disk.find([key(number)]) == {}
    assert disk.failures > 5
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 1
    assert "serving goes on" in caplog.text
    (tmp_path / "file").unlink()
    disk.put(key(7), vector(7))  # the disk was mended: it is used again
    disk.flush()
    assert len(await disk.find([key(7)])) == 1
    disk.close()


@pytest.mark.anyio
async def test_a_writer_that_waits_for_another_process_does_not_hold_up_readers(tmp_path: Path) -> None:
    disk = DiskCache(tmp_path, 8 * MIB)
    disk.put(key(0), vector(0))
    disk.flush()
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        disk.put(key(1), vector(1))
        assert len(await asyncio.wait_for(disk.find([key(0)]), 60)) == 1  # the other process has not committed
        other.execute("COMMIT")
    disk.flush()
    assert len(await disk.find([key(1)])) == 1
    disk.close()


@pytest.mark.anyio
async def test_memory_and_disk_together_and_ways_apart(bundle: Bundle, png: Png, tmp_path: Path) -> None:
    cache = Cache(MIB, DiskCache(tmp_path, 8 * MIB))
    engine = InferenceEngine(bundle, threads=1, cache=cache)
    first = await engine.encode(png(0))
    cache.disk.flush()
    engine.close()
    cache.close()

    fresh = Cache(0, DiskCache(tmp_path, 8 * MIB))
    engine = InferenceEngine(bundle, threads=1, cache=fresh)
    again, new, twice, bad = await engine.encode_all([png(0), png(1), png(0), b"nonsense"])
    assert isinstance(again, Encoded)
    assert isinstance(twice, Encoded)
    assert isinstance(new, Encoded)
    assert not isinstance(bad, Encoded)
    np.testing.assert_array_equal(first.vector, again.vector)
    np.testing.assert_array_equal(first.vector, twice.vector)
    assert engine.stats.flush().images == 1  # only the new one was encoded
    assert (fresh.hits, fresh.misses, fresh.disk.hits) == (2, 2, 1)
    engine.close()

    exact = InferenceEngine(bundle, threads=1, cache=fresh, decode="exact")  # decoded otherwise: another vector perhaps
    await exact.encode(png(0))
    assert exact.stats.flush().images == 1
    exact.close()
    fresh.close()


def metric(address: str, name: str) -> float:
    line = next(x for x in httpx.get(f"{address}/metrics").text.splitlines() if x.startswith(name + " "))
    return float(line.split()[1])


@pytest.mark.slow
def test_a_restarted_server_remembers(start: Callable[..., Any], bundle: Bundle, png: Png, tmp_path: Path) -> None:
    flags = ("--model", str(bundle.path), "--drain", "0", "--cache-dir", str(tmp_path / "cache"))
    answers = []
    for turn in range(2):
        with start(*flags) as (address, process):
            answers.append(httpx.post(f"{address}/embed", files=[("images", png(n)) for n in range(8)]).json())
            assert metric(address, 'nonneg_images_total{model="tiny"}') == 8 * (1 - turn)
            assert metric(address, "nonneg_cache_dir_hits_total") == 8 * turn
            process.terminate()
            assert process.wait(20) == 0
            assert process.stderr.read() == ""
    assert answers[0] == answers[1]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
@pytest.mark.parametrize("trouble", ["no folder", "full"])
def test_a_server_with_an_unwritable_cache_serves_on(
    start: Callable[..., Any], bundle: Bundle, png: Png, tmp_path: Path, trouble: str
) -> None:
    folder = tmp_path / "cache"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if trouble == "no folder":
        folder.write_text("a file where the folder should be")
    else:  # no file of the server's may grow beyond this, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, limits[1]))
    try:
        flags = ("--model", str(bundle.path), "--drain", "0", "--cache-dir", str(folder))
        with start(*flags) as (address, process):
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            found = []

            def ask(first: int) -> None:
                with httpx.Client() as client:
                    bodies = map(png, range(first, first + 60))
                    found.extend([client.post(f"{address}/embed", content=body).status_code for body in bodies])

            threads = [threading.Thread(target=ask, args=(100 * n,)) for n in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert found == [200] * 240
            assert metric(address, "nonneg_cache_dir_failures_total") >= 1
            process.terminate()
            assert process.wait(20) == 0
            assert process.stderr.read().count("serving goes on") == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
