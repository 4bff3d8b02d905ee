"""Checks of preprocessing: the server's pixels against the evaluation's, fast decoding against decoding in full."""

import io
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nonneg_core.arrays import Floats
from nonneg_core.errors import CheckFailed
from nonneg_core.pixels.decode import decode
from nonneg_core.pixels.view import Pixels, View
from nonneg_core.shortening import unit
from nonneg_export.calibrate.photo_folder import load_pixels, preprocessed
from nonneg_export.checks.encoder_checks import PHOTOS, evenly_spread, must_hold
from nonneg_runtime.bundle.evidence import Check
from nonneg_runtime.inference.runner import Runner

logger = logging.getLogger("nonneg")
LARGEST = 8  # of the photos: those that fast decoding makes smallest
LEAST_MEDIAN = 0.97  # cosine to the vector of the photo decoded in full: whitened, gated columns feel more
WORST_RESIZED, MEDIAN_RESIZED = 0.999, 0.9998  # cosines, of a smooth encoder, between the two resizes
PATCHES = 8  # a side of the picture of averages in which two ways to see a photo are compared
MOST_DIFFERENT = 2 / 255  # of these averages
HALF_A_PIXEL = 0.5  # by which a crop of whole pixels may lie elsewhere than a view's
TILES = 4  # a side of the sheet that stands for a large photo


def sees_alike(view: View, evaluation: Callable[[Path], Pixels], paths: Sequence[Path]) -> Check:
    """Check that a photo decoded in full gives the very pixels of the evaluation view."""
    differing = sum(
        not np.array_equal(load_pixels(path, view, exact=True)[0], evaluation(path))
        for path in evenly_spread(paths, PHOTOS)
    )
    what = "photos whose pixels, decoded in full, differ from the evaluation view's"
    return must_hold(Check(name="view", what=what, value=differing, limit=0))


def sees_as_original(view: View, original: Callable[[Image.Image], Floats], paths: Sequence[Path]) -> Check:
    """Check that the view shows of a photo what the original framework's own processor shows."""
    differences = [_difference(view, original, path) for path in evenly_spread(paths, PHOTOS)]
    value, limit = float(np.mean(differences)), MOST_DIFFERENT + HALF_A_PIXEL / view.size
    what = (
        f"mean difference, of 1, of {len(differences)} photos' pixels to those of the original framework's processor, "
        f"averaged in {PATCHES} x {PATCHES} patches"
    )
    if not value <= limit:
        raise CheckFailed(
            f"check 'pixels' failed: {what}: {value:.3g}, allowed {limit:.3g}",
            fix="say how photos are seen with --size, --crop, --fit, --interpolation, --mean and --std",
            field="pixels",
            value=value,
            limit=limit,
        )
    return Check(name="pixels", what=what, value=value, limit=limit)


def _difference(view: View, original: Callable[[Image.Image], Floats], path: Path) -> float:
    """Return the mean difference between two ways to see a photo, of 1; 1 where their sizes differ."""
    photo = decode(path.read_bytes(), background=view.background)
    ours, theirs = view.apply(photo), original(photo)
    if ours.shape != theirs.shape:
        return 1.0
    return float(np.abs(_averages(ours) - _averages(theirs)).mean() / 255)


def _averages(pixels: NDArray[Any]) -> Floats:
    """Return the averages of patches, channel by channel."""
    channels = np.asarray(pixels, dtype=np.float32).transpose(2, 0, 1)
    small = [Image.fromarray(one).resize((PATCHES, PATCHES), Image.Resampling.BOX) for one in channels]
    return np.stack([np.asarray(one) for one in small])


def decodes_alike(session: Runner, view: View, paths: Sequence[Path]) -> Check:
    """Check that a photo decoded at a smaller scale, as large JPEGs are by default, is hardly another one."""
    some = evenly_spread(paths, PHOTOS)
    largest = sorted(paths, key=lambda path: path.stat().st_size)[-LARGEST:]
    files = [*(path.read_bytes() for path in dict.fromkeys([*some, *largest])), sheet(some, view)]
    pairs = [(by_pillow(data, view), preprocessed(data, view, exact=True)) for data in files]
    other = [pair for pair in pairs if not np.array_equal(*pair)]  # the rest were small enough to be decoded in full
    cosines = _cosines(session, other)
    what = (
        f"1 - median cosine of large JPEGs decoded smaller to decoded in full (least {cosines.min():.4f}), "
        f"on {max(0, len(other) - 1)} photos and a sheet of {TILES**2}"
    )
    return must_hold(Check(name="decode", what=what, value=1 - float(np.median(cosines)), limit=1 - LEAST_MEDIAN))


def resizes_alike(session: Runner, view: View, paths: Sequence[Path]) -> Check:
    """Check that a photo resized with SIMD instructions, the default, has nearly the vector of Pillow's resize."""
    files = [path.read_bytes() for path in evenly_spread(paths, PHOTOS)]
    cosines = _cosines(session, [(preprocessed(data, view), by_pillow(data, view)) for data in files])
    worst, median = float(cosines.min()), float(np.median(cosines))
    if worst < WORST_RESIZED or median < MEDIAN_RESIZED:
        logger.warning(
            "resized with SIMD, these photos' vectors have a cosine of %.4f at worst and %.5f at the median to those "
            "of Pillow's resize, where a smooth encoder has %g and %g: serve with --decode exact if that matters",
            worst, median, WORST_RESIZED, MEDIAN_RESIZED,
        )  # fmt: skip
    what = (
        f"1 - worst cosine of photos resized as by default to resized by Pillow (median {median:.5f}; of a "
        f"smooth encoder {WORST_RESIZED} at worst, {MEDIAN_RESIZED} at the median), on {len(files)} photos"
    )
    return must_hold(Check(name="resize", what=what, value=1 - worst, limit=1 - LEAST_MEDIAN))


def by_pillow(data: bytes, view: View) -> Pixels:
    """Return a file's bytes decoded as by default, and resized by Pillow."""
    return view.apply(decode(data, background=view.background, at_least=view.decode_side))


def _cosines(session: Runner, pairs: Sequence[tuple[Pixels, Pixels]]) -> Floats:
    """Return the cosines of each pair of vectors; 1 where both are zero."""
    if not pairs:
        return np.ones(1, np.float32)
    one, other = (unit(np.concatenate([session.run(p[None]) for p in side])) for side in zip(*pairs, strict=True))
    cosines: Floats = np.where(one.any(axis=1) | other.any(axis=1), (one * other).sum(axis=1), 1)
    return cosines


def sheet(paths: Sequence[Path], view: View) -> bytes:
    """Return photos side by side in one JPEG so large that it is decoded smaller, with detail at every scale."""
    side = view.decode_side
    canvas = Image.new("RGB", (TILES * side,) * 2)
    for number in range(TILES**2):
        photo = decode(paths[number % len(paths)].read_bytes(), background=view.background)
        canvas.paste(photo.resize((side, side)), (number % TILES * side, number // TILES * side))
    buffer = io.BytesIO()
    canvas.save(buffer, "JPEG", quality=92)
    return buffer.getvalue()
