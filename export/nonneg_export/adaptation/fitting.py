"""From the features of photos to the head for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nonneg_core.heads.adapted import Weights, adapted_basis, adapted_head, last
from nonneg_core.heads.head import Head, first
from nonneg_core.heads.rotated import TURNED_ON
from nonneg_core.heads.spread import Rows, Spread, isotropic, streamed, within_classes
from nonneg_export.adaptation.backbone import SourceBundle
from nonneg_export.adaptation.features import Features
from nonneg_export.adaptation.labels import UNLABELLED, Labels
from nonneg_export.adaptation.records import CHUNK, Numbers
from nonneg_export.adaptation.splitting import Parts

FEW = 250  # photos, below which all columns that were trained on ordinary photos stay in front
KEPT = 96  # of them that always do: short prefixes keep telling photos of other kinds apart
MOST_CLASSES = 4096  # whose means lie in memory


@dataclass(frozen=True, eq=False)
class Fitted:
    """A head, and how much of it comes from the photos."""

    head: Head
    front: int  # columns in front that are the source's
    ordinary: Spread  # the statistics that were blended with those of the photos
    weights: Weights
    classes: int  # with two photos or more, whose spread whitened the rows; 0: without labels
    named: int = 0  # columns at the end that are the source's
    steps: int = 0  # in which the front was trained


def fit(source: SourceBundle, features: Features, parts: Parts, labels: Labels, weights: Weights) -> Fitted:
    """Fit the head to the photos of the first part; the second sets its gates."""
    own = streamed(lambda: features.pieces(parts.fit))
    trusted = weights.of(own.count)
    classes = spread_within(features, parts.fit, labels) if labels.useful and weights.labels else None
    some = sample(features, parts.fit)
    ordinary = source.ordinary or isotropic(own)
    basis = adapted_basis(own, ordinary, some, trusted, classes)
    named = last(source.head, source.named) if source.named else None
    dimensions = min(source.head.dimensions, 2 * basis.matrix.shape[1])
    kept = source.trained if own.count < FEW else min(source.trained, KEPT)
    front = first(source.head, kept) if kept else None
    head = adapted_head(basis, some, dimensions, features.roots(parts.gate), front=front, named=named)
    counts = np.bincount(labels.codes[parts.fit][labels.codes[parts.fit] >= 0])
    return Fitted(
        head,
        kept,
        ordinary,
        trusted,
        0 if classes is None else int((counts > 1).sum()),
        source.named,
    )


def spread_within(features: Features, chosen: Numbers, labels: Labels) -> Spread | None:
    """Measure how labelled photos differ from their class's mean; of very many classes, those with the most photos."""
    codes = largest(labels.codes[chosen])

    def read() -> Iterator[tuple[Rows, Numbers]]:
        for i in range(0, len(chosen), CHUNK):
            yield features.roots(chosen[i : i + CHUNK]), codes[i : i + CHUNK]

    return within_classes(read, int(codes.max()) + 1)


def largest(codes: Numbers, most: int = MOST_CLASSES) -> Numbers:
    """Keep the codes where classes are few; else those of the largest, counted again, and none for the others."""
    counts = np.bincount(codes[codes >= 0])
    if len(counts) <= most:
        return codes
    number = np.full(len(counts) + 1, UNLABELLED)  # the last: of no class
    number[np.argsort(-counts, kind="stable")[:most]] = np.arange(most)
    return np.asarray(number[codes])


def sample(features: Features, chosen: Numbers) -> Rows:
    """Return rows of some of the photos, evenly spread over all."""
    return features.roots(sampled(chosen))


def sampled(chosen: Numbers) -> Numbers:
    """Return some of the photos, evenly spread over all."""
    count = min(len(chosen), TURNED_ON)
    return np.asarray(chosen[np.arange(count) * len(chosen) // count])
