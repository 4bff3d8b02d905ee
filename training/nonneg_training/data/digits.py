"""scikit-learn's bundled digits: 1,797 images of 8 x 8, the data set that needs no download."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nonneg_training.data.images import Arrays

FILE = Path("datasets", "data", "digits.csv.gz")  # in the package
SIDE = 16  # 8 px is too small for three strides


def digits(split: str = "train") -> Arrays:
    """Return four fifths to train on, the rest to test on."""
    images, labels = bundled()
    rows = np.arange(len(labels)) % 5 == 4
    rows = rows if split == "test" else ~rows
    grey = np.rint(images[rows] * (255 / 16)).astype(np.uint8)  # (n, 8, 8)
    pixels = np.stack([np.asarray(Image.fromarray(g).resize((SIDE, SIDE), Image.Resampling.BILINEAR)) for g in grey])
    names = tuple(str(name) for name in range(10))
    return Arrays(f"digits ({split})", np.repeat(pixels[..., None], 3, axis=3), labels[rows], names)


def bundled() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the images, 0 to 16, and what they show, as `load_digits` does; to import that takes a second."""
    package = find_spec("sklearn")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("No module named 'sklearn'", name="sklearn")
    with gzip.open(Path(package.origin).parent / FILE, "rt", encoding="ascii") as file:
        table = np.loadtxt(file, delimiter=",")
    return table[:, :64].reshape(-1, 8, 8), table[:, 64].astype(np.int64)
