"""Shards made by workers on Ray: those of a single process, byte for byte, also when a worker dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nonneg_client import Embeddings
from nonneg_client.data_set import bundle_copy, on_ray
from nonneg_client.embedder import Model
from nonneg_core.errors import ConfigInvalid

pytest.importorskip("ray")
MODEL = "photo-fast"


@pytest.fixture(scope="module")
def source(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every photo three times, and a broken one."""
    folder = tmp_path_factory.mktemp("source")
    for photo in photos.rglob("*.jpg"):
        for copy in range(3):
            (folder / f"{photo.stem}-{copy}.jpg").symlink_to(photo)
    (folder / "broken.jpg").write_bytes(b"junk")
    return folder


def started(source: Path, target: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "nonneg_cli", "embed", str(source), "-o", str(target)]
    command += ["--bundle", MODEL, "--shard-size", "5", *more]
    environment = {**os.environ, "XDG_CACHE_HOME": str(target.parent / "cache")}
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


def files(target: Path) -> dict[str, bytes]:
    return {str(p.relative_to(target)): p.read_bytes() for p in sorted(target.rglob("*")) if p.is_file()}


@pytest.mark.slow
def test_two_workers_on_two_cores_make_the_bytes_of_one_process_though_one_is_killed(
    source: Path, tmp_path: Path
) -> None:
    alone = started(source, tmp_path / "alone")
    _, errors = alone.communicate(timeout=100)
    assert alone.returncode == 1, errors  # the broken one
    run = started(source, tmp_path / "many", "--ray", "--workers", "2")
    deadline = time.monotonic() + 120
    while len(list((tmp_path / "many" / "shards").glob("*.parquet"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    worker = worker_of(run.pid)
    os.kill(worker, signal.SIGKILL)
    said, errors = run.communicate(timeout=150)
    assert run.returncode == 1, errors
    assert "105 vectors" in said
    assert "broken.jpg" in errors
    assert files(tmp_path / "many") == files(tmp_path / "alone")
    assert len(set(Embeddings.load(tmp_path / "many").ids or ())) == 105
    (bundle,) = (tmp_path / "cache" / "nonneg" / "bundles").glob("*/manifest.json")  # once a machine
    assert bundle.is_file()


def worker_of(driver: int) -> int:
    """A process that Ray started for this run to embed in."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            title = (place / "cmdline").read_bytes()
        except OSError:
            continue
        if b"Worker" in title and b"ray::" in title and driver in ancestors(int(place.name)):
            return int(place.name)
    raise AssertionError("no worker is running")


def ancestors(process: int) -> list[int]:
    found = []
    while process > 1:
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(process)
    return found


def test_a_machine_with_other_packages_or_another_model_is_refused() -> None:
    on_ray.check_versions(on_ray.versions())
    with pytest.raises(ConfigInvalid, match=r"numpy .*, not 0\.1"):
        on_ray.check_versions({**on_ray.versions(), "numpy": "0.1"})
    with pytest.raises(ConfigInvalid, match="fingerprint a, not b"):
        on_ray.check_model(Model("m", "a", 8), Model("m", "b", 8))


def test_a_bundle_is_fetched_once_and_found_by_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    files = {"manifest.json": b"{}", "encoder.onnx": b"weights"}
    digest, fetched = bundle_copy.digest_of(files), []

    def fetch() -> dict[str, bytes]:
        fetched.append(1)
        return files

    places = [bundle_copy.unpacked(digest, fetch) for _ in range(2)]
    assert places[0] == places[1]
    assert (places[0] / "encoder.onnx").read_bytes() == b"weights"
    assert len(fetched) == 1


def test_totals_are_known_when_all_is_listed_and_count_what_is_listed_twice_once() -> None:
    desk = on_ray.Desk()
    desk.opened("a.tar", 5)
    assert desk.total() is None
    desk.pieces(7, 2)
    desk.opened("a.tar", 5)
    assert desk.total() is None
    desk.opened("b.tar", 1)
    assert desk.total() == 13
