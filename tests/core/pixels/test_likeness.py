"""Edits of a photo agree everywhere, other moments of its scene do not; and the sums against a slow second version."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from nonneg_core.pixels.likeness import FLOOR, LEAST_DETAIL, coarse, likeness, mirrored
from nonneg_core.pixels.pixel_checks import GRID, check_pixels


def scene(seed: int) -> Image.Image:
    """Smooth blobs of colour, as a photo seen from afar."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (7, 9, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((320, 240), Image.Resampling.BICUBIC)


def of(*images: Image.Image) -> np.ndarray:
    return np.stack([np.frombuffer(check_pixels(i).thumbnail, np.uint8) for i in images])


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
        "cropped off the centre": photo.crop((w * 3 // 20, h // 20, w * 19 // 20, h * 17 // 20)),
        "darker": photo.point(lambda v: v * 0.6),
    }


@pytest.mark.parametrize("edit", list(edits(scene(0))))
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_edit_of_a_photo_is_like_it_in_either_order(edit: str, seed: int) -> None:
    photo = scene(seed)
    assert alike(photo, edits(photo)[edit]) > 0.9
    assert alike(edits(photo)[edit], photo) > 0.9


def test_other_photos_are_not_alike() -> None:
    assert max(alike(scene(i), scene(j)) for i in range(6) for j in range(i)) < 0.5


def test_a_flat_photo_is_like_nothing_not_even_another() -> None:
    grey = Image.new("RGB", (64, 64), (120, 120, 120))
    assert alike(grey, grey) == 0
    assert alike(grey, scene(0)) == 0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_another_moment_of_a_scene_is_not_a_copy_though_nearly_all_of_it_is_the_same(seed: int) -> None:
    before = scene(seed)
    after = before.copy()
    bird = Image.new("RGB", (60, 60), (250, 250, 250) if np.asarray(before).mean() < 128 else (5, 5, 5))
    before.paste(bird, (80, 60))
    after.paste(bird, (150, 110))
    assert alike(before, after) < 0.5
    assert alike(before, before.crop((12, 6, 308, 234))) > 0.8


def test_of_a_pair_of_one_size_likeness_is_that_of_its_worst_patch() -> None:
    rng = np.random.default_rng(3)
    a = rng.integers(0, 256, (GRID, GRID)).repeat(4, axis=0)[:GRID]
    b = np.clip(a + rng.normal(0, 40, a.shape), 0, 255).round()
    small = [p.reshape(24, 2, 24, 2).mean(axis=(1, 3)) for p in (a.astype(float), b)]
    target, shown = small[1] - small[1].mean(), small[0] - small[0].mean()
    residual = target - (shown * target).sum() / (shown * shown).sum() * shown
    worst = 0.0
    for top in range(0, 24, 4):
        for left in range(0, 24, 4):
            patch = (slice(top, top + 4), slice(left, left + 4))
            floor = max(FLOOR * target.std(), LEAST_DETAIL)
            worst = max(worst, np.sqrt((residual[patch] ** 2).mean()) / (target[patch].std() + floor))
    pictures = np.stack([a, b]).astype(np.uint8).reshape(2, -1)
    assert likeness(pictures, np.array([0]), np.array([1]))[0] == pytest.approx(1 - worst**2, abs=0.02)


def test_pairs_of_two_collections_are_those_of_one_that_holds_both() -> None:
    pictures = of(*(scene(i // 2) for i in range(9)))
    one, other = np.array([0, 3]), np.array([1, 2])
    both = likeness(pictures, one, other + 5)
    assert likeness(pictures[:5], one, other, pictures[5:]).tolist() == both.tolist()


def test_the_coarse_form_has_length_one_and_knows_left_from_right() -> None:
    picture = of(scene(5))
    assert np.linalg.norm(coarse(picture)) == pytest.approx(1, abs=1e-5)
    assert float(coarse(picture)[0] @ coarse(mirrored(picture))[0]) < 0.9
