"""A store that speaks S3 and refuses: the run ends, says which address and why, and leaves nothing half done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from loopback_bucket import Bucket, loopback_bucket

from nonneg_cli.table import nonneg
from nonneg_core.errors import ConnectionFailed, DataInvalid, NonnegError, StorageFailed
from nonneg_vectors.storage.addresses import filesystem

pytest.importorskip("pyarrow")


@pytest.fixture
def bucket(photos: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Bucket]]:
    """Some photos in s3://lake/photos."""
    files = {f"/lake/photos/{path.name}": path.read_bytes() for path in sorted((photos / "cat").iterdir())}
    filesystem.cache_clear()
    with loopback_bucket(files, monkeypatch) as found:
        yield found
    filesystem.cache_clear()


def embed(source: object, target: object) -> Result:
    arguments = ["embed", str(source), "-o", str(target), "--bundle", "photo-fast", "--shard-size", "2"]
    return CliRunner().invoke(nonneg, arguments, standalone_mode=False)


def test_a_bucket_is_read_as_it_is(bucket: type[Bucket], tmp_path: Path) -> None:
    result = embed("s3://lake/photos", tmp_path / "v")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "5 vectors" in result.output


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [((403, "AccessDenied"), ConnectionFailed), ((404, "NoSuchBucket"), DataInvalid)],
)
def test_a_source_that_is_not_ours_or_not_there_is_named(
    bucket: type[Bucket], tmp_path: Path, refusal: tuple[int, str], kind: type[NonnegError]
) -> None:
    bucket.refusal = refusal
    result = embed("s3://lake/photos", tmp_path / "v")
    assert isinstance(result.exception, kind), result.exception
    assert "s3://lake/photos" in str(result.exception)
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize("refusal", [(403, "AccessDenied"), (404, "NoSuchBucket")])
def test_a_target_that_is_not_ours_or_not_there_is_refused_before_anything_is_embedded(
    bucket: type[Bucket], photos: Path, refusal: tuple[int, str]
) -> None:
    bucket.refusal = refusal
    error = embed(photos, "s3://lake/vectors").exception
    assert isinstance(error, (StorageFailed, ConnectionFailed)), error
    assert "s3://lake/vectors" in str(error)
    assert "rights" in str(error)


def test_credentials_that_expire_end_the_run_and_no_photo_is_called_broken(
    bucket: type[Bucket], tmp_path: Path
) -> None:
    bucket.refusal, bucket.allowed = (400, "ExpiredToken"), 6
    error = embed("s3://lake/photos", tmp_path / "v").exception
    assert isinstance(error, ConnectionFailed), error
    assert "may have expired" in str(error)
    assert not list(tmp_path.rglob("failed/*"))
    assert not (tmp_path / "v" / "manifest.json").exists()
    bucket.refusal = None
    assert "5 vectors" in embed("s3://lake/photos", tmp_path / "v").output
