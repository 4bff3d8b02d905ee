"""The data sets that have a name: digits, CIFAR, STL-10, Fashion-MNIST, and the sprites, which are rendered."""

import gzip
import hashlib
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nonneg_core.arrays import Numbers
from nonneg_core.errors import DataInvalid
from nonneg_training.data.images import Arrays, Images

DIGIT_SIDE = 16  # 8 px is too small for three strides


def digits(split: str = "train") -> Arrays:
    """Return four fifths to train on, the rest to test on."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    rows = np.arange(len(bunch.target)) % 5 == 4
    rows = rows if split == "test" else ~rows
    grey = np.rint(bunch.images[rows] * (255 / 16)).astype(np.uint8)  # (n, 8, 8)
    pixels = np.stack(
        [np.asarray(Image.fromarray(g).resize((DIGIT_SIDE, DIGIT_SIDE), Image.Resampling.BILINEAR)) for g in grey]
    )
    names = tuple(str(name) for name in bunch.target_names)
    return Arrays(f"digits ({split})", np.repeat(pixels[..., None], 3, axis=3), bunch.target[rows], names)


# CIFAR-10 and CIFAR-100 as torchvision and their authors lay them out, read without trusting a pickle.

_SAFE = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}
_LAYOUT = {
    "cifar10": ("cifar-10-batches-py", [f"data_batch_{i}" for i in range(1, 6)], ["test_batch"], "batches.meta"),
    "cifar100": ("cifar-100-python", ["train"], ["test"], "meta"),
}


def cifar(name: str, root: Path, split: str = "train") -> Arrays:
    """Read cifar10 or cifar100 below `root` (or `root` itself being the folder of batches)."""
    folder_name, train, test, meta = _LAYOUT[name]
    folder = root / folder_name if (root / folder_name).is_dir() else root
    batches = [_read_pickle(folder / file, name) for file in (train if split == "train" else test)]
    label, label_names = (b"labels", b"label_names") if name == "cifar10" else (b"fine_labels", b"fine_label_names")
    try:
        rows = np.concatenate([np.asarray(batch[b"data"], dtype=np.uint8) for batch in batches])  # (n, 3072)
        labels = np.concatenate([np.asarray(batch[label]) for batch in batches])
        pixels = np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        classes = tuple(_text(c) for c in _read_pickle(folder / meta, name)[label_names])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else error
        raise DataInvalid(f"{folder} is not {name} ({what})", fix="download it again", value=str(folder)) from error
    return Arrays(f"{name} ({split})", pixels, labels, classes)


class _Arrays(pickle.Unpickler):
    """Builds numpy arrays, lists, strings and dictionaries, and refuses everything else."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        if (module_name, global_name) not in _SAFE:
            raise pickle.UnpicklingError(f"it wants to call {module_name}.{global_name}")
        return super().find_class(module_name, global_name)


def _read_pickle(path: Path, name: str) -> dict[bytes, Any]:
    try:
        record = _Arrays(io.BytesIO(_bytes(path, _LAYOUT[name][0])), encoding="bytes").load()
        if not isinstance(record, dict):
            raise TypeError(f"it holds a {type(record).__name__}, not a dictionary")
    except (pickle.UnpicklingError, EOFError, ValueError, IndexError, TypeError, AttributeError, KeyError) as error:
        raise DataInvalid(
            f"{path} is not a batch of {name} ({error})", fix="download it again", value=str(path)
        ) from error
    # the layout's own keys are bytes, a rewritten copy's are text
    return {key.encode() if isinstance(key, str) else key: value for key, value in record.items()}


def _text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name


# STL-10 and Fashion-MNIST from the plain binary files their authors publish.

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


def _paired(labels: Numbers, pixels: NDArray[np.uint8], folder: Path) -> Numbers:
    if len(labels) != len(pixels):
        raise DataInvalid(f"{folder}: {len(labels)} labels for {len(pixels)} images", fix="download it again")
    return labels


# The factors of dSprites, rendered when they are asked for: 3 shapes, 6 scales, 40 angles, 32 x 32 places, 64 px.

SPRITE_SIDE = 64
FINE = 3  # samples a pixel's side, for smooth edges
COUNTS = (3, 6, 40, 32, 32)  # shape, scale, angle, x, y; the last changes fastest, as in the original's order
FACTORS = ("shape", "scale", "angle", "x", "y")
SHAPES = ("square", "ellipse", "heart")


class Sprites(Images):
    """737,280 white shapes on black; the label is the shape, `factors` are all five."""

    def __init__(self) -> None:
        self.name, self.classes, self.side = "dsprites", SHAPES, SPRITE_SIDE
        count = int(np.prod(COUNTS))
        self.labels = np.arange(count) // (count // COUNTS[0])

    def factors(self, i: int) -> tuple[int, ...]:
        """Return which shape, scale, angle, x and y image i has, each from 0."""
        return tuple(int(part) for part in np.unravel_index(i, COUNTS))

    def image(self, i: int) -> Image.Image:
        shape, scale, angle, x, y = self.factors(i)
        grey = render(SHAPES[shape], 0.5 + 0.1 * scale, 2 * np.pi * angle / 39, x / 31, y / 31)
        return Image.fromarray(grey).convert("RGB")

    def digest(self) -> str:
        return hashlib.sha256(f"dsprites {COUNTS} {SPRITE_SIDE} {FINE}".encode()).hexdigest()


def render(shape: str, scale: float, angle: float, x: float, y: float) -> NDArray[np.uint8]:
    """Return one sprite, uint8 (64, 64); x and y run from 0 to 1 over the places where the largest one still fits."""
    axis = (np.arange(SPRITE_SIDE * FINE) + 0.5) / FINE
    margin = 16.0
    across = axis[None, :] - (margin + x * (SPRITE_SIDE - 2 * margin))
    down = axis[:, None] - (margin + y * (SPRITE_SIDE - 2 * margin))
    u = (np.cos(angle) * across + np.sin(angle) * down) / (10 * scale)
    v = (-np.sin(angle) * across + np.cos(angle) * down) / (10 * scale)
    inside = _INSIDE[shape](u, v)
    share = inside.reshape(SPRITE_SIDE, FINE, SPRITE_SIDE, FINE).mean(axis=(1, 3))
    grey: NDArray[np.uint8] = np.rint(share * 255).astype(np.uint8)
    return grey


_INSIDE = {
    "square": lambda u, v: (np.abs(u) < 0.85) & (np.abs(v) < 0.85),
    "ellipse": lambda u, v: u**2 + (v / 0.55) ** 2 < 1,
    "heart": lambda u, v: (u**2 + v**2 - 0.6) ** 3 + u**2 * v**3 < 0,  # v grows downwards: the point is below
}
