"""Images out of distribution: corrupted as cameras and files do it, in another picture's style, or drawn as sketches.

All take pixels uint8 (n, side, side, 3) and answer the same; strengths are set for small images and grow.
"""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from nonneg_core.pixels.view import Pixels

Doubles = NDArray[np.float64]
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


def contrast(pixels: Pixels, strength: float) -> Pixels:
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
    "contrast": contrast,
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
