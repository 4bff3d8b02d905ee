"""The default model on real photos: golden vectors, and the same vector whatever way a photo comes."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import skimage
from PIL import Image

from nonneg_client import Encoder
from nonneg_core.pixels.view import has_simd
from nonneg_vectors.storage.embeddings import Embeddings

PHOTOS = Path(skimage.__file__).parent / "data"
NAMES = ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "retina.jpg", "hubble_deep_field.jpg")
GOLDEN = Path(__file__).parent / "golden_photos"
LEAST = 0.999  # the median cosine below which docs/operating.md asks for a new fingerprint
Decoding = Literal["exact", "fast"]
DECODINGS: tuple[Decoding, ...] = ("exact", "fast")


@pytest.fixture(scope="module")
def encoder() -> Iterator[Encoder]:
    with Encoder(decode="exact", precision="fp32") as encoder:  # a form that every processor computes
        yield encoder


def cosines(a: Embeddings, b: Embeddings) -> np.ndarray:
    found: np.ndarray = (a.numpy() * b.numpy()).sum(axis=1)
    return found


@pytest.mark.parametrize("decode", DECODINGS)
def test_real_photos_have_their_golden_vectors(decode: Decoding) -> None:
    """Rebuilt by running this file after the default model has changed."""
    if decode == "fast" and not has_simd():
        pytest.skip("without a resizer with SIMD, fast pixels are Pillow's")
    golden, found = Embeddings.load(GOLDEN / f"{decode}.npz"), embedded(decode)
    assert golden.fingerprint == found.fingerprint
    assert np.median(cosines(golden, found)) >= LEAST, "pixels moved vectors: give the model a new fingerprint"
    if decode == "exact":  # the same on every machine
        np.testing.assert_allclose(found.numpy(), golden.numpy(), rtol=2e-3, atol=2e-5)


def test_golden_vectors_are_not_rebuilt_where_pixels_moved_and_the_fingerprint_stayed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in NAMES:
        photo = Image.open(PHOTOS / name).convert("RGB")
        photo.point(lambda value: value | 7).save(tmp_path / name, "PNG")  # pixels up to seven grey levels away
    monkeypatch.setitem(globals(), "PHOTOS", tmp_path)
    monkeypatch.setitem(globals(), "GOLDEN", Path(shutil.copytree(GOLDEN, tmp_path / "golden")))
    with pytest.raises(AssertionError, match="exact pixels moved vectors"):
        rebuild()


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


def embedded(decode: Decoding) -> Embeddings:
    """Return the photos' vectors in a form that every processor computes."""
    with Encoder(decode=decode, precision="fp32") as encoder:
        found = encoder.embed([PHOTOS / name for name in NAMES])
    return replace(found, ids=NAMES)


def rebuild() -> None:
    """Write the vectors again, unless pixels moved those of a model that keeps its fingerprint."""
    for decode in DECODINGS:
        found, golden = embedded(decode), Embeddings.load(GOLDEN / f"{decode}.npz")
        moved = golden.fingerprint == found.fingerprint and np.median(cosines(golden, found)) < LEAST
        assert not moved, f"{decode} pixels moved vectors: give the model a new fingerprint"
        found.save(GOLDEN / f"{decode}.npz")


if __name__ == "__main__":
    rebuild()
