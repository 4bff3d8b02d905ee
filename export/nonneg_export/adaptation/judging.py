"""What an adapted head gained and lost beside the one it came from, on photos that neither was fitted on.

With labels: retrieval, query by query. Without: whether a photo is found by a random part of it; this says that a model
tells photos apart, and nothing of whether what it calls alike is alike to people.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from nonneg_core.errors import NonnegError
from nonneg_core.evaluation.lengths import Length, asked, cut
from nonneg_core.evaluation.metrics import retrieval
from nonneg_core.evaluation.uncertainty import paired
from nonneg_core.heads.head import Head
from nonneg_core.heads.spread import Rows
from nonneg_core.pixels.decode import decode
from nonneg_core.shortening import Vectors, unit
from nonneg_export.adaptation.backbone import FeatureBackbone
from nonneg_export.adaptation.features import Features, read_file
from nonneg_export.adaptation.records import Numbers
from nonneg_runtime.evidence import OTHERS, Gain
from nonneg_runtime.preprocess import Preprocessor

PREFIXES = (512, 256, 128, 64)
K = 100  # of mAP
METRICS = ("P@1", "P@10", f"mAP@{K}")
FOUND = "own part"  # found by a random part of it
POINT = 0.01  # that may be lost on photos of other kinds
VIEWED = 1000  # photos of which a part is looked for
PART = (0.3, 0.7)  # of a photo's area
SURE = 0.05  # the chance of calling one loss anywhere significant where there is none

Scores = dict[str, NDArray[np.float64]]


def lengths_of(dimensions: int) -> list[Length]:
    """List the lengths: everything, prefixes, and a tenth of each vector stored and asked whole."""
    prefixes = [Length(n) for n in (dimensions, *PREFIXES) if n <= dimensions]
    return [*dict.fromkeys(prefixes), Length(dimensions, max(1, round(dimensions / 10)), asked_whole=True)]


def by_labels(before: Head, after: Head, rows: Rows, codes: Numbers) -> list[Gain]:
    """Measure retrieval of photos of the same class, each asking for the others."""

    def scores(z: Vectors, length: Length) -> Scores:
        report = retrieval(cut(z, length), codes, asked(z, length), k=K, same=True).scores()
        return {name: report[name] for name in METRICS}

    return _gains(scores, before.embed(rows), after.embed(rows))


def by_views(before: Head, after: Head, rows: Rows, parts: Rows) -> list[Gain]:
    """Measure how often a random part of a photo finds this photo first."""
    own = np.arange(len(rows))
    sides = [np.concatenate([head.embed(rows), head.embed(parts)]) for head in (before, after)]

    def scores(z: Vectors, length: Length) -> Scores:
        whole, part = unit(cut(z[: len(own)], length)), unit(asked(z[len(own) :], length))
        return {FOUND: ((part @ whole.T).argmax(axis=1) == own).astype(np.float64)}

    return _gains(scores, *sides)


def _gains(scores: Any, before: Vectors, after: Vectors) -> list[Gain]:
    found = []
    for length in lengths_of(before.shape[1]):
        one, other = scores(before, length), scores(after, length)
        for name in one:
            d = paired(one[name], other[name])
            found.append(
                Gain(
                    length=str(length), metric=name, before=float(one[name].mean()), after=float(other[name].mean()),
                    difference=d.mean, low=d.low, high=d.high, p=d.p, queries=len(one[name]),
                )
            )  # fmt: skip
    return found


def of_others(gains: Iterable[Gain]) -> list[Gain]:
    """Return the same measures, of photos of other kinds."""
    return [gain.model_copy(update={"metric": OTHERS + gain.metric}) for gain in gains]


def losses(gains: Iterable[Gain]) -> list[Gain]:
    """Find losses by labels that chance does not explain; on photos of other kinds, those of more than a point."""
    compared = [gain for gain in gains if not gain.metric.endswith(FOUND)]
    sure = [gain for gain in compared if gain.p < SURE / len(compared)]
    return [gain for gain in sure if gain.difference < (-POINT if gain.metric.startswith(OTHERS) else 0)]


def parts_of(
    features: Features, chosen: Numbers, backbone: FeatureBackbone, viewer: Preprocessor
) -> tuple[Numbers, Rows]:
    """Return photos that could be read once more, and the roots of a random, mirrored part of each."""
    kept, found = [], []
    for photo, digest in zip(chosen[:VIEWED].tolist(), features.digests(chosen[:VIEWED]), strict=True):
        try:
            picture = decode(read_file(features.path(photo)))
        except (NonnegError, OSError):  # it is gone meanwhile
            continue
        seed = int.from_bytes(bytes(digest)[:8], "little")
        found.append(backbone.roots(viewer.pixels(_part(picture, np.random.default_rng(seed)))[None])[0])
        kept.append(photo)
    return np.array(kept, dtype=np.int64), np.array(found, dtype=np.float32).reshape(len(kept), backbone.features)


def _part(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Return a window of the picture's own proportions, mirrored."""
    side = float(np.sqrt(rng.uniform(*PART)))
    width, height = (max(1, round(side * whole)) for whole in picture.size)
    left, top = rng.integers(0, picture.width - width + 1), rng.integers(0, picture.height - height + 1)
    return ImageOps.mirror(picture.crop((int(left), int(top), int(left) + width, int(top) + height)))
