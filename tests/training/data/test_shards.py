"""Tar shards, read in place."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from nonneg_core.errors import DataInvalid
from nonneg_training.data import open_data


def test_a_range_of_shards_is_one_data_set(tmp_path: Path, write_shard: Callable[..., None]) -> None:
    write_shard(tmp_path / "train-08.tar", {"a": 10, "b": 20})
    write_shard(tmp_path / "train-09.tar", {"c": 31})
    images = open_data(str(tmp_path / "train-{08..09}.tar"))
    assert images.labels.tolist() == [1, 2, 1]
    assert [images.image(i).getpixel((0, 0)) for i in range(3)] == [(10,) * 3, (20,) * 3, (31,) * 3]
    assert len(open_data(str(tmp_path / "train-*.tar"))) == 3


def test_broken_members_are_skipped_and_named(tmp_path: Path, write_shard: Callable[..., None]) -> None:
    write_shard(tmp_path / "x.tar", {"a": 10, "b": 20}, broken="a")
    images = open_data(str(tmp_path / "x.tar"))
    assert images.image(0).getpixel((0, 0)) == (20, 20, 20)
    assert list(images.broken) == ["x.tar:a.png"]


def test_a_missing_shard_a_truncated_one_and_an_empty_one_are_refused(
    tmp_path: Path, write_shard: Callable[..., None]
) -> None:
    write_shard(tmp_path / "s-0.tar", {"a": 10})
    with pytest.raises(DataInvalid, match=r"s-1\.tar does not exist"):
        open_data(str(tmp_path / "s-{0..1}.tar"))
    (tmp_path / "s-1.tar").write_bytes((tmp_path / "s-0.tar").read_bytes()[:700])
    with pytest.raises(DataInvalid, match=r"not a whole tar file|holds no images"):
        open_data(str(tmp_path / "s-1.tar"))
    with tarfile.open(tmp_path / "s-2.tar", "w"):
        pass
    with pytest.raises(DataInvalid, match="holds no images"):
        open_data(str(tmp_path / "s-2.tar"))
