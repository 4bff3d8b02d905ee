"""scikit-learn's bundled digits: 1,797 images of 8 x 8, the data set that needs no download."""

from __future__ import annotations

import numpy as np
from PIL import Image

from nonneg_training.data.images import Arrays

SIDE = 16  # 8 px is too small for three strides


def digits(split: str = "train") -> Arrays:
    """Return four fifths to train on, the rest to test on."""
    from sklearn.datasets import load_digits

    found = load_digits()
    rows = np.arange(len(found.target)) % 5 == 4
    rows = rows if split == "test" else ~rows
    grey = np.rint(found.images[rows] * (255 / 16)).astype(np.uint8)  # (n, 8, 8)
    pixels = np.stack([np.asarray(Image.fromarray(g).resize((SIDE, SIDE), Image.Resampling.BILINEAR)) for g in grey])
    names = tuple(str(name) for name in found.target_names)
    return Arrays(f"digits ({split})", np.repeat(pixels[..., None], 3, axis=3), found.target[rows], names)
