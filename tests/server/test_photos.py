"""The default model on real photos: golden vectors, and the same vector whatever way a photo comes."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skimage
from PIL import Image

from nonneg_client import Encoder
from nonneg_vectors.storage.embeddings import Embeddings

PHOTOS = Path(skimage.__file__).parent / "data"
NAMES = ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "retina.jpg", "hubble_deep_field.jpg")
GOLDEN = Path(__file__).parent / "golden_photos.json"


@pytest.fixture(scope="module")
def encoder() -> Iterator[Encoder]:
    with Encoder(decode="exact", precision="fp32") as encoder:  # a form that every processor computes
        yield encoder


def cosines(a: Embeddings, b: Embeddings) -> np.ndarray:
    found: np.ndarray = (a.numpy() * b.numpy()).sum(axis=1)
    return found


def test_real_photos_have_their_golden_vectors() -> None:
    """The ten strongest dimensions of each; rebuilt by running this file after the default model has changed."""
    golden = json.loads(GOLDEN.read_text())
    with Encoder(decode="exact", precision="fp32") as encoder:  # the same on every machine
        assert golden["fingerprint"] == encoder.bundle.manifest.fingerprint
        found = encoder.embed([PHOTOS / name for name in golden["photos"]], top_k=10)
    for (indices, values), (name, wanted) in zip(found, golden["photos"].items(), strict=True):
        assert indices.tolist() == wanted["indices"], name
        np.testing.assert_allclose(values, wanted["values"], rtol=2e-3, err_msg=name)


def test_a_photo_turned_by_exif_has_the_vector_of_the_upright_one(encoder: Encoder) -> None:
    upright = Image.open(PHOTOS / "chelsea.png").convert("RGB")
    turned = []
    for orientation, undo in ((3, Image.Transpose.ROTATE_180), (6, Image.Transpose.ROTATE_90), (8, 4)):
        exif = Image.Exif()
        exif[0x0112] = orientation
        buffer = io.BytesIO()
        upright.transpose(Image.Transpose(undo)).save(buffer, "PNG", exif=exif)
        turned.append(buffer.getvalue())
    found = encoder.embed([upright, *turned]).numpy()
    for vector in found[1:]:
        np.testing.assert_array_equal(vector, found[0])


@pytest.mark.parametrize(
    ("kind", "options", "least"),
    [
        ("JPEG", {"quality": 95}, 0.95),
        ("JPEG", {"quality": 95, "progressive": True}, 0.95),
        ("WEBP", {"quality": 95}, 0.96),
        ("AVIF", {"quality": 90}, 0.95),
        ("BMP", {}, 1.0),
        ("TIFF", {}, 1.0),
    ],
)
def test_the_format_of_a_photo_hardly_matters(
    encoder: Encoder, kind: str, options: dict[str, Any], least: float
) -> None:
    photos = [Image.open(PHOTOS / name).convert("RGB") for name in NAMES[:3]]
    stored = []
    for photo in photos:
        buffer = io.BytesIO()
        photo.save(buffer, kind, **options)
        stored.append(buffer.getvalue())
    assert cosines(encoder.embed(photos), encoder.embed(stored)).min() >= least - 1e-6


def rebuild() -> None:
    with Encoder(decode="exact", precision="fp32") as encoder:
        found = encoder.embed([PHOTOS / name for name in NAMES], top_k=10)
        photos = {
            name: {"indices": indices.tolist(), "values": [round(float(v), 6) for v in values]}
            for name, (indices, values) in zip(NAMES, found, strict=True)
        }
        golden = {"fingerprint": encoder.bundle.manifest.fingerprint, "photos": photos}
        GOLDEN.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    rebuild()
