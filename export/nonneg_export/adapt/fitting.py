"""Photos in two parts, which no photo shares with its copy: one to fit a head on, and with labels one to judge it by.

Which part a photo is in depends on the content of its file, so that it stays there under any name and in any folder.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nonneg_core.arrays import Numbers, Rows
from nonneg_core.errors import DataInvalid
from nonneg_core.pixels.likeness import coarse, likeness, mirrored
from nonneg_core.shortening import unit
from nonneg_export.adapt.backbone import SourceBundle
from nonneg_export.adapt.photo_features import Features
from nonneg_export.adapt.photo_labels import UNLABELLED, Labels
from nonneg_export.calibrate.photo_records import CHUNK
from nonneg_runtime.heads.analytic_head import TURNED_ON
from nonneg_runtime.heads.feature_head import Weights, adapted_basis, adapted_head
from nonneg_runtime.heads.head import Head, first, taken
from nonneg_runtime.heads.moments import Spread, isotropic, streamed, within_classes
from nonneg_vectors.curation.neighbours import PairLimits, Pairs, copies

JUDGED = 4  # one photo of so many is kept to judge by
MOST_JUDGED = 5000
LEAST = 50  # photos that are not copies of each other
COPIES = PairLimits()
AT_ONCE = 512  # photos that are compared with those of two parts


@dataclass(frozen=True, eq=False)
class Parts:
    """Readable photos by number: to fit on, and to judge by, where no copies are."""

    fit: Numbers
    judged: Numbers
    copies: int  # photos that were taken out of the last part as copies


def split(features: Features, head: Head, *, judged: bool = True) -> Parts:
    """Return the parts of the photos; `head`: whose vectors tell copies, together with thumbnails.

    judged: whether there is something to judge by; else all photos are to be fitted on.
    """
    everyone = np.arange(len(features))
    beginnings = features.digests(everyone).view("<u8").reshape(-1, 4)[:, 0].copy()
    first = np.zeros(len(features), dtype=bool)  # of equal files
    first[np.unique(beginnings, return_index=True)[1]] = True
    if first.sum() < LEAST:
        raise _too_few(len(features), int(first.sum()), int((~first).sum()))
    if not judged:
        return Parts(everyone, everyone[:0], 0)
    apart = beginnings.view("<u4")[::2] % max(JUDGED, -(-len(features) // MOST_JUDGED)) == 0
    near = _copied(features, head, everyone[apart & first], everyone[first])
    copied = np.union1d(everyone[apart & ~first], near)
    parts = Parts(everyone[~apart], np.setdiff1d(everyone[apart], copied), len(copied))
    if len(parts.judged) < 2:
        raise _too_few(len(features), int(first.sum()), len(copied))
    return parts


def _too_few(photos: int, distinct: int, copied: int) -> DataInvalid:
    return DataInvalid(
        f"{photos} photos, {distinct} of them different files and {copied} copies of others, are too "
        "few to fit a head on some and judge it by others",
        fix=f"give at least {LEAST} different photos, better 500",
        field="photos",
        value=distinct,
        limit=LEAST,
    )


def _copied(features: Features, head: Head, apart: Numbers, everyone: Numbers) -> Numbers:
    """Return the photos of `apart` that are copies of one that is not in it, or of an earlier one in it."""
    mine = unit(head.embed(features.roots(apart)))
    pictures = features.thumbnails(apart)
    small = coarse(pictures)
    place = np.full(len(features), -1)
    place[apart] = np.arange(len(apart))
    copied = np.zeros(len(apart), dtype=bool)
    for start in range(0, len(everyone), AT_ONCE):
        others = everyone[start : start + AT_ONCE]
        theirs = features.thumbnails(others)
        near = unit(head.embed(features.roots(others))) @ mine.T  # cosines (others, apart)
        rough = np.maximum(coarse(theirs) @ small.T, coarse(mirrored(theirs)) @ small.T)
        look = (near >= COPIES.least) & (rough >= COPIES.coarse) & ~copied
        row, column = np.nonzero(look & (place[others][:, None] < np.arange(len(apart))))
        alike = likeness(theirs, row, column, pictures)
        copied[column[copies(Pairs(row, column, near[row, column], alike), COPIES)]] = True
    return apart[copied]


# From the features of photos to the head for them.

KEPT = 96  # columns in front that stay where that is asked for, and where photos are few
FEW = 200  # photos, of which fewer do not show which directions should come first
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


def fit(
    source: SourceBundle,
    features: Features,
    parts: Parts,
    labels: Labels,
    weights: Weights,
    *,
    keep_front: bool = False,
) -> Fitted:
    """Fit the head to the photos of the first part; `keep_front`: columns that were trained on ordinary photos stay."""
    own = streamed(lambda: features.pieces(parts.fit))
    trusted = weights.of(own.count)
    classes = spread_within(features, parts.fit, labels) if labels.useful and weights.labels else None
    some = sample(features, parts.fit)
    ordinary = source.ordinary or isotropic(own)
    basis = adapted_basis(own, ordinary, some, trusted, classes)
    dimensions = min(source.head.dimensions, 2 * basis.matrix.shape[1])
    front_width = min(source.trained, KEPT) if keep_front or own.count < FEW else 0
    front = first(source.head, front_width) if front_width else None
    named = taken(source.head, source.named)
    head = adapted_head(basis, some, dimensions, front=front, named=named)
    counts = np.bincount(labels.codes[parts.fit][labels.codes[parts.fit] >= 0])
    return Fitted(
        head,
        front_width,
        ordinary,
        trusted,
        0 if classes is None else int((counts > 1).sum()),
        named.dimensions,
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
