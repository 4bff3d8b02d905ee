"""Fast decoding keeps the vectors: measured with the default model on real photos, small and of 12 megapixels."""

import io
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import skimage
from PIL import Image

from nonneg_core.pixels.decode import decode
from nonneg_core.pixels.view import has_simd
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_server.engine.inference_engine import InferenceEngine

PHOTOS = sorted((Path(skimage.__file__).parent / "data").glob("*.jpg")) + sorted(
    (Path(skimage.__file__).parent / "data").glob("*.png")
)
FULL = (4000, 3000)


def jpeg(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=92)
    return buffer.getvalue()


def opened(path: Path) -> Image.Image:
    with Image.open(path) as image:
        return image.convert("RGB")


def mosaic(photos: list[Image.Image]) -> Image.Image:
    """12 megapixels with detail at every scale: photos at their own resolution, side by side."""
    canvas, x, y, height = Image.new("RGB", FULL), 0, 0, 0
    for number in range(400):
        photo = photos[number % len(photos)]
        canvas.paste(photo, (x, y))
        x, height = x + photo.width, max(height, photo.height)
        if x >= FULL[0]:
            x, y, height = 0, y + height, 0
        if y >= FULL[1]:
            break
    return canvas


@pytest.fixture(scope="module")
def photos() -> list[Image.Image]:
    found = [opened(path) for path in PHOTOS]
    return [photo for photo in found if min(photo.size) >= 200]


@pytest.fixture(scope="module")
def engines() -> Iterator[tuple[InferenceEngine, InferenceEngine]]:
    bundle = open_bundle()
    both = InferenceEngine(bundle, threads=1), InferenceEngine(bundle, threads=1, decode="exact")
    yield both
    for engine in both:
        engine.close()


@pytest.mark.slow
def test_vectors_of_fast_decoding_stay_close_to_the_exact_ones(
    engines: tuple[InferenceEngine, InferenceEngine], photos: list[Image.Image]
) -> None:
    large = [photo.resize(FULL, Image.Resampling.LANCZOS) for photo in photos[:6]]
    files = [jpeg(image) for image in (*photos, *large, mosaic(photos), mosaic(photos[::-1]))]
    cosines = [cosine(*(engine.submit(file).result(60).vector for engine in engines)) for file in files]
    assert (
        np.median(cosines) >= 0.99
    )  # the default model's gated columns feel a grey level: test_resizing has the pixels
    assert min(cosines) >= 0.97


def test_vectors_of_the_fast_resize_stay_as_close(
    engines: tuple[InferenceEngine, InferenceEngine], photos: list[Image.Image]
) -> None:
    files = [jpeg(photo) for photo in photos]
    pairs = [[engine.submit(file).result(60).vector for engine in engines] for file in files]
    cosines = [cosine(*pair) for pair in pairs]
    assert np.median(cosines) >= 0.99
    assert min(cosines) >= 0.98
    assert any((one != other).any() for one, other in pairs) == has_simd()


@pytest.mark.parametrize(
    ("width", "height", "at_least", "expected"),
    [
        (4000, 3000, 512, (1000, 750)),
        (3000, 4000, 512, (750, 1000)),
        (1000, 900, 512, (1000, 900)),
        (1100, 1024, 512, (550, 512)),
    ],
)
def test_the_scale_is_the_least_that_keeps_every_side(
    width: int, height: int, at_least: int, expected: tuple[int, int]
) -> None:
    assert decode(jpeg(Image.new("RGB", (width, height), "red")), at_least=at_least).size == expected


def test_twelve_megapixels_decode_several_times_faster(photos: list[Image.Image]) -> None:
    file = jpeg(mosaic(photos))
    view = open_bundle().manifest.view

    def seconds(at_least: int | None) -> float:
        started = time.thread_time()
        view.apply(decode(file, at_least=at_least))
        return time.thread_time() - started

    whole, fast = min(seconds(None) for _ in range(3)), min(seconds(view.decode_side) for _ in range(3))
    assert whole > 2 * fast


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))
