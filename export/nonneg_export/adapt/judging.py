"""What an adapted head gained and lost on photos that neither head was fitted on, in figures and sentences.

With labels: retrieval, query by query. Without: whether a photo is found by a random part of it. This says that a model
tells photos apart, and nothing of whether what it calls alike is alike to people.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from nonneg_core.arrays import Doubles, Numbers, Rows
from nonneg_core.errors import NonnegError
from nonneg_core.pixels.decode import decode
from nonneg_core.shortening import Vectors, unit
from nonneg_export.adapt.backbone import FeatureBackbone
from nonneg_export.adapt.photo_features import Features, read_file
from nonneg_runtime.bundle.evidence import OTHERS, Gain
from nonneg_runtime.heads.head import Head
from nonneg_runtime.seeing.preprocess import Preprocessor
from nonneg_vectors.evaluation.retrieval import Length, RetrievalTask, as_queries, cut_to_length
from nonneg_vectors.evaluation.uncertainty import paired

PREFIXES = (512, 256, 128, 64)
K = 100  # of mAP
METRICS = ("P@1", "P@10", f"mAP@{K}")
FOUND = "own part"  # found by a random part of it
POINT = 0.01  # that may be lost on photos of other kinds
VIEWED = 1000  # photos of which a part is looked for
PART = (0.3, 0.7)  # of a photo's area
SURE = 0.05  # the chance of calling one loss anywhere significant where there is none

Scores = dict[str, Doubles]


def lengths_of(dimensions: int) -> list[Length]:
    """List the lengths: everything, prefixes, and a tenth of each vector stored and asked whole."""
    prefixes = [Length(n) for n in (dimensions, *PREFIXES) if n <= dimensions]
    return [*dict.fromkeys(prefixes), Length(dimensions, max(1, round(dimensions / 10)), asked_whole=True)]


def by_labels(before: Head, after: Head, rows: Rows, codes: Numbers) -> list[Gain]:
    """Measure retrieval of photos of the same class, each asking for the others."""

    def scores(z: Vectors, length: Length) -> Scores:
        by_metric = RetrievalTask(z, codes).report(length, K)[0].scores()
        return {name: by_metric[name] for name in METRICS}

    return _gains(scores, before.embed(rows), after.embed(rows))


def by_views(before: Head, after: Head, rows: Rows, parts: Rows) -> list[Gain]:
    """Measure how often a random part of a photo finds this photo first."""
    own = np.arange(len(rows))
    sides = [np.concatenate([head.embed(rows), head.embed(parts)]) for head in (before, after)]

    def scores(z: Vectors, length: Length) -> Scores:
        whole, part = unit(cut_to_length(z[: len(own)], length)), unit(as_queries(z[len(own) :], length))
        return {FOUND: ((part @ whole.T).argmax(axis=1) == own).astype(np.float64)}

    return _gains(scores, *sides)


def _gains(scores: Any, before: Vectors, after: Vectors) -> list[Gain]:
    gains = []
    for length in lengths_of(before.shape[1]):
        one, other = scores(before, length), scores(after, length)
        for name in one:
            d = paired(one[name], other[name])
            gains.append(
                Gain(
                    length=str(length), metric=name, before=float(one[name].mean()), after=float(other[name].mean()),
                    difference=d.mean, low=d.low, high=d.high, p=d.p, queries=len(one[name]),
                )
            )  # fmt: skip
    return gains


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
    photos, views = [], []
    for photo, digest in zip(chosen[:VIEWED].tolist(), features.digests(chosen[:VIEWED]), strict=True):
        try:
            picture = decode(read_file(features.path(photo)))
        except (NonnegError, OSError):  # it is gone meanwhile
            continue
        seed = int.from_bytes(bytes(digest)[:8], "little")
        views.append(backbone.roots(viewer.pixels(_part(picture, np.random.default_rng(seed)))[None])[0])
        photos.append(photo)
    return np.array(photos, dtype=np.int64), np.array(views, dtype=np.float32).reshape(len(photos), backbone.features)


def _part(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Return a window of the picture's own proportions, mirrored."""
    side = float(np.sqrt(rng.uniform(*PART)))
    width, height = (max(1, round(side * whole)) for whole in picture.size)
    left, top = rng.integers(0, picture.width - width + 1), rng.integers(0, picture.height - height + 1)
    return ImageOps.mirror(picture.crop((int(left), int(top), int(left) + width, int(top) + height)))


# What an adaptation came to, in sentences: gained and lost by length, and what cannot be known.

FEW = 200  # photos to judge by, below which an interval is wide


def verdict(gains: Sequence[Gain], judged: int, *, source_front: bool = False) -> str:
    """Say what was gained and lost, and what is not known; `source_front`: the source's columns are still in front."""
    own = [gain for gain in gains if not gain.metric.startswith(OTHERS)]
    labelled = any(gain.metric in METRICS for gain in own)
    lost = losses(gains)
    where = ", ".join(f"{gain.metric} at {gain.length} ({gain.difference:+.3f})" for gain in lost)
    sentences = [f"Against the model it was made from it loses {where}."] if lost else []
    sentences += [_labelled(own) if labelled else _unlabelled(own)]
    if judged < FEW:
        sentences += [f"{judged} photos to judge by are few: only large differences show."]
    return " ".join([*sentences, _others(gains) if len(gains) > len(own) else _unknown(source_front=source_front)])


def _labelled(gains: Sequence[Gain]) -> str:
    gained = sum(gain.low > 0 for gain in gains)
    worse = "" if losses(gains) else ", none is surely worse"
    return f"P@1 changed by {_changes(gains, METRICS[0])}; {gained} of {len(gains)} measures are surely better{worse}."


def _unlabelled(gains: Sequence[Gain]) -> str:
    return (
        f"The share of photos that a random part of them finds first changed by {_changes(gains, FOUND)}. Without "
        "labels it cannot be known whether what is found is what people look for: label a few hundred photos and run "
        "it again."
    )


def _others(gains: Sequence[Gain]) -> str:
    if changes := _changes(gains, OTHERS + METRICS[0]):
        return f"On the photos of other kinds P@1 changed by {changes}."
    changes = _changes(gains, OTHERS + FOUND)
    return (
        f"On the photos of other kinds, which have no labels, the share that a part of them finds changed by {changes}."
    )


def _unknown(*, source_front: bool) -> str:
    """Return what is known of photos of other kinds where none were given."""
    if source_front:
        others = "on those of other kinds P@1 at 128 to 512 dimensions lost up to three points where that was measured"
    else:
        others = "on photos of other kinds short prefixes lose"
    return f"This holds for photos of this kind; {others} (--others FOLDER measures it)."


def _changes(gains: Sequence[Gain], metric: str) -> str:
    return ", ".join(f"{gain.difference:+.3f} at {gain.length}" for gain in gains if gain.metric == metric)
