"""CIFAR's pickled batches, read without trusting them."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_training.data import open_data


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    pixels = np.arange(2 * 3072, dtype=np.int64).reshape(2, 3072).astype(np.uint8)
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        (folder / name).write_bytes(pickle.dumps({b"data": pixels, b"labels": [3, 1]}))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": [f"c{i}" for i in range(10)]}))
    return tmp_path


def test_planes_become_pixels(root: Path) -> None:
    images = open_data("cifar10", root)
    assert len(images) == 10
    assert images.classes[3] == "c3"
    assert images.image(0).getpixel((1, 0)) == (1, 1025 % 256, 2049 % 256)


def test_a_pickle_that_calls_something_is_refused(root: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, ("true",)

    (root / "cifar-10-batches-py" / "data_batch_1").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(DataInvalid, match="wants to call"):
        open_data("cifar10", root)


def test_a_truncated_batch_is_refused(root: Path) -> None:
    path = root / "cifar-10-batches-py" / "data_batch_2"
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(DataInvalid, match="not a batch of cifar10"):
        open_data("cifar10", root)


@pytest.mark.parametrize(
    ("file", "held", "message"),
    [
        ("batches.meta", {"num_vis": 3072}, r"is not cifar10 \(it has no b'label_names'\)"),
        ("batches.meta", {"label_names": 7}, "is not cifar10"),
        ("batches.meta", ["plane"], "it holds a list, not a dictionary"),
        ("data_batch_3", [1, 2], "it holds a list, not a dictionary"),
        ("data_batch_3", {b"data": None, b"labels": [1]}, "is not cifar10"),
    ],
)
def test_a_file_that_holds_something_else_is_refused(root: Path, file: str, held: object, message: str) -> None:
    (root / "cifar-10-batches-py" / file).write_bytes(pickle.dumps(held))
    with pytest.raises(DataInvalid, match=message):
        open_data("cifar10", root)


def test_it_must_be_told_where_it_lies(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="where it lies"):
        open_data("cifar10")
    with pytest.raises(DataInvalid, match="cannot be read"):
        open_data("cifar10", tmp_path)
