"""How much a probe loses: on corrupted, stylised and sketched images, of few labels, of wrong ones.

Corruptions take pixels uint8 (n, side, side, 3) and answer the same; strengths are set for small images and grow.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from nonneg_core.arrays import Doubles, Places
from nonneg_core.pixels.view import Pixels, View
from nonneg_training.data import Arrays, Images
from nonneg_training.measure.encoder_outputs import Outputs, Run, encode_images
from nonneg_vectors.evaluation.linear_probes import probe

Corruption = Callable[[Pixels, float], Pixels]


def corrupt(name: str, pixels: Pixels, strength: float) -> Pixels:
    """Return the images, corrupted."""
    return CORRUPTIONS[name](pixels, strength)


def noise(pixels: Pixels, strength: float) -> Pixels:
    """Add Gaussian noise of this standard deviation, of 0..1; the same for the same images."""
    added = np.random.default_rng(0).normal(scale=255 * strength, size=pixels.shape)
    return _clipped(pixels + added)


def blur(pixels: Pixels, strength: float) -> Pixels:
    """Blur by a Gaussian of this radius in pixels."""
    return _each(pixels, lambda image: image.filter(ImageFilter.GaussianBlur(strength)))


def changed_contrast(pixels: Pixels, strength: float) -> Pixels:
    """Scale the distance from each image's mean grey by this."""
    mean = pixels.mean(axis=(1, 2, 3), keepdims=True)
    return _clipped(mean + (pixels - mean) * strength)


def brightness(pixels: Pixels, strength: float) -> Pixels:
    """Add so much, of 0..1, to every pixel."""
    return _clipped(pixels + 255 * strength)


def pixelation(pixels: Pixels, strength: float) -> Pixels:
    """Shrink to this share of the side, and back without smoothing."""
    side = pixels.shape[1]
    small = max(2, round(side * strength))
    box, nearest = Image.Resampling.BOX, Image.Resampling.NEAREST
    return _each(pixels, lambda image: image.resize((small, small), box).resize((side, side), nearest))


def jpeg(pixels: Pixels, strength: float) -> Pixels:
    """Compress at this quality and open again."""

    def through(image: Image.Image) -> Image.Image:
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=int(strength))
        return Image.open(buffer).convert("RGB")

    return _each(pixels, through)


def stylised(pixels: Pixels, strength: float) -> Pixels:
    """Mix each image's phases with this share of another's amplitudes, and the other's mean and spread of colours."""
    order = np.roll(np.random.default_rng(0).permutation(len(pixels)), 1)
    other = pixels[order].astype(np.float64)
    own = pixels.astype(np.float64)
    spectra = [np.fft.fft2(x, axes=(1, 2)) for x in (own, other)]
    amplitude = (1 - strength) * np.abs(spectra[0]) + strength * np.abs(spectra[1])
    mixed: Doubles = np.fft.ifft2(amplitude * np.exp(1j * np.angle(spectra[0])), axes=(1, 2)).real
    means = [x.mean(axis=(1, 2), keepdims=True) for x in (mixed, other)]
    spreads = [x.std(axis=(1, 2), keepdims=True) + 1e-6 for x in (mixed, other)]
    recoloured = (mixed - means[0]) / spreads[0] * spreads[1] + means[1]
    return _clipped((1 - strength) * mixed + strength * recoloured)


def sketch(pixels: Pixels, strength: float) -> Pixels:
    """Draw dark lines on white where the difference of two blurs is negative; a larger factor gives harder lines."""
    grey = pixels.mean(axis=3)
    near, far = (_smooth(grey, radius) for radius in (0.5, 1.2))
    lines = np.clip(255 + strength * np.minimum(near - far, 0), 0, 255)
    return _clipped(np.repeat(lines[..., None], 3, axis=3))


CORRUPTIONS: dict[str, Corruption] = {
    "noise": noise,
    "blur": blur,
    "contrast": changed_contrast,
    "brightness": brightness,
    "pixelation": pixelation,
    "jpeg": jpeg,
    "stylised": stylised,
    "sketch": sketch,
}
STRENGTHS: dict[str, tuple[float, ...]] = {
    "noise": (0.04, 0.06, 0.08, 0.09, 0.10),
    "blur": (0.4, 0.6, 0.8, 1.0, 1.3),
    "contrast": (0.75, 0.5, 0.4, 0.3, 0.15),
    "brightness": (0.05, 0.1, 0.15, 0.2, 0.3),
    "pixelation": (0.95, 0.85, 0.75, 0.65, 0.55),
    "jpeg": (80, 65, 58, 50, 40),
    "stylised": (0.2, 0.4, 0.6, 0.8, 1.0),
    "sketch": (4, 6, 8, 12, 16),
}


def _smooth(grey: Doubles, radius: float) -> Doubles:
    """Blur by a Gaussian in the frequency domain."""
    frequency = np.fft.fftfreq(grey.shape[1])
    squares = frequency[:, None] ** 2 + frequency[None, :] ** 2
    smooth: Doubles = np.fft.ifft2(np.fft.fft2(grey) * np.exp(-2 * (np.pi * radius) ** 2 * squares)).real
    return smooth


def _each(pixels: Pixels, change: Callable[[Image.Image], Image.Image]) -> Pixels:
    changed: Pixels = np.stack([np.asarray(change(Image.fromarray(image))) for image in pixels])
    return changed


def _clipped(values: NDArray[np.floating]) -> Pixels:
    clipped: Pixels = np.rint(np.clip(values, 0, 255)).astype(np.uint8)
    return clipped


SIDES = ("backbone", "embedding")
APART = ("stylised", "sketch")  # no mere corruption: counted by themselves
Figures = dict[str, float | list[float] | None]


def corrupted(run: Run, images: Images, view: View, taught: Outputs) -> Figures:
    """Return accuracy of a probe that learnt from clean images, on each corruption of the others; and their mean."""
    pixels = images.pixels(range(len(images)), view)
    whole = view.model_copy(update={"crop": 1.0})  # the pixels are cropped already
    figures: Figures = {}
    for name in CORRUPTIONS:
        scores = []
        for strength in STRENGTHS[name]:
            outputs = encode_images(run, _as_images(corrupt(name, pixels, strength), images), whole, seconds=False)
            scores.append(_both(taught, outputs))
        for side, values in zip(SIDES, np.array(scores).T, strict=True):
            figures[f"corrupted.{name}.{side}.probe"] = float(values.mean())
            figures[f"corrupted.{name}.{side}.by_strength"] = values.tolist()
    for side in SIDES:
        means = [figures[f"corrupted.{name}.{side}.probe"] for name in CORRUPTIONS if name not in APART]
        figures[f"corrupted.common.{side}.probe"] = float(np.mean([mean for mean in means if isinstance(mean, float)]))
    return figures


def few_shots(taught: Outputs, tested: Outputs, shots: Sequence[int], seed: int) -> Figures:
    """Return accuracy of a probe that learns from so many images a class; the mean of five draws."""
    figures: Figures = {}
    for count in shots:
        draws = [_few(taught.labels, count, np.random.default_rng((seed, draw))) for draw in range(5)]
        scores = np.mean([_both(taught, tested, rows=rows) for rows in draws], axis=0)
        figures |= {f"shots.{count}.{side}.probe": float(v) for side, v in zip(SIDES, scores, strict=True)}
    return figures


def noisy_labels(taught: Outputs, tested: Outputs, shares: Sequence[float], seed: int) -> Figures:
    """Return accuracy of a probe that learns from labels of which a share was replaced by any of the classes."""
    figures: Figures = {}
    names = np.unique(taught.labels)
    for share in shares:
        rng = np.random.default_rng((seed, round(share * 1000)))
        wrong = rng.random(len(taught.labels)) < share
        labels = np.where(wrong, rng.choice(names, len(taught.labels)), taught.labels)
        scores = _both(taught, tested, labels=labels)
        figures |= {f"noise.{share:g}.{side}.probe": float(v) for side, v in zip(SIDES, scores, strict=True)}
    return figures


def _both(
    taught: Outputs, tested: Outputs, *, rows: Places | None = None, labels: NDArray[Any] | None = None
) -> tuple[float, float]:
    """Return the probe's accuracy on the backbone's features and on the embedding."""
    chosen = np.arange(len(taught.labels)) if rows is None else rows
    names = taught.labels if labels is None else labels
    assert taught.features is not None
    assert tested.features is not None
    sides = [(taught.features, tested.features), (taught.z, tested.z)]
    first, second = (probe(before[chosen], names[chosen], after, tested.labels) for before, after in sides)
    return first, second


def _few(labels: NDArray[Any], count: int, rng: np.random.Generator) -> Places:
    rows = [rng.permutation(np.flatnonzero(labels == name))[:count] for name in np.unique(labels)]
    return np.concatenate(rows)


def _as_images(pixels: Pixels, like: Images) -> Images:
    return Arrays(like.name, pixels, like.labels, like.classes)
