"""Thumbnails of real photos' edits are alike, those of others are not; and the sums against a slow second version."""

from __future__ import annotations

import math

import numpy as np
import pytest
from PIL import Image

from nonneg_core.pixels.pixel_checks import GRID, PLACES, SCALES, check_pixels, coarse, likeness, mirrored, standardised


def scene(seed: int) -> Image.Image:
    """Smooth blobs of colour, as a photo seen from afar."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (7, 9, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((320, 240), Image.Resampling.BICUBIC)


def of(*images: Image.Image) -> np.ndarray:
    return standardised(np.stack([np.frombuffer(check_pixels(i).thumbnail, np.uint8) for i in images]))


def alike(a: Image.Image, b: Image.Image) -> float:
    return float(likeness(of(a, b), np.array([0]), np.array([1]))[0])


def edits(photo: Image.Image) -> dict[str, Image.Image]:
    w, h = photo.size
    return {
        "half size": photo.resize((w // 2, h // 2)),
        "grey": photo.convert("L").convert("RGB"),
        "mirrored": photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        "cropped in the middle": photo.crop((w // 20, h // 20, w - w // 20, h - h // 20)),
        "cropped at a corner": photo.crop((0, 0, w * 9 // 10, h * 9 // 10)),
        "darker": photo.point(lambda v: v * 0.6),
    }


@pytest.mark.parametrize("edit", list(edits(scene(0))))
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_edit_of_a_photo_is_like_it_in_either_order(edit: str, seed: int) -> None:
    photo = scene(seed)
    assert alike(photo, edits(photo)[edit]) > 0.95
    assert alike(edits(photo)[edit], photo) > 0.95


def test_other_photos_are_not_alike() -> None:
    assert max(alike(scene(i), scene(j)) for i in range(6) for j in range(i)) < 0.8


def test_a_flat_photo_is_like_nothing_not_even_another() -> None:
    grey = Image.new("RGB", (64, 64), (120, 120, 120))
    assert alike(grey, grey) == 0
    assert alike(grey, scene(0)) == 0


def test_likeness_is_the_best_correlation_over_windows_mirrors_and_sides() -> None:
    z = of(scene(3), scene(4))

    def correlation(a: np.ndarray, b: np.ndarray) -> float:
        a, b = a - a.mean(), b - b.mean()
        return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))

    def through(p: list[float], t: float) -> float:
        """The curve of Catmull and Rom between the second and the third of four values."""
        slope, end = (p[2] - p[0]) / 2, (p[3] - p[1]) / 2
        return (
            (2 * t**3 - 3 * t**2 + 1) * p[1] + (t**3 - 2 * t**2 + t) * slope
            + (3 * t**2 - 2 * t**3) * p[2] + (t**3 - t**2) * end
        )  # fmt: skip

    def between(picture: np.ndarray, y: float, x: float) -> float:
        top, left = math.floor(y), math.floor(x)
        at = [[min(max(k + step, 0), GRID - 1) for step in (-1, 0, 1, 2)] for k in (top, left)]
        return through([through([float(picture[r, s]) for s in at[1]], x - left) for r in at[0]], y - top)

    def window(picture: np.ndarray, scale: float, top: float, left: float) -> np.ndarray:
        places = [scale * (i + 0.5) - 0.5 for i in range(GRID)]
        room = (1 - scale) * GRID
        return np.array([[between(picture, top * room + y, left * room + x) for x in places] for y in places])

    best = -1.0
    for whole, part in ((z[0], z[1]), (z[1], z[0])):
        for turned in (part, part[:, ::-1]):
            best = max(best, correlation(whole, turned))
            for scale in SCALES:
                for top in PLACES:
                    for left in PLACES:
                        best = max(best, correlation(window(whole, scale, top, left), turned))
    assert likeness(z, np.array([0]), np.array([1]))[0] == pytest.approx(best, abs=1e-5)


def test_pairs_of_two_collections_are_those_of_one_that_holds_both() -> None:
    z = standardised(np.random.default_rng(5).integers(0, 256, (9, GRID * GRID), dtype=np.uint8))
    one, other = np.array([0, 3]), np.array([1, 2])
    both = likeness(z, one, other + 5)
    assert likeness(z[:5], one, other, z[5:]).tolist() == both.tolist()


def test_the_coarse_form_has_length_one_and_knows_left_from_right() -> None:
    z = of(scene(5))
    assert np.linalg.norm(coarse(z)) == pytest.approx(1, abs=1e-5)
    assert float(coarse(z)[0] @ coarse(mirrored(z))[0]) < 0.9
