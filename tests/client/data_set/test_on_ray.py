"""Shards made by workers on Ray: those of a single process, byte for byte, also when a worker dies."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from nonneg_client import Embeddings
from nonneg_client.data_set import bundle_copy, on_ray
from nonneg_client.data_set.listing import Sources, groups
from nonneg_client.embedder import Model
from nonneg_client.local import folder_of
from nonneg_core.errors import ConfigInvalid, DataInvalid

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


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def started() -> Iterator[Start]:
    """Start `nonneg embed`; what still runs at the end is killed."""
    running: list[subprocess.Popen[str]] = []

    def start(source: Path, target: Path, *more: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "nonneg_cli", "embed", str(source), "-o", str(target)]
        command += ["--bundle", MODEL, "--shard-size", "5", *more]
        environment = {**os.environ, "XDG_CACHE_HOME": str(target.parent / "cache")}
        run = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        running.append(run)
        return run

    yield start
    for run in running:
        run.kill()
        run.communicate()


def files(target: Path) -> dict[str, bytes]:
    return {str(p.relative_to(target)): p.read_bytes() for p in sorted(target.rglob("*")) if p.is_file()}


@pytest.fixture
def alone(started: Start, source: Path, tmp_path: Path) -> dict[str, bytes]:
    """The files that one process makes."""
    run = started(source, tmp_path / "alone")
    _, errors = run.communicate(timeout=100)
    assert run.returncode == 1, errors  # the broken one
    return files(tmp_path / "alone")


def wait_for_shards(target: Path, number: int) -> None:
    """Wait until a run has made so many."""
    deadline = time.monotonic() + 120
    while len(shards(target)) < number and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(shards(target)) >= number


def shards(target: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (target / "shards").glob("*.parquet")}


@pytest.mark.slow
def test_two_workers_on_two_cores_make_the_bytes_of_one_process_though_one_is_killed(
    started: Start, source: Path, alone: dict[str, bytes], tmp_path: Path
) -> None:
    target = tmp_path / "many"
    run = started(source, target, "--ray", "--workers", "2")
    wait_for_shards(target, 2)
    os.kill(worker_of(run.pid), signal.SIGKILL)
    said, errors = run.communicate(timeout=150)
    assert run.returncode == 1, errors
    assert "105 vectors" in said
    assert "broken.jpg" in errors
    assert files(target) == alone
    assert len(set(Embeddings.load(target).ids or ())) == 105
    (bundle,) = (tmp_path / "cache" / "nonneg" / "bundles").glob("*/manifest.json")  # once a machine
    assert bundle.is_file()


@pytest.mark.slow
def test_a_worker_whose_copy_of_the_bundle_was_changed_ends_the_run_and_says_so(
    started: Start, source: Path, tmp_path: Path
) -> None:
    files = bundle_copy.packed(folder_of(MODEL))
    copy = tmp_path / "cache" / "nonneg" / "bundles" / bundle_copy.digest_of(files)
    copy.mkdir(parents=True)
    for name, data in files.items():
        (copy / name).write_bytes(data + b" " * (name == "manifest.json"))
    run = started(source, tmp_path / "v", "--ray", "--workers", "1")
    _, errors = run.communicate(timeout=150)
    assert run.returncode == 1
    assert f"{copy} on" in errors
    assert "remove this folder" in errors
    assert "Traceback" not in errors
    assert not shards(tmp_path / "v")


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


def test_an_error_travels_to_the_driver_as_a_row(source: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.tar").write_bytes(b"junk" * 1000)
    sources = Sources((str(tmp_path / "broken.tar"),), 5)
    (listed,) = on_ray.list_pieces({}, sources=sources, desk=MagicMock())
    (opened,) = on_ray.open_piece(listed, sources=sources, desk=MagicMock())
    worker = on_ray.Worker(MagicMock(), MagicMock())
    (made,) = worker({"group": [opened["group"]]})["made"]
    error = pickle.loads(made)
    assert isinstance(error, DataInvalid)
    assert "broken.tar is not a tar file" in str(error)
    wrong = on_ray.Expected({**on_ray.versions(), "numpy": "0.1"}, "", None, 1)
    (group, *_) = groups(Sources((str(source),), 5))
    (made,) = on_ray.Worker(MagicMock(), wrong)({"group": [pickle.dumps(group)]})["made"]
    assert "numpy" in str(pickle.loads(made))


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
