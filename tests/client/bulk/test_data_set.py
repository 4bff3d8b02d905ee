"""A data set of shards: whole or not at all, the same bytes however it was made, and only what is missing is made."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from nonneg_cli.table import nonneg
from nonneg_client import Embeddings, Encoder
from nonneg_client.bulk import run_lock as lock
from nonneg_client.bulk.groups import Files
from nonneg_client.bulk.listing import Sources, groups
from nonneg_client.bulk.shard_job import ShardJob, ShardWriter, estimate
from nonneg_client.embedder import local
from nonneg_client.wire.protocol import Options
from nonneg_core.errors import ConfigInvalid, ConnectionFailed, DataInvalid, StorageFailed
from nonneg_vectors.storage.addresses import Address
from nonneg_vectors.storage.data_set_files import read_failed, read_manifest

pyarrow_dataset = pytest.importorskip("pyarrow.dataset")
MODEL = "photo-fast"


@pytest.fixture(scope="module")
def source(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten photos, and one that is none."""
    folder = tmp_path_factory.mktemp("source")
    for photo in sorted(photos.rglob("*-[12].jpg"))[:10]:
        (folder / photo.name).write_bytes(photo.read_bytes())
    (folder / "broken.jpg").write_bytes(b"junk")
    return folder


def embed(*arguments: object) -> Result:
    return CliRunner().invoke(nonneg, ["embed", *map(str, arguments)], standalone_mode=False)


def embedded(source: Path, target: object, *more: object) -> Result:
    return embed(source, "-o", target, "--bundle", MODEL, "--shard-size", 4, *more)


@pytest.fixture(scope="module")
def made(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("made") / "vectors"
    result = embedded(source, target)
    assert isinstance(result.exception, SystemExit), result.output + repr(result.exception)
    assert result.exception.code == 1  # one image failed
    return target


def files(target: Path) -> dict[str, bytes]:
    return {str(p.relative_to(target)): p.read_bytes() for p in sorted(target.rglob("*")) if p.is_file()}


def test_scan_gives_what_the_local_encoder_gives_a_shard_at_a_time(made: Path, source: Path) -> None:
    parts = list(Embeddings.scan(made))
    assert len(parts) == len(list((made / "shards").iterdir())) > 1
    whole = Embeddings.load(made)
    good = sorted(path for path in source.iterdir() if path.name != "broken.jpg")
    assert sorted(whole.ids or ()) == [path.name for path in good]
    with Encoder(MODEL) as encoder:
        expected = encoder.embed(good).named([path.name for path in good])
    rows = dict(zip(whole.ids or (), whole.numpy(), strict=True))
    for name, row in zip(expected.ids or (), expected.numpy(), strict=True):
        np.testing.assert_allclose(rows[name], row, rtol=2**-11, atol=1e-7)
    assert (whole.fingerprint, whole.dimensions) == (expected.fingerprint, expected.dimensions)


def test_failures_stand_in_a_side_table_and_in_the_sums(made: Path) -> None:
    manifest = read_manifest(Address.of(str(made)))
    (reason,) = read_failed(Address.of(str(made)), manifest.shards)
    assert (reason["id"], reason["type"]) == ("broken.jpg", "image_unsupported")
    assert (manifest.total("images"), manifest.total("vectors"), manifest.total("failed")) == (11, 10, 1)
    assert json.loads((made / "manifest.json").read_bytes())["totals"]["vectors"] == 10


def test_the_same_images_give_the_same_bytes_also_in_a_store_and_from_a_store(
    made: Path, source: Path, tmp_path: Path
) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    for photo in source.iterdir():
        memory.pipe(f"/photos/{photo.name}", photo.read_bytes())
    embed("memory://photos", "-o", tmp_path / "a", "--bundle", MODEL, "--shard-size", 4)
    assert {**files(tmp_path / "a"), "job.json": b""} == {**files(made), "job.json": b""}
    embedded(source, "memory://vectors")
    for name, data in files(made).items():
        if name != "lock":
            assert memory.cat(f"/vectors/{name}") == data
    assert len(Embeddings.load("memory://vectors")) == 10
    assert not memory.exists("/vectors/lock")


def test_only_what_is_missing_or_damaged_is_made_again(made: Path, source: Path, tmp_path: Path) -> None:
    embedded(source, tmp_path / "v")
    before = files(tmp_path / "v")
    first, second, *others = sorted((tmp_path / "v" / "shards").iterdir())
    first.unlink()
    second.write_bytes(second.read_bytes()[:-100])
    looks = {path: path.stat().st_mtime_ns for path in others}
    with pytest.raises(DataInvalid, match="gone or damaged"):
        Embeddings.load(tmp_path / "v")
    embedded(source, tmp_path / "v")
    assert files(tmp_path / "v") == before
    assert {path: path.stat().st_mtime_ns for path in others} == looks


def test_a_photo_that_is_added_is_embedded_and_the_others_stay(source: Path, photos: Path, tmp_path: Path) -> None:
    grown = tmp_path / "photos"
    grown.mkdir()
    for photo in source.glob("*.jpg"):
        (grown / photo.name).write_bytes(photo.read_bytes())
    embedded(grown, tmp_path / "v")
    (grown / "zebra.jpg").write_bytes((photos / "cat" / "cat-0.jpg").read_bytes())
    embedded(grown, tmp_path / "v")
    whole = Embeddings.load(tmp_path / "v")
    assert len(whole) == 11
    assert len(set(whole.ids or ())) == 11
    table = pyarrow_dataset.dataset(str(tmp_path / "v" / "shards")).to_table(columns=["id"])  # as other tools read it
    assert sorted(table["id"].to_pylist()) == sorted(whole.ids or ())


def test_side_tables_of_groups_that_changed_are_removed_with_their_shards(source: Path, tmp_path: Path) -> None:
    grown = tmp_path / "photos"
    shutil.copytree(source, grown)
    embedded(grown, tmp_path / "v")
    for name in ("broken-2.jpg", "a.jpg"):
        (grown / name).write_bytes(b"junk")
    embedded(grown, tmp_path / "v")
    named = {shard.name for shard in read_manifest(Address.of(str(tmp_path / "v"))).shards if shard.failed}
    assert {path.stem for path in (tmp_path / "v" / "failed").iterdir()} == named
    listed = pyarrow_dataset.dataset(str(tmp_path / "v" / "failed")).to_table()["id"].to_pylist()
    assert sorted(listed) == ["a.jpg", "broken-2.jpg", "broken.jpg"]


def test_other_options_are_refused_and_replace_begins_again(source: Path, tmp_path: Path) -> None:
    embedded(source, tmp_path / "v")
    refused = embedded(source, tmp_path / "v", "--top-k", 20)
    assert isinstance(refused.exception, ConfigInvalid)
    assert "top_k=None, not 20" in str(refused.exception)
    embedded(source, tmp_path / "v", "--top-k", 20, "--replace")
    assert Embeddings.load(tmp_path / "v").nnz.max() == 20
    assert read_manifest(Address.of(str(tmp_path / "v"))).top_k == 20


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--update",), "not for data sets"),
        (("--workers", 2), "pass it too"),
        (("--worker-gpus", 1), "pass it too"),
        (("--ray", __file__), "put --ray last"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    source: Path, tmp_path: Path, arguments: tuple[object, ...], expected: str
) -> None:
    assert expected in str(embedded(source, tmp_path / "v", *arguments).exception)
    assert not (tmp_path / "v").exists()


def test_a_data_set_needs_a_folder_of_its_own(source: Path, tmp_path: Path) -> None:
    assert "lies in the source" in str(embedded(source, source / "vectors").exception)
    assert "for data sets" in str(embedded(source, tmp_path / "v.npz", "--ray").exception)
    assert "for data sets" in str(embedded(source, tmp_path / "v.npz", "--dry-run").exception)


def test_where_nothing_can_be_embedded_no_manifest_is_written(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"junk")
    result = embedded(tmp_path / "photos", tmp_path / "v")
    assert "none of 1 images could be embedded; a.jpg" in str(result.exception)
    with pytest.raises(DataInvalid, match="no finished data set"):
        next(Embeddings.scan(tmp_path / "v"))


def test_an_image_that_vanishes_fails_and_a_store_that_fails_ends_the_run(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Files.read

    def gone(self: Files, i: int) -> bytes:
        if self.files[i].name.startswith("cat-1"):
            return Address.of(str(tmp_path / "gone.jpg")).read()
        return read(self, i)

    monkeypatch.setattr(Files, "read", gone)
    embedded(source, tmp_path / "v")
    manifest = read_manifest(Address.of(str(tmp_path / "v")))
    reasons = {r["id"]: r["message"] for r in read_failed(Address.of(str(tmp_path / "v")), manifest.shards)}
    assert "gone.jpg is not there" in reasons["cat-1.jpg"]

    def expired(self: Files, i: int) -> bytes:
        if self.files[i].name.startswith("cat-1"):
            raise ConnectionFailed("s3://bucket cannot be read (AWS Error EXPIRED_TOKEN)", fix="renew them")
        return read(self, i)

    monkeypatch.setattr(Files, "read", expired)
    result = embedded(source, tmp_path / "w")
    assert isinstance(result.exception, ConnectionFailed)
    assert not (tmp_path / "w" / "manifest.json").exists()
    monkeypatch.setattr(Files, "read", read)
    embedded(source, tmp_path / "w")
    assert len(Embeddings.load(tmp_path / "w")) == 10


def test_what_failed_is_tried_again_when_asked_and_nothing_else_is(source: Path, photos: Path, tmp_path: Path) -> None:
    mended = tmp_path / "photos"
    shutil.copytree(source, mended)
    embedded(mended, tmp_path / "v")
    (table,) = (tmp_path / "v" / "failed").iterdir()
    others = [path for path in (tmp_path / "v" / "shards").iterdir() if path.name != table.name]
    looks = {path: path.stat().st_mtime_ns for path in others}
    (mended / "broken.jpg").write_bytes((photos / "cat" / "cat-0.jpg").read_bytes())
    embedded(mended, tmp_path / "v")
    assert len(Embeddings.load(tmp_path / "v")) == 10
    result = embedded(mended, tmp_path / "v", "--retry-failed")
    assert result.exception is None, result.exception
    assert len(Embeddings.load(tmp_path / "v")) == 11
    assert not table.exists()
    assert {path: path.stat().st_mtime_ns for path in others} == looks


def test_a_tar_file_that_vanishes_ends_the_run_and_none_of_its_photos_is_called_broken(
    source: Path, tmp_path: Path
) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(source, "photos")
    found = list(groups(Sources((str(tmp_path / "a.tar"),), 4)))
    with local(MODEL, 1) as embedder:
        writer = ShardWriter(ShardJob(Address.of(str(tmp_path / "v")), Options(), embedder.model()), embedder)
        writer.ensure(found[0])
        (tmp_path / "a.tar").rename(tmp_path / "b.tar")
        with pytest.raises(DataInvalid, match="put it back"):
            writer.ensure(found[1])
        assert len(list((tmp_path / "v").rglob("*.parquet"))) == 1 + (tmp_path / "v" / "failed").exists()
        (tmp_path / "b.tar").rename(tmp_path / "a.tar")
        assert writer.ensure(found[1]).fresh


def test_a_full_target_ends_the_run_with_whole_shards_alone_and_the_same_command_goes_on(
    source: Path, tmp_path: Path
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    embedded(source, tmp_path / "first")
    room = sorted(path.stat().st_size for path in (tmp_path / "first" / "shards").iterdir())[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))  # the largest shards are too large
    try:
        result = embedded(source, tmp_path / "v")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert isinstance(result.exception, StorageFailed), result.exception
    assert str(tmp_path / "v" / "shards") in str(result.exception)
    assert not (tmp_path / "v" / "manifest.json").exists()
    embedded(source, tmp_path / "v")
    assert files(tmp_path / "v") == files(tmp_path / "first")


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_an_archive_without_images_is_called_empty(tmp_path: Path, more: tuple[str, ...]) -> None:
    tarfile.open(tmp_path / "empty.tar", "w").close()
    result = embedded(tmp_path / "empty.tar", tmp_path / "v", *more)
    assert isinstance(result.exception, DataInvalid), repr(result.exception)
    assert "empty.tar: no images" in str(result.exception)


def test_sources_that_are_refused_leave_nothing_behind(source: Path, tmp_path: Path) -> None:
    assert isinstance(embedded(source, tmp_path / "v", f"{source}/*.jpg").exception, ConfigInvalid)
    assert not (tmp_path / "v").exists()


def test_what_is_there_is_listed_once_and_what_is_not_is_never_asked_for(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    opening = Address.open

    def noted(self: Address) -> object:
        opened.append(self.path)
        return opening(self)

    monkeypatch.setattr(Address, "open", noted)
    embedded(source, tmp_path / "v")
    assert [path for path in opened if "/shards/" in path] == []
    embedded(source, tmp_path / "v")
    made = {str(path) for path in (tmp_path / "v" / "shards").iterdir()}
    assert sorted(path for path in opened if "/shards/" in path) == sorted(made)


def test_a_lock_that_cannot_be_made_is_an_error_of_storage(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = embedded(source, tmp_path / "file" / "v")
    assert isinstance(result.exception, StorageFailed), repr(result.exception)
    assert "cannot be written" in str(result.exception)


def test_a_second_run_into_one_folder_is_refused(source: Path, tmp_path: Path) -> None:
    with lock.locked_target(Address.of(str(tmp_path / "v"))):
        result = embedded(source, tmp_path / "v")
    assert isinstance(result.exception, StorageFailed)
    assert "another nonneg is writing" in str(result.exception)


def test_in_a_store_a_run_that_is_alive_keeps_others_out_and_one_that_died_does_not() -> None:
    held = partial(lock.locked_target, every=0.05, settled=0.02)
    memory = pytest.importorskip("fsspec").filesystem("memory")
    target = Address.of("memory://locked")
    with held(target), pytest.raises(StorageFailed, match="another"), held(target):
        pass
    memory.pipe("/locked/lock", b'{"token": "of a run that was killed", "beats": 7}')
    with held(target) as check:
        check()
        memory.pipe("/locked/lock", b'{"token": "of a run that took over", "beats": 1}')
        time.sleep(0.3)
        with pytest.raises(StorageFailed, match="is lost"):
            check()
    assert memory.exists("/locked/lock")  # it is the other run's


def test_a_dry_run_says_what_to_expect_and_writes_nothing(source: Path, tmp_path: Path) -> None:
    result = embedded(source, tmp_path / "v", "--dry-run")
    assert result.exception is None
    assert "11 images in" in result.output
    assert "11 tried here" in result.output
    assert "about 1 failures" in result.output
    assert not (tmp_path / "v").exists()
    with Encoder(MODEL, threads=1) as encoder:
        found = estimate(groups(Sources((str(source),), 4)), encoder, Options(), tried=3)
    assert (found.images, found.tried) == (11, 3)


def test_a_dry_run_reads_images_as_the_run_would_and_ends_where_the_store_fails(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    stream = Encoder.stream

    def noted(self: Encoder, *arguments: object, **options: object) -> object:
        asked.append(options.get("downscale"))
        return stream(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Encoder, "stream", noted)
    embedded(source, tmp_path / "v", "--dry-run", "--downscale", 300)
    assert asked == [300]

    def expired(self: Files, i: int) -> bytes:
        raise ConnectionFailed("s3://bucket cannot be read (AWS Error EXPIRED_TOKEN)", fix="renew them")

    monkeypatch.setattr(Files, "read", expired)
    assert isinstance(embedded(source, tmp_path / "v", "--dry-run").exception, ConnectionFailed)


@pytest.fixture
def running(source: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run that has made its first shard."""
    command = [sys.executable, "-m", "nonneg_cli", "embed", str(source), "-o", str(tmp_path / "v")]
    with subprocess.Popen(
        [*command, "--bundle", MODEL, "--shard-size", "1"], stderr=subprocess.PIPE, text=True
    ) as process:
        while not list((tmp_path / "v" / "shards").glob("*.parquet")):
            assert process.poll() is None
            time.sleep(0.005)
        yield process


@pytest.mark.slow
@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_a_run_that_is_ended_leaves_whole_shards_and_the_same_command_goes_on(
    running: subprocess.Popen[str], source: Path, tmp_path: Path, how: str
) -> None:
    getattr(running, how)()
    _, said = running.communicate()
    if how == "terminate":
        assert running.returncode == 143
        assert "the same command goes on" in said
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "v" / "shards").glob("*.parquet")}
    embed(source, "-o", tmp_path / "v", "--bundle", MODEL, "--shard-size", 1)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert len(Embeddings.load(tmp_path / "v")) == 10
