"""How much a probe loses: on corrupted, stylised and sketched images, of few labels, of wrong ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.evaluation.probe import probe
from nonneg_core.pixels.view import Pixels, View
from nonneg_training.data import Arrays, Images
from nonneg_training.measure.corruptions import CORRUPTIONS, STRENGTHS, corrupt
from nonneg_training.measure.outputs import Outputs, Run, see

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
            seen = see(run, _as_images(corrupt(name, pixels, strength), images), whole, seconds=False)
            scores.append(_both(taught, seen))
        for side, values in zip(SIDES, np.array(scores).T, strict=True):
            figures[f"corrupted.{name}.{side}.probe"] = float(values.mean())
            figures[f"corrupted.{name}.{side}.by_strength"] = values.tolist()
    for side in SIDES:
        means = [figures[f"corrupted.{name}.{side}.probe"] for name in CORRUPTIONS if name not in APART]
        figures[f"corrupted.common.{side}.probe"] = float(np.mean([mean for mean in means if isinstance(mean, float)]))
    return figures


def few_shots(taught: Outputs, asked: Outputs, shots: Sequence[int], seed: int) -> Figures:
    """Return accuracy of a probe that learns from so many images a class; the mean of five draws."""
    figures: Figures = {}
    for count in shots:
        draws = [_few(taught.labels, count, np.random.default_rng((seed, draw))) for draw in range(5)]
        scores = np.mean([_both(taught, asked, rows=rows) for rows in draws], axis=0)
        figures |= {f"shots.{count}.{side}.probe": float(v) for side, v in zip(SIDES, scores, strict=True)}
    return figures


def noisy_labels(taught: Outputs, asked: Outputs, shares: Sequence[float], seed: int) -> Figures:
    """Return accuracy of a probe that learns from labels of which a share was replaced by any of the classes."""
    figures: Figures = {}
    names = np.unique(taught.labels)
    for share in shares:
        rng = np.random.default_rng((seed, round(share * 1000)))
        wrong = rng.random(len(taught.labels)) < share
        labels = np.where(wrong, rng.choice(names, len(taught.labels)), taught.labels)
        scores = _both(taught, asked, labels=labels)
        figures |= {f"noise.{share:g}.{side}.probe": float(v) for side, v in zip(SIDES, scores, strict=True)}
    return figures


def _both(
    taught: Outputs, asked: Outputs, *, rows: NDArray[np.intp] | None = None, labels: NDArray[Any] | None = None
) -> tuple[float, float]:
    """Return the probe's accuracy on the backbone's features and on the embedding."""
    chosen = np.arange(len(taught.labels)) if rows is None else rows
    names = taught.labels if labels is None else labels
    assert taught.features is not None
    assert asked.features is not None
    sides = [(taught.features, asked.features), (taught.z, asked.z)]
    first, second = (probe(before[chosen], names[chosen], after, asked.labels) for before, after in sides)
    return first, second


def _few(labels: NDArray[Any], count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    rows = [rng.permutation(np.flatnonzero(labels == name))[:count] for name in np.unique(labels)]
    return np.concatenate(rows)


def _as_images(pixels: Pixels, like: Images) -> Images:
    return Arrays(like.name, pixels, like.labels, like.classes)
