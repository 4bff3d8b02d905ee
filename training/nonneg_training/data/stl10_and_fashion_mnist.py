"""STL-10 and Fashion-MNIST from the plain binary files their authors publish."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import DataInvalid
from nonneg_training.data.images import Arrays

STL10 = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
FASHION = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")


def stl10(root: Path, split: str = "train") -> Arrays:
    """Read train_X.bin, train_y.bin and so on below `root` or its stl10_binary; split may also be `unlabeled`."""
    folder = root / "stl10_binary" if (root / "stl10_binary").is_dir() else root
    raw = _bytes(folder / f"{split}_X.bin", "stl10_binary")
    if len(raw) % (3 * 96 * 96):
        raise DataInvalid(f"{folder}/{split}_X.bin is truncated", fix="download it again", value=str(folder))
    pixels = np.frombuffer(raw, np.uint8).reshape(-1, 3, 96, 96).transpose(0, 3, 2, 1)  # stored column by column
    if split == "unlabeled":
        labels = np.zeros(len(pixels), np.int64)
    else:
        labels = np.frombuffer(_bytes(folder / f"{split}_y.bin", "stl10_binary"), np.uint8).astype(np.int64) - 1
    return Arrays(f"stl10 ({split})", np.ascontiguousarray(pixels), _paired(labels, pixels, folder), STL10)


def fashion_mnist(root: Path, split: str = "train") -> Arrays:
    """Read the four idx files, gzipped or not, below `root`, root/raw or root/FashionMNIST/raw."""
    folder = next((f for f in (root / "FashionMNIST" / "raw", root / "raw", root) if f.is_dir()), root)
    stem = "train" if split == "train" else "t10k"
    grey = _idx(folder, f"{stem}-images-idx3-ubyte", (28, 28))
    labels = _idx(folder, f"{stem}-labels-idx1-ubyte", ()).astype(np.int64)
    pixels = np.repeat(grey[..., None], 3, axis=3)
    return Arrays(f"fashion-mnist ({split})", pixels, _paired(labels, pixels, folder), FASHION)


def _idx(folder: Path, name: str, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Read an idx file: two zeros, a type, the number of dimensions, their sizes (big-endian), the values."""
    zipped = folder / f"{name}.gz"
    try:
        raw = gzip.decompress(zipped.read_bytes()) if zipped.exists() else _bytes(folder / name, "FashionMNIST/raw")
    except (OSError, EOFError) as error:
        raise DataInvalid(f"{zipped} cannot be read ({error})", fix="download it again", value=str(zipped)) from error
    sizes = tuple(np.frombuffer(raw[4 : 4 + 4 * (1 + len(shape))], ">u4").tolist())
    start = 4 + 4 * len(sizes)
    if raw[:4] != bytes([0, 0, 8, 1 + len(shape)]) or sizes[1:] != shape or len(raw) - start != int(np.prod(sizes)):
        raise DataInvalid(
            f"{folder / name} is not an idx file of the expected shape", fix="download it again", value=str(folder)
        )
    return np.frombuffer(raw, np.uint8, offset=start).reshape(sizes)


def _bytes(path: Path, layout: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataInvalid(
            f"{path} cannot be read ({error.strerror})",
            fix=f"give the folder that holds {layout} (data.root); torchvision.datasets downloads it",
            value=str(path),
        ) from error


def _paired(labels: NDArray[np.int64], pixels: NDArray[np.uint8], folder: Path) -> NDArray[np.int64]:
    if len(labels) != len(pixels):
        raise DataInvalid(f"{folder}: {len(labels)} labels for {len(pixels)} images", fix="download it again")
    return labels
