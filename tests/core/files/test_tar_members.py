"""Files inside tar files, read by their places."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from nonneg_core.errors import DataInvalid
from nonneg_core.files.image_files import places, sample_of


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as tar:
        folder = tarfile.TarInfo("b")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, data in (("b/1.JPG", b"one"), ("b/1.cls", b"7"), ("b/2.jpg", b"other" * 300)):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return path


def test_every_file_is_read_as_tarfile_reads_it(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        slow = {info.name: tar.extractfile(info).read() for info in tar if info.isfile()}  # type: ignore[union-attr]
    assert {place.name: place.read() for place in places(archive)} == slow
    assert [place.name for place in places(archive) if place.is_image] == ["b/1.JPG", "b/2.jpg"]


def test_an_archive_that_breaks_off_afterwards_is_told(archive: Path) -> None:
    *_, last = places(archive)
    archive.write_bytes(archive.read_bytes()[: last.offset + 10])
    with pytest.raises(DataInvalid, match=r"breaks off within b/2\.jpg"):
        last.read()
    archive.unlink()
    with pytest.raises(DataInvalid, match="cannot be read"):
        last.read()


@pytest.mark.parametrize(
    ("name", "key", "suffix"),
    [("a/7.cls", "a/7", "cls"), ("7.JPG", "7", "jpg"), ("x.y/7.tar.gz", "x.y/7", "tar.gz"), ("none", "none", "")],
)
def test_files_of_one_sample_share_their_key(name: str, key: str, suffix: str) -> None:
    assert sample_of(name) == (key, suffix)
