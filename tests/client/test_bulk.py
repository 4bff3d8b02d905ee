"""Bulk embedding: killed, resumed, retried, from lists and tar files; no row is lost and none is doubled."""

from __future__ import annotations

import bz2
import gc
import gzip
import io
import json
import lzma
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from nonneg_cli.table import nonneg
from nonneg_client import Client, Embeddings
from nonneg_core.errors import (
    ConfigInvalid,
    DataInvalid,
    FingerprintMismatch,
    MissingExtra,
    ParameterInvalid,
    StorageFailed,
)

pytestmark = pytest.mark.slow
SUFFIXES = [".npz", ".parquet", ".safetensors", ".npy"]


@pytest.fixture
def run(faulty, monkeypatch):
    monkeypatch.setenv("NONNEG_URL", faulty.url)

    def invoke(*arguments: object, stdin: str | None = None):
        return CliRunner().invoke(nonneg, ["embed", *map(str, arguments)], input=stdin)

    return invoke


@pytest.fixture
def folder(tmp_path):
    """A hundred files, each of which the faulty server embeds as its own dimension."""
    (tmp_path / "photos").mkdir()
    for i in range(100):
        (tmp_path / "photos" / f"{i:03d}.jpg").write_text(str(i))
    return tmp_path / "photos"


def complete(out, folder, n=100):
    found = Embeddings.load(out)
    assert found.ids == tuple(f"{i:03d}.jpg" for i in range(n))
    assert found.indices.tolist() == list(range(n))
    assert not out.with_name(out.name + ".parts").exists()
    return True


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_many_shards_become_one_file(run, folder, tmp_path, suffix):
    out = tmp_path / f"x{suffix}"
    result = run(folder, "-o", out, "--shard-size", 7)
    assert result.exit_code == 0, result.output
    assert complete(out, folder)
    assert "100 vectors of 1000 dimensions" in result.stdout


@pytest.mark.parametrize(
    ("how", "suffix"),
    [
        (signal.SIGKILL, ".npz"),
        (signal.SIGINT, ".parquet"),
        pytest.param(signal.SIGKILL, ".parquet", marks=pytest.mark.nightly),
        pytest.param(signal.SIGINT, ".npz", marks=pytest.mark.nightly),
    ],
)
def test_a_run_that_is_killed_goes_on_without_losing_or_doubling_a_row(faulty, folder, tmp_path, suffix, how):
    out = tmp_path / f"x{suffix}"
    command = [sys.executable, "-m", "nonneg_cli", "embed", str(folder), "-o", str(out), "--url", faulty.url]
    command += ["--shard-size", "5", "--batch-size", "2", "--in-flight", "2"]
    faulty.seconds = 0.02
    kills = 0
    while not out.exists():
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        before = len(faulty.seen)
        while process.poll() is None and len(faulty.seen) < before + 12:
            time.sleep(0.005)
        if process.poll() is None and kills < 4:
            kills += 1
            process.send_signal(how)
        process.wait(timeout=60)
    assert kills >= 2
    assert complete(out, folder)
    assert sum(faulty.seen) < 100 + kills * 40  # what was put away was not embedded again


@pytest.fixture
def interrupted_after(faulty, monkeypatch):
    """Commands get a signal once so many parts of the real client have reached them."""

    def arrange(parts: int, how: signal.Signals | None):
        real = Client.stream

        def stream(self, *arguments, **options):
            for number, part in enumerate(real(self, *arguments, **options), start=1):
                yield part
                if number == parts and how is not None:
                    signal.raise_signal(how)

        monkeypatch.setattr(Client, "stream", stream)
        return lambda: monkeypatch.setattr(Client, "stream", real)

    return arrange


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_what_is_done_is_kept_when_a_run_is_interrupted_before_its_first_shard_is_full(
    run, faulty, folder, tmp_path, how, interrupted_after
):
    out = tmp_path / "x.npz"
    restore = interrupted_after(10, how)
    stopped = run(folder, "-o", out, "--batch-size", 2)
    assert stopped.exit_code == 128 + how
    assert stopped.stderr == f"{how.name}: 20 kept; the same command goes on\n"
    assert signal.getsignal(how) is (signal.default_int_handler if how == signal.SIGINT else signal.SIG_DFL)

    restore()
    before = sum(faulty.seen)
    again = run(folder, "-o", out)
    assert again.exit_code == 0
    assert "going on after 20 images" in again.stderr
    assert sum(faulty.seen) == before + 80
    assert complete(out, folder)


def test_parts_are_put_away_after_some_seconds_and_before_an_error():
    from nonneg_client.embedder import grouped
    from nonneg_vectors.storage.results import BatchResult, Failure

    one = BatchResult((Failure("a", DataInvalid("a")),))
    now = iter([0.0, 1.0, 4.0, 4.0, 11.0, 15.0, 16.0, 17.0, 18.0, 19.0])

    def coming():
        yield from [one] * 6
        raise ParameterInvalid("over")

    def taken():
        for some in grouped(coming(), 3, seconds=10.0, clock=lambda: next(now)):
            found.append(len(some))  # noqa: PERF401  what came before the error

    found = []
    with pytest.raises(ParameterInvalid):
        taken()
    assert found == [3, 2, 1]  # three are full; two of more than ten seconds; what was left at the error


def killed_at_each_step(folder, *arguments):
    script = str(Path(__file__).with_name("kill_at_each_step.py"))
    command = [sys.executable, script, str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.timeout(1000)
@pytest.mark.parametrize(
    ("suffix", "replace"), [pytest.param(".npz", False, marks=pytest.mark.nightly), (".npy", True)]
)
def test_a_run_killed_before_any_of_its_writes_is_complete_when_it_is_run_again(faulty, tmp_path, suffix, replace):
    photos, work = tmp_path / "photos", tmp_path / "work"
    photos.mkdir()
    work.mkdir()
    for i, content in enumerate(["0", "1", "bad"]):
        (photos / f"{i:03d}.jpg").write_text(content)
    out = work / f"x{suffix}"
    if replace:
        Embeddings.from_dense(np.eye(2), fingerprint="f" * 32, ids=("old", "older")).save(out)
    arguments = ["embed", str(photos), "-o", str(out), "--url", faulty.url, "--shard-size", "1", "--batch-size", "1"]
    steps = killed_at_each_step(work, *arguments, *["--replace"] * replace)
    assert len(steps) > 20
    beside = [f"x{suffix}.json"] if suffix == ".npy" else []
    for step in steps:
        assert step["code"] == 1, step  # one image is bad
        assert "1 failed" in step["said"] or "exists" in step["said"], step
        assert (
            "exists" in step["said"]
            or f"2 vectors of {2 if step['said'].startswith('old') else 1000} dimensions" in step["said"]
        ), step
        assert step["there"] == sorted([f"x{suffix}", *beside, f"x{suffix}.failed.jsonl", f"x{suffix}.origins.jsonl"])
    assert Embeddings.load(out).indices.tolist() == [0, 1]


@pytest.mark.parametrize("how", ["--retry-failed", pytest.param("--replace", marks=pytest.mark.nightly)])
def test_a_data_set_that_is_killed_before_any_of_its_writes_is_whole_when_it_is_made_again(faulty, tmp_path, how):
    photos, work = tmp_path / "photos", tmp_path / "work"
    photos.mkdir()
    work.mkdir()
    for i, content in enumerate(["0", "bad"]):
        (photos / f"{i}.jpg").write_text(content)
    arguments = ["embed", str(photos), "-o", str(work / "v"), "--url", faulty.url]
    assert CliRunner().invoke(nonneg, arguments).exit_code == 1
    (photos / "1.jpg").write_text("1")
    steps = killed_at_each_step(work, *arguments, how)
    assert len(steps) > 5
    for step in steps:
        files = [name for name in step["there"] if "." in name]
        shards = [name for name in files if name.startswith("v/shards/")]
        assert (step["code"], len(shards), sorted(files)) == (0, 1, ["v/job.json", "v/manifest.json", *shards]), step
    assert Embeddings.load(work / "v").indices.tolist() == [0, 1]


@pytest.mark.nightly
def test_an_index_killed_before_any_of_its_writes_is_complete_when_it_is_made_again(faulty, tmp_path):
    photos, work = tmp_path / "photos", tmp_path / "work"
    photos.mkdir()
    work.mkdir()
    for i in range(3):
        (photos / f"{i}.jpg").write_text(str(i))
    steps = killed_at_each_step(work, "index", str(photos), "-o", str(work / "x.index"), "--url", faulty.url)
    assert len(steps) > 5
    for step in steps:
        assert (step["code"], "3 images" in step["said"]) == (0, True), step
        ours = [name for name in step["there"] if not name.startswith("x.index/shard")]
        assert ours == ["x.index", "x.index/index.json"], step


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_index_keeps_what_is_done_when_it_is_interrupted(faulty, folder, tmp_path, how, interrupted_after):
    arguments = ["index", str(folder), "-o", str(tmp_path / "x.index"), "--url", faulty.url]
    restore = interrupted_after(2, how)  # of sixteen images each
    stopped = CliRunner().invoke(nonneg, arguments)
    assert stopped.exit_code == 128 + how
    assert stopped.stderr == f"{how.name}: 32 images added to {tmp_path / 'x.index'}; the same command goes on\n"

    restore()
    before = sum(faulty.seen)
    again = CliRunner().invoke(nonneg, arguments)
    assert (again.exit_code, sum(faulty.seen)) == (0, before + 68)
    assert "100 images" in again.stdout


def test_the_second_run_says_where_it_goes_on(run, faulty, folder, tmp_path):
    faulty.plan = ["none"] * 6 + [("error", (401, "unauthorized"))] * 99
    out = tmp_path / "x.npz"
    assert run(folder, "-o", out, "--shard-size", 10, "--batch-size", 5, "--in-flight", 1).exit_code != 0
    done = sum(faulty.seen[:6])
    faulty.plan = []
    result = run(folder, "-o", out, "--shard-size", 10)
    assert f"going on after {done} images" in result.stderr
    assert complete(out, folder)


def test_failures_are_listed_with_their_reasons_and_retried(run, folder, tmp_path):
    out = tmp_path / "x.parquet"
    bad = [folder / "013.jpg", folder / "077.jpg"]
    for path in bad:
        path.write_text("bad")
    result = run(folder, "-o", out)
    assert result.exit_code == 1
    assert "2 failed" in result.stderr
    listed = [json.loads(line) for line in (tmp_path / "x.parquet.failed.jsonl").read_text().splitlines()]
    assert [r["id"] for r in listed] == [path.name for path in bad]
    assert {(r["type"], r["message"], r["fix"]) for r in listed} == {("image_unreadable", "broken", "mend it")}
    assert len(Embeddings.load(out)) == 98

    bad[0].write_text("13")
    assert run(folder, "-o", out, "--retry-failed").exit_code == 1  # one is still bad
    assert len(Embeddings.load(out)) == 99
    bad[1].write_text("77")
    assert run(folder, "-o", out, "--retry-failed").exit_code == 0
    found = Embeddings.load(out)
    assert sorted(found.indices.tolist()) == list(range(100))
    assert found.ids[-2:] == ("013.jpg", "077.jpg")
    assert not (tmp_path / "x.parquet.failed.jsonl").exists()
    assert "there is nothing to do" in str(run(folder, "-o", out, "--retry-failed").exception)


def test_what_failed_but_is_not_named_again_stays_listed(run, folder, tmp_path):
    out = tmp_path / "x.npz"
    (folder / "001.jpg").write_text("bad")
    run(folder, "-o", out)
    assert run(folder / "000.jpg", "-o", out, "--retry-failed").exit_code == 1
    assert "001.jpg" in (tmp_path / "x.npz.failed.jsonl").read_text()


def test_when_everything_fails_there_is_a_list_and_no_file(run, folder, tmp_path):
    for path in folder.iterdir():
        path.write_text("bad")
    result = run(folder, "-o", tmp_path / "x.npz")
    assert isinstance(result.exception, DataInvalid)
    assert "000.jpg: broken" in str(result.exception)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["photos", "x.npz.failed.jsonl"]


def test_paths_come_from_standard_input(run, folder, tmp_path):
    paths = "".join(f"{folder / f'{i:03d}.jpg'}\n" for i in (3, 1, 2))
    run("-", "-o", tmp_path / "x.npz", stdin=paths + "\n")
    assert Embeddings.load(tmp_path / "x.npz").indices.tolist() == [3, 1, 2]


def test_an_image_that_is_named_twice_is_embedded_once(run, folder, tmp_path):
    run(folder / "005.jpg", folder / "00?.jpg", "-o", tmp_path / "x.npz")
    assert Embeddings.load(tmp_path / "x.npz").indices.tolist() == [5, 0, 1, 2, 3, 4, 6, 7, 8, 9]


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "00000.tar"
    with tarfile.open(path, "w") as tar:
        for i in range(10):
            for name, data in ((f"{i:04d}.jpg", str(i).encode()), (f"{i:04d}.json", b"{}"), (f"{i:04d}.txt", b"cat")):
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    return path


def test_the_images_of_a_tar_file_are_read_in_place(run, archive, tmp_path):
    run(archive, "-o", tmp_path / "x.parquet")
    found = Embeddings.load(tmp_path / "x.parquet")
    assert found.indices.tolist() == list(range(10))
    assert found.ids[3] == f"{archive.name}/0003.jpg"


@pytest.mark.parametrize(
    ("suffix", "pack"), [("tar.gz", gzip.open), ("tgz", gzip.open), ("tar.bz2", bz2.open), ("TAR.XZ", lzma.open)]
)
def test_a_compressed_tar_file_is_unpacked_first_and_nothing_is_left_of_that(
    run, archive, tmp_path, suffix, pack, monkeypatch
):
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    packed = tmp_path / f"a.{suffix}"
    with pack(packed, "wb") as file:
        file.write(archive.read_bytes())
    run(packed, "-o", tmp_path / "x.parquet")
    found = Embeddings.load(tmp_path / "x.parquet")
    assert found.indices.tolist() == list(range(10))
    assert found.ids[3] == f"{packed.name}/0003.jpg"
    gc.collect()
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize("cut", [20, 200])
def test_a_compressed_tar_file_that_breaks_off_is_told_before_the_work(run, faulty, archive, tmp_path, cut):
    packed = tmp_path / "a.tar.gz"
    packed.write_bytes(gzip.compress(archive.read_bytes())[:cut])
    assert isinstance(run(packed, "-o", tmp_path / "x.npz").exception, DataInvalid)
    assert faulty.seen == []


@pytest.mark.parametrize(
    ("name", "data"),
    [("a.tar.gz", b"x"), ("a.tar.bz2", b"x"), ("a.tar.zst", b"x"), ("a.tar", b"x" * 2000), ("gone.tar", None)],
)
def test_a_tar_file_that_cannot_be_read_is_named(run, tmp_path, name, data):
    if data is not None:
        (tmp_path / name).write_bytes(data)
    result = run(tmp_path / name, "-o", tmp_path / "x.npz")
    assert isinstance(result.exception, DataInvalid)
    assert name in str(result.exception)


def test_a_tar_file_that_breaks_off_is_told_before_the_work(run, faulty, archive, tmp_path):
    data = archive.read_bytes()
    archive.write_bytes(data[: data.rindex(b"0009.jpg") + 512])
    assert isinstance(run(archive, "-o", tmp_path / "x.npz").exception, DataInvalid)
    assert faulty.seen == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_update_embeds_what_is_new_or_changed_and_forgets_what_is_gone(run, faulty, folder, tmp_path, suffix):
    out = tmp_path / f"x{suffix}"
    assert run(folder, "-o", out, "--top-k", 1).exit_code == 0
    (folder / "003.jpg").unlink()
    (folder / "004.jpg").write_text("777")
    (folder / "new.jpg").write_text("888")
    before = sum(faulty.seen)
    result = run(folder, "-o", out, "--update")
    assert result.exit_code == 0, result.exception
    assert f"{out}: 1 new, 1 changed, 1 gone, 98 unchanged" in result.stderr
    assert sum(faulty.seen) == before + 2
    found = dict(zip(Embeddings.load(out).ids, Embeddings.load(out).indices.tolist(), strict=True))
    expected = {f"{i:03d}.jpg": i for i in range(100) if i != 3}
    assert found == {**expected, "004.jpg": 777, "new.jpg": 888}

    again = run(folder, "-o", out, "--update")
    assert "0 new, 0 changed, 0 gone, 100 unchanged" in again.stderr
    assert (again.exit_code, sum(faulty.seen)) == (0, before + 2)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        ["photos", out.name, f"{out.name}.origins.jsonl", *[f"{out.name}.json"] * (suffix == ".npy")]
    )


def test_an_update_that_is_interrupted_leaves_the_file_alone_and_goes_on(
    run, faulty, folder, tmp_path, interrupted_after
):
    out = tmp_path / "x.npz"
    assert run(folder, "-o", out).exit_code == 0
    before = out.read_bytes()
    for i in range(40):
        (folder / f"{i:03d}.jpg").write_text(f"{500 + i}")
    restore = interrupted_after(10, signal.SIGINT)
    stopped = run(folder, "-o", out, "--update", "--batch-size", 2)
    assert "20 kept; the same command goes on" in stopped.stderr
    assert out.read_bytes() == before

    restore()
    embedded = sum(faulty.seen)
    assert run(folder, "-o", out, "--update").exit_code == 0
    assert sum(faulty.seen) == embedded + 20
    assert sorted(Embeddings.load(out).indices.tolist()) == [*range(40, 100), *range(500, 540)]


def test_an_update_from_one_folder_leaves_what_lies_elsewhere(run, faulty, folder, tmp_path):
    out = tmp_path / "x.npz"
    (folder / "cats").mkdir()
    (folder / "000.jpg").rename(folder / "cats" / "000.jpg")
    run(folder, "-o", out)
    (folder / "cats" / "000.jpg").rename(folder / "cats" / "more.jpg")
    result = run(folder / "cats", "-o", out, "--update")
    assert "1 new, 0 changed, 1 gone, 99 unchanged" in result.stderr
    assert set(Embeddings.load(out).ids) == {f"{i:03d}.jpg" for i in range(1, 100)} | {"cats/more.jpg"}


def test_an_update_is_asked_as_the_file_was(run, faulty, folder, tmp_path):
    out = tmp_path / "x.npz"
    run(folder / "001.jpg", "-o", out, "--dimensions", 1000)
    refused = run(folder / "002.jpg", "-o", out, "--update", "--dimensions", 400).exception
    assert isinstance(refused, ConfigInvalid)
    assert "--dimensions 1000, not 400" in str(refused)
    assert isinstance(run(folder, "-o", tmp_path / "y.npz", "--update").exception, DataInvalid)


def test_an_update_by_another_model_is_refused_also_where_nothing_is_new(run, faulty, folder, tmp_path):
    out = tmp_path / "x.npz"
    assert run(folder, "-o", out).exit_code == 0
    faulty.fingerprint = "e" * 32
    assert isinstance(run(folder, "-o", out, "--update").exception, FingerprintMismatch)


@pytest.mark.nightly
def test_an_update_killed_before_any_of_its_writes_is_complete_when_it_is_run_again(run, faulty, tmp_path):
    photos, work = tmp_path / "photos", tmp_path / "work"
    photos.mkdir()
    work.mkdir()
    for i in range(3):
        (photos / f"{i}.jpg").write_text(str(i))
    assert run(photos, "-o", work / "x.npy").exit_code == 0
    (photos / "1.jpg").write_text("111")
    (photos / "3.jpg").write_text("3")
    for step in killed_at_each_step(
        work, "embed", str(photos), "-o", str(work / "x.npy"), "--url", faulty.url, "--update"
    ):
        assert step["code"] == 0, step
        assert "x.npy: 4 vectors" in step["said"], step
        assert step["there"] == ["x.npy", "x.npy.json", "x.npy.origins.jsonl"], step
    assert sorted(Embeddings.load(work / "x.npy").indices.tolist()) == [0, 2, 3, 111]


def test_the_photos_of_a_file_are_the_same_wherever_one_stands(run, faulty, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("photos/", "-o", "x.npz")
    before = sum(faulty.seen)
    monkeypatch.chdir(folder)
    result = run(".", "-o", "../x.npz", "--update")
    assert "0 new, 0 changed, 0 gone, 100 unchanged" in result.stderr
    result = run("-", "-o", "../x.npz", "--update", stdin=f"{folder / '000.jpg'}\n001.jpg\n")
    assert "0 new, 0 changed, 0 gone, 100 unchanged" in result.stderr
    assert sum(faulty.seen) == before


def test_a_file_that_is_there_is_not_overwritten_unless_asked(run, folder, tmp_path):
    out = tmp_path / "x.npz"
    run(folder / "001.jpg", "-o", out)
    refused = run(folder, "-o", out).exception
    assert isinstance(refused, StorageFailed)
    assert "--update" in refused.fix
    assert not out.with_name("x.npz.parts").exists()
    assert run(folder, "-o", out, "--replace").exit_code == 0
    assert complete(out, folder)


def interrupted(run, faulty, folder, out, *more):
    faulty.plan = ["none"] * 3 + [("error", (401, "unauthorized"))] * 99
    run(folder, "-o", out, "--shard-size", 5, "--batch-size", 5, "--in-flight", 1, *more)
    faulty.plan = []
    assert out.with_name(out.name + ".parts").exists()


def test_an_unfinished_run_is_not_mixed_with_other_options(run, faulty, folder, tmp_path):
    out = tmp_path / "x.npz"
    interrupted(run, faulty, folder, out, "--dimensions", 5)
    assert isinstance(run(folder, "-o", out).exception, ConfigInvalid)
    assert run(folder, "-o", out, "--replace").exit_code == 0


def test_an_unfinished_run_is_not_mixed_with_another_model(run, faulty, folder, tmp_path):
    out = tmp_path / "x.npz"
    interrupted(run, faulty, folder, out)
    faulty.plan = [("changed", {"fingerprint": "e" * 32})] * 20
    assert isinstance(run(folder, "-o", out, "--batch-size", 50).exception, FingerprintMismatch)


def test_a_run_that_came_to_nothing_may_be_asked_for_otherwise(run, faulty, folder, tmp_path):
    out = tmp_path / "x.npz"
    assert isinstance(run(folder, "-o", out, "--dimensions", 9999).exception, ParameterInvalid)
    assert not out.with_name(out.name + ".parts").exists()
    assert run(folder, "-o", out).exit_code == 0
    assert complete(out, folder)


def test_when_nothing_could_be_embedded_the_fix_is_that_of_the_first_failure(run, tmp_path):
    error = run(tmp_path / "nowhere", "-o", tmp_path / "x.npz").exception
    assert isinstance(error, DataInvalid)
    assert error.fix == "check the path and its permissions"
    both = run(tmp_path / "nowhere", tmp_path / "nor here", "-o", tmp_path / "x.npz").exception
    assert both.fix == f"check the path and its permissions; 1 more in {tmp_path / 'x.npz.failed.jsonl'}"


def test_two_runs_do_not_write_one_file(run, faulty, folder, tmp_path):
    from nonneg_core.files.one_writer import one_writer

    with one_writer(tmp_path / "x.npz"):
        assert "another nonneg is writing" in str(run(folder, "-o", tmp_path / "x.npz").exception)


@pytest.mark.parametrize("name", ["job.json", "00000.json", "00000.npz"])
def test_a_damaged_shard_is_named(run, faulty, folder, tmp_path, name):
    out = tmp_path / "x.npz"
    interrupted(run, faulty, folder, out)
    (tmp_path / "x.npz.parts" / name).write_bytes(b"{")
    result = run(folder, "-o", out)
    assert isinstance(result.exception, DataInvalid)
    assert name in str(result.exception)


@pytest.mark.parametrize(
    ("package", "command", "name"), [("pyarrow", "embed", "x.parquet"), ("faiss", "index", "x.index")]
)
def test_a_package_that_is_missing_is_told_before_the_work(
    faulty, folder, tmp_path, monkeypatch, package, command, name
):
    monkeypatch.setitem(sys.modules, package, None)
    result = CliRunner().invoke(nonneg, [command, str(folder), "-o", str(tmp_path / name), "--url", faulty.url])
    assert isinstance(result.exception, MissingExtra)
    assert faulty.seen == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photos"]


def test_a_folder_that_cannot_be_written_is_told_before_the_work(run, faulty, folder, tmp_path):
    (tmp_path / "file").write_text("")
    assert isinstance(run(folder, "-o", tmp_path / "file" / "x.npz").exception, StorageFailed)
    assert faulty.seen == []


def test_lines_of_json_are_the_vectors_too(run, folder):
    lines = [json.loads(line) for line in run(folder / "00[12].jpg").stdout.splitlines()]
    assert [line["indices"] for line in lines] == [[1], [2]]
    np.testing.assert_allclose([line["values"] for line in lines], 1)
