"""How transformers' own image processor sees a photo, in pixels of 0 to 255: what a view is compared with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nonneg_export.published.torch_tower import package
from nonneg_export.published.tower import OriginalPixels
from nonneg_export.silence import silenced
from nonneg_training.onnx_backbone.scaling_and_pooling import Scaling

TRIED = (64, 48)


def librarys_pixels(folder: Path, scaling: Scaling) -> OriginalPixels:
    """Return what the processor of a repository's files makes of a photo, with our scaling of it undone."""
    with silenced():
        processor = package("transformers").AutoImageProcessor.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    mean, std = np.array(scaling.mean), np.array(scaling.std)

    def pixels(photo: Image.Image) -> NDArray[np.float32]:
        with silenced():
            found = processor(photo, return_tensors="np")["pixel_values"][0]
        rows = (np.asarray(found, dtype=np.float64).transpose(1, 2, 0) * std + mean) / scaling.factor
        return np.asarray(rows, dtype=np.float32)  # (h, w, 3)

    pixels(Image.new("RGB", TRIED))  # so that a processor that answers something else raises here
    return pixels
