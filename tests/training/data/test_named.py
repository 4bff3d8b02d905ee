"""STL-10, Fashion-MNIST and the sprites."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_training.data import Sprites, held_out, open_data
from nonneg_training.data.named_data_sets import render


def test_stl10_is_stored_column_by_column(tmp_path: Path) -> None:
    planes = np.arange(2 * 3 * 96 * 96, dtype=np.int64).reshape(2, 3, 96, 96).astype(np.uint8)
    (tmp_path / "train_X.bin").write_bytes(planes.tobytes())
    (tmp_path / "train_y.bin").write_bytes(bytes([10, 1]))
    images = open_data("stl10", tmp_path)
    assert images.labels.tolist() == [9, 0]
    assert images.image(1).getpixel((5, 7)) == tuple(int(planes[1, c, 5, 7]) for c in range(3))
    (tmp_path / "train_y.bin").write_bytes(bytes([10]))
    with pytest.raises(DataInvalid, match="1 labels for 2 images"):
        open_data("stl10", tmp_path)
    (tmp_path / "train_X.bin").write_bytes(planes.tobytes()[:-1])
    with pytest.raises(DataInvalid, match="truncated"):
        open_data("stl10", tmp_path)


def idx(values: np.ndarray) -> bytes:
    return bytes([0, 0, 8, values.ndim]) + np.asarray(values.shape, ">u4").tobytes() + values.astype(np.uint8).tobytes()


@pytest.mark.parametrize("zipped", [True, False])
def test_fashion_mnist_is_read_from_its_idx_files(tmp_path: Path, zipped: bool) -> None:
    grey = np.arange(3 * 784).reshape(3, 28, 28) % 256
    for name, values in (("images-idx3", grey), ("labels-idx1", np.array([4, 0, 9]))):
        path = tmp_path / f"t10k-{name}-ubyte"
        if zipped:
            path.with_name(path.name + ".gz").write_bytes(gzip.compress(idx(values)))
        else:
            path.write_bytes(idx(values))
    images = open_data("fashion-mnist", tmp_path, split="test")
    assert images.labels.tolist() == [4, 0, 9]
    assert images.image(2).getpixel((3, 1)) == (int(grey[2, 1, 3]),) * 3
    with pytest.raises(DataInvalid, match="cannot be read"):
        open_data("fashion-mnist", tmp_path)


@pytest.mark.parametrize("broken", [b"", bytes(30), gzip.compress(b"123", mtime=0)[:-3]])
def test_a_broken_idx_file_is_refused(tmp_path: Path, broken: bytes) -> None:
    for name in ("images-idx3", "labels-idx1"):
        (tmp_path / f"train-{name}-ubyte.gz").write_bytes(broken)
    with pytest.raises(DataInvalid, match=r"idx file|cannot be read"):
        open_data("fashion-mnist", tmp_path)


@pytest.mark.parametrize("name", ["stl10", "fashion-mnist", "cifar100"])
def test_they_must_be_told_where_they_lie(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="where it lies"):
        open_data(name)
    with pytest.raises(DataInvalid):
        open_data(name, tmp_path)


@pytest.mark.parametrize("by", ["root", "variable"])
def test_a_folder_and_captions_are_found_below_the_folder_of_named_data(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for split in ("train", "val"):
        (tmp_path / "mini" / split / "cat").mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "mini" / split / "cat" / "1.png")
    (tmp_path / "mini" / "captions.csv").write_text("image,caption\nval/cat/1.png,a cat\n")
    root = tmp_path if by == "root" else None
    monkeypatch.delenv("NONNEG_DATA", raising=False)
    if root is None:
        monkeypatch.setenv("NONNEG_DATA", str(tmp_path))
    assert len(open_data("mini/val", root)) == len(open_data("mini", root)) == 1
    assert held_out("mini", root) is not None
    assert len(open_data("mini/captions.csv", root)) == 1
    with pytest.raises(DataInvalid, match="maxi does not exist"):
        open_data("maxi", root)


def test_the_sprites_are_every_combination_of_their_factors() -> None:
    images = Sprites()
    assert len(images) == 737_280
    assert images.factors(0) == (0, 0, 0, 0, 0)
    assert images.factors(len(images) - 1) == (2, 5, 39, 31, 31)
    assert images.labels[[0, 245_760, 737_279]].tolist() == [0, 1, 2]
    assert images.image(400_000).size == (64, 64)
    assert held_out("dsprites") is None


@pytest.mark.parametrize("shape", ["square", "ellipse", "heart"])
def test_a_sprite_follows_its_factors(shape: str) -> None:
    def centre(x: float, y: float) -> tuple[float, float]:
        grey = render(shape, 1.0, 0.3, x, y).astype(float)
        rows, columns = np.mgrid[:64, :64]
        return float((columns * grey).sum() / grey.sum()), float((rows * grey).sum() / grey.sum())

    assert centre(1, 0.5)[0] - centre(0, 0.5)[0] == pytest.approx(32, abs=0.5)
    assert centre(0.5, 1)[1] - centre(0.5, 0)[1] == pytest.approx(32, abs=0.5)
    small, large = (render(shape, scale, 0.3, 0.5, 0.5).sum() / 255 for scale in (0.5, 1.0))
    assert large / small == pytest.approx(4, rel=0.05)
    edge = render(shape, 1.0, 0.8, 0, 0)
    assert edge[0].max() == edge[:, 0].max() == 0, "the largest sprite fits at the border"
