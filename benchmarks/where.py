"""A pointing game for `where`: `python benchmarks/where.py PHOTOS [--model photo-fast] [--mosaics 400]`.

PHOTOS is a folder with one folder for each class. On half of the photos each class gets its dimension: the one whose
mean is farthest above that over all other classes, in standard deviations. From the other half come mosaics: two photos
of different classes, each cut to a tall half of a square, side by side. For each half the class's dimension is asked
where it comes from, if it is active in the mosaic: it is a hit if the cell with the largest part lies in that half (the
middle column of an odd number is a miss). Beside it the same for the strongest dimension that one of the two photos has
alone and the other does not.
"""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from nonneg_core.files.image_files import find_images
from nonneg_core.terminal.tables import table
from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle
from nonneg_runtime.inference.cell_map import CellMap
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.seeing.preprocess import Preprocessor

SIDE = 448  # pixels of a mosaic
Vector = np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photos", type=Path, help="a folder with a folder for each class")
    parser.add_argument("--model", default="photo", help="a bundle, or a model that comes with nonneg")
    parser.add_argument("--mosaics", type=int, default=400)
    parser.add_argument("--each", type=int, default=24, help="photos of a class at most")
    options = parser.parse_args()
    bundle = open_bundle(options.model)
    found = play(bundle, options.photos, options.mosaics, options.each)
    rows = [(name, right, of, right / of) for name, (right, of) in found.items()]
    print(f"{bundle.manifest.name} on {options.photos.name}, {options.mosaics} mosaics")
    print(table(["dimension", "in the right half", "of", "share"], rows))
    print(json.dumps({"model": bundle.manifest.name, "photos": options.photos.name, "found": found}))


def play(bundle: Bundle, folder: Path, mosaics: int, each: int) -> dict[str, tuple[int, int]]:
    """Return how often the largest cell lay in the right half, of how many."""
    viewer, session, cells = Preprocessor(bundle.manifest.view), Session(bundle.path / "encoder.onnx"), CellMap(bundle)
    classes = [sorted(find_images(place))[:each] for place in sorted(folder.iterdir()) if place.is_dir()]
    classes = [photos for photos in classes if len(photos) >= 4]

    def embed(data: bytes) -> Vector:
        z: Vector = session.run(viewer.pixels(data)[None])[0]
        return z / np.linalg.norm(z)

    own = dimensions_of([[embed(path.read_bytes()) for path in photos[::2]] for photos in classes])
    rng = np.random.default_rng(0)
    found = {"of the class": [0, 0], "of the photo alone": [0, 0]}
    for _ in range(mosaics):
        a, b = rng.choice(len(classes), 2, replace=False)
        left, right = (half(Path(rng.choice([str(p) for p in classes[c][1::2]]))) for c in (a, b))
        pixels = viewer.pixels(side_by_side(left, right))
        alone = [embed(jpeg(picture)) for picture in (left, right)]
        asked = [own[a], own[b], only(alone[0], alone[1]), only(alone[1], alone[0])]
        for i, parts in enumerate(cells.split(pixels, asked)):
            if not parts.any():
                continue  # this dimension is not active in the mosaic
            column = int(np.unravel_index(parts.argmax(), parts.shape)[1])
            middle = 2 * column + 1 - parts.shape[1]  # 0 is the column that both halves have a part of: a miss
            hit = middle < 0 if i % 2 == 0 else middle > 0
            count = found["of the class" if i < 2 else "of the photo alone"]
            count[0] += hit
            count[1] += 1
    return {name: (right, of) for name, (right, of) in found.items()}


def dimensions_of(vectors: list[list[Vector]]) -> list[int]:
    """Return for each class the dimension whose mean is farthest above all others'."""
    means = np.stack([np.mean(z, axis=0) for z in vectors])  # (classes, D)
    spread = np.concatenate([np.stack(z) for z in vectors]).std(axis=0) + 1e-6
    others = (means.sum(axis=0) - means) / (len(means) - 1)
    return [int(j) for j in ((means - others) / spread).argmax(axis=1)]


def only(here: Vector, there: Vector) -> int:
    """Return the strongest dimension that one photo has and the other does not."""
    return int(np.where(there > 0, 0, here).argmax())


def half(path: Path) -> Image.Image:
    """Return the middle of a photo, twice as tall as wide."""
    return ImageOps.fit(Image.open(path).convert("RGB"), (SIDE // 2, SIDE))


def side_by_side(left: Image.Image, right: Image.Image) -> bytes:
    """Return two halves as one picture."""
    mosaic = Image.new("RGB", (SIDE, SIDE))
    mosaic.paste(left, (0, 0))
    mosaic.paste(right, (SIDE // 2, 0))
    return jpeg(mosaic)


def jpeg(picture: Image.Image) -> bytes:
    """Return the picture as a file."""
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


if __name__ == "__main__":
    main()
