"""Shards made by workers on Ray: those of a single process, byte for byte, also when a worker dies."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from nonneg_client import Embeddings
from nonneg_client.bulk import ray_tasks as bundle_copy
from nonneg_client.bulk import ray_tasks as worker_checks
from nonneg_client.bulk.listing import Sources, groups
from nonneg_client.bulk.on_ray import WorkerShape, check_seen
from nonneg_client.bulk.ray_tasks import TRIES, Expected, RunState, Worker, list_pieces, open_piece
from nonneg_client.bulk.shard_job import MadeShard, ShardJob
from nonneg_client.embedder import Model, local
from nonneg_client.local import folder_of
from nonneg_client.wire.protocol import Options
from nonneg_core.errors import ConfigInvalid, DataInvalid, NonnegError
from nonneg_vectors.storage.addresses import Address
from nonneg_vectors.storage.data_set_files import JOB, Shard, read_job, write_job

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
    deadline = time.monotonic() + 250
    while len(shards(target)) < number and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(shards(target)) >= number


def shards(target: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (target / "shards").glob("*.parquet")}


@pytest.mark.slow
@pytest.mark.timeout(900)  # each wait has its own bound
def test_two_workers_on_two_cores_make_the_bytes_of_one_process_though_one_is_killed(
    started: Start, source: Path, alone: dict[str, bytes], tmp_path: Path
) -> None:
    target = tmp_path / "many"
    run = started(source, target, "--ray", "--workers", "2")
    wait_for_shards(target, 2)
    os.kill(worker_of(run.pid), signal.SIGKILL)
    said, errors = run.communicate(timeout=150)
    assert run.returncode == 1, errors
    (result,) = said.splitlines()  # nothing of Ray's, though it lost a worker
    assert "105 vectors" in result
    (line,) = [line for line in errors.splitlines() if not line.startswith(("embedding", "1 failed"))]
    assert line.startswith("failed broken.jpg")  # Ray itself says nothing
    assert files(target) == alone
    assert len(set(Embeddings.load(target).ids or ())) == 105
    (bundle,) = (tmp_path / "cache" / "nonneg" / "bundles").glob("*/manifest.json")  # once a machine
    assert bundle.is_file()


@pytest.mark.nightly
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


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("lost", ["the driver", "the driver and the whole cluster", "nothing: Ctrl-C"])
def test_a_run_that_is_lost_goes_on_and_ends_with_the_bytes_of_one_process(
    lost: str, started: Start, source: Path, alone: dict[str, bytes], tmp_path: Path
) -> None:
    target = tmp_path / "many"
    run = started(source, target, "--ray", "--workers", "2")
    wait_for_shards(target, 2)
    cluster = descendants(run.pid)
    if "Ctrl-C" in lost:
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=100)
        assert run.returncode == 130, errors
        assert "the same command goes on" in errors
        assert "Traceback" not in errors
    else:
        for process in [run.pid, *(cluster if "cluster" in lost else ())]:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        run.communicate(timeout=100)
    wait_for_end_of(cluster)
    assert not (target / "manifest.json").exists()
    kept = shards(target)
    again = started(source, target, "--ray", "--workers", "2")
    _, errors = again.communicate(timeout=150)
    assert again.returncode == 1, errors  # the broken one
    assert files(target) == alone
    assert {name: looks for name, looks in shards(target).items() if name in kept} == kept


def descendants(process: int) -> list[int]:
    """All processes that a process has started, and those that they have."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if process in ancestors(int(place.name)):
                found.append(int(place.name))
    return found


def wait_for_end_of(processes: list[int]) -> None:
    """Wait until a cluster has followed its driver."""
    deadline = time.monotonic() + 100
    while any(is_alive(process) for process in processes) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(is_alive, processes))


def is_alive(process: int) -> bool:
    """Whether it runs: one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


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
    worker_checks.check_versions(worker_checks.versions())
    with pytest.raises(ConfigInvalid, match=r"numpy .*, not 0\.1"):
        worker_checks.check_versions({**worker_checks.versions(), "numpy": "0.1"})
    with pytest.raises(ConfigInvalid, match="fingerprint a, not b"):
        worker_checks.check_model(Model("m", "a", 8), Model("m", "b", 8))


@pytest.fixture(scope="module")
def model() -> Model:
    with local(MODEL, 1) as embedder:
        return embedder.model()


def made_by(worker: Worker, group: object) -> MadeShard | NonnegError:
    """What travels to the driver."""
    (made,) = worker({"group": [pickle.dumps(group)]})["made"]
    found: MadeShard | NonnegError = pickle.loads(made)
    return found


def test_an_error_travels_to_the_driver_as_a_row(source: Path, model: Model, tmp_path: Path) -> None:
    (tmp_path / "broken.tar").write_bytes(b"junk" * 1000)
    sources, desk = Sources((str(tmp_path / "broken.tar"),), 5), RunState()
    (listed,) = list_pieces({}, sources=sources, desk=desk)
    (opened,) = open_piece(listed, sources=sources, desk=desk)
    job = ShardJob(Address.of(str(tmp_path / "v")), Options(), model)
    wrong = Expected({**worker_checks.versions(), "numpy": "0.1"}, "", desk, 1)
    error = made_by(Worker(job, wrong), pickle.loads(opened["group"]))
    assert isinstance(error, DataInvalid)
    assert "broken.tar is not a tar file" in str(error)
    (group, *_) = groups(Sources((str(source),), 5))
    assert "numpy" in str(made_by(Worker(job, wrong), group))


def test_a_group_that_ends_every_worker_is_given_up_and_named(source: Path, model: Model, tmp_path: Path) -> None:
    (group, other, *_) = groups(Sources((str(source),), 5))
    desk = RunState()
    job = ShardJob(Address.of(str(tmp_path / "v")), Options(), model)
    worker = Worker(job, Expected({**worker_checks.versions(), "numpy": "0.1"}, "", desk, 1))
    for _ in range(TRIES):
        desk.begun(group.name)  # and the worker is gone
    error = made_by(worker, group)
    assert isinstance(error, DataInvalid)
    assert f"from {group.ids[0]} to {group.ids[-1]} (group {group.name}) ended their worker {TRIES} times" in str(error)
    for _ in range(3 * TRIES):  # each of these ends, by an error of its own
        assert "numpy" in str(made_by(worker, other))


def test_a_target_that_is_another_folder_on_another_machine_is_refused(
    source: Path, model: Model, tmp_path: Path
) -> None:
    target = Address.of(str(tmp_path / "v"))
    write_job(target, {"names": ["photos"]})
    begun = read_job(target)
    worker_checks.check_target(target, begun)
    job, expected = ShardJob(target, Options(), model), Expected(worker_checks.versions(), "", RunState(), 1, begun)
    (group, *_) = groups(Sources((str(source),), 5))
    for content in (None, {"names": ["of another run"]}):  # as the worker's own disk has it
        (tmp_path / "v" / JOB).unlink(missing_ok=True)
        if content:
            write_job(target, content)
        error = made_by(Worker(job, expected), group)
        assert isinstance(error, ConfigInvalid)
        assert "is not one folder for all machines" in str(error)
    shard = MadeShard(Shard(group.name, "a", "b", 1, 1, 1, 0, 1), True)
    with pytest.raises(ConfigInvalid, match=f"{group.name} that a worker has made is not here"):
        check_seen(target, shard)
    check_seen(Address.of("s3://bucket/v"), shard)


def test_workers_that_do_not_fit_the_cluster_are_refused_with_what_it_has() -> None:
    two = {"CPU": 2.0}
    assert WorkerShape().fitting(two) == 2
    assert WorkerShape(threads=2).fitting(two) == 1
    with pytest.raises(ConfigInvalid, match="3 workers of 1 cores do not fit the cluster's 2 cores"):
        WorkerShape(3).fitting(two)
    with pytest.raises(
        ConfigInvalid, match="0 workers of 1 cores and 1 GPUs do not fit the cluster's 2 cores and 0 GPUs"
    ):
        WorkerShape(gpus=1).fitting(two)
    assert WorkerShape(gpus=0.5).fitting({"CPU": 8.0, "GPU": 1.0}) == 2
    assert WorkerShape(gpus=1).fitting({"CPU": 8.0, "GPU": 4.0}) == 4


def test_a_gpu_that_is_not_there_is_not_replaced_by_the_processor() -> None:
    with pytest.raises(ConfigInvalid, match="CUDAExecutionProvider was asked for but"):
        local(MODEL, 1, "cuda")
    with pytest.raises(ConfigInvalid, match="gpu is not a provider"):
        local(MODEL, 1, "gpu")


def test_a_bundle_is_fetched_once_and_found_by_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    files = {"manifest.json": b"{}", "encoder.onnx": b"weights"}
    digest, fetched = bundle_copy.digest_of(files), []

    def fetch() -> dict[str, bytes]:
        fetched.append(1)
        return files

    home = tmp_path / "nonneg" / "bundles"
    home.mkdir(parents=True)
    (home / f".{digest}.12345678.unfinished").mkdir()  # of a process that was killed
    places = [bundle_copy.unpacked(digest, fetch) for _ in range(2)]
    assert sorted(path.name for path in home.iterdir()) == [digest, f"{digest}.lock"]
    assert places[0] == places[1]
    assert (places[0] / "encoder.onnx").read_bytes() == b"weights"
    assert len(fetched) == 1


def test_totals_are_known_when_all_is_listed_and_count_what_is_listed_twice_once() -> None:
    desk = RunState()
    desk.opened("a.tar", 5)
    assert desk.total() is None
    desk.pieces(7, 2)
    desk.opened("a.tar", 5)
    assert desk.total() is None
    desk.opened("b.tar", 1)
    assert desk.total() == 13
