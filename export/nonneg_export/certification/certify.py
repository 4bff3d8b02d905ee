"""A certificate from end to end: photos, pictures, codes, floors, figures, verdict. No option changes what passes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nonneg_core.cores import available_cores
from nonneg_core.errors import DataInvalid
from nonneg_core.evaluation.meaning import ClassesAndJudge, EncoderCodes, examine
from nonneg_core.evaluation.photo_pairs import ENOUGH, Numbers, pairs, teaching
from nonneg_core.evaluation.structure import codes as numbered
from nonneg_core.heads.head import Head
from nonneg_core.heads.spread import Rows
from nonneg_core.shortening import unit
from nonneg_export.activations import Tick
from nonneg_export.certification.encode_photos import read_photos, read_pictures
from nonneg_export.certification.encoders import Certified, random_weight
from nonneg_export.certification.verdict import not_above, records, verdict
from nonneg_export.photo_folder import Photos, digest_of, labels_of
from nonneg_runtime.bundle import Bundle
from nonneg_runtime.certificate import CertificateRecord, CheckOutcome, FigureRecord
from nonneg_runtime.words.known_names import known_names

MOST, FEWEST = 5000, 40  # photos
PAIRS = 200


@dataclass(frozen=True, eq=False)
class Certificate:
    """What was found, and which photos could not be read."""

    record: CertificateRecord
    broken: tuple[tuple[Path, str], ...]


@dataclass(frozen=True, eq=False)
class Looked:
    """What the encoder's head takes of photos and of pictures made of them, and what these are asked."""

    rows: Rows  # the embedding itself where no head lies apart
    shown: dict[str, Rows]
    asked: ClassesAndJudge

    def through(self, head: Head | None, named: Numbers) -> Judged:
        """Embed all of it by a head and hold it against the floors; `named`: the dimensions that have a name."""
        figures = _figures(self, head, named)
        missing = _missing(self.asked, head)
        return Judged(figures, missing, *verdict(figures, missing))


@dataclass(frozen=True)
class Judged:
    """The figures and what they come to."""

    figures: tuple[FigureRecord, ...]
    missing: tuple[str, ...]
    outcome: CheckOutcome
    reason: str


def certify(
    bundle: Bundle, judge: Bundle, photos: Photos, work: Path, *, data: str, tick: Tick | None = None
) -> Certificate:
    """Measure the bundle on labelled photos; `work`: a folder for its encoder while that lasts."""
    labels_of(photos, photos.paths)  # loose photos are refused before the work begins
    certified, view = Certified(bundle, work, available_cores()), bundle.manifest.view
    read = read_photos(certified, view, judge, photos.every(MOST), tick)
    asked = _asked(labels_of(photos, read.paths), read.judged)
    looked = Looked(read.rows, read_pictures(certified, view, read.paths, asked.pairs, tick), asked)
    found = looked.through(certified.head, _named(bundle))
    return Certificate(
        CertificateRecord(
            data=data,
            digest=digest_of(read.digests),
            images=len(read.paths),
            classes=int(asked.classes.max()) + 1,
            pairs=len(asked.pairs.donor),
            judge=f"{judge.manifest.name} {judge.manifest.fingerprint}",
            precision=bundle.manifest.precision,
            figures=found.figures,
            missing=(*found.missing, *not_above(found.figures)),
            outcome=found.outcome,
            reason=found.reason,
        ),
        read.broken,
    )


def _asked(labels: tuple[str, ...], judged: Rows) -> ClassesAndJudge:
    if len(labels) < FEWEST:
        raise DataInvalid(
            f"{len(labels)} photos are too few for a certificate",
            fix=f"give at least {FEWEST}, of three classes or more",
            field="images",
            value=len(labels),
            limit=FEWEST,
        )
    classes = numbered(labels, len(labels))
    by = teaching(classes)
    return ClassesAndJudge(classes, judged, by, pairs(by, min(PAIRS, 2 * len(by.ask))))


def _figures(looked: Looked, head: Head | None, named: Numbers) -> tuple[FigureRecord, ...]:
    """Return those of the dimensions that have a name, and means over all of them; of all where none has one."""
    seen = _embedded(looked, head)
    columns, asked = seen.photos.shape[1], looked.asked
    if len(named) == columns:
        return records(examine(seen, asked, _untrained(looked, head, columns)), columns)
    chosen = EncoderCodes(seen.photos[:, named], {kind: z[:, named] for kind, z in seen.pictures.items()})
    own = examine(chosen, asked, _untrained(looked, head, len(named)))
    every = examine(
        EncoderCodes(seen.photos, {}), asked, _untrained(looked, head, columns, photos=True), only_averages=True
    )
    return (*records(own, len(named)), *records(every, columns))


def _embedded(looked: Looked, head: Head | None) -> EncoderCodes:
    def embed(rows: Rows) -> Rows:
        return unit(rows if head is None else head.embed(rows))

    return EncoderCodes(embed(looked.rows), {kind: embed(rows) for kind, rows in looked.shown.items()})


def _untrained(looked: Looked, head: Head | None, columns: int, *, photos: bool = False) -> EncoderCodes | None:
    """Return what an untrained head of so many columns makes of the same photos, and of the pictures."""
    if head is None:
        return None
    weight = random_weight(looked.rows.shape[1], columns)
    mean = looked.rows.mean(axis=0)
    pictures = {} if photos else looked.shown
    return EncoderCodes(
        (looked.rows - mean) @ weight, {kind: (rows - mean) @ weight for kind, rows in pictures.items()}
    )


def _named(bundle: Bundle) -> Numbers:
    """Return the dimensions that lie along what they are called after; all of them where none does."""
    names = [name.dimension for name in known_names(bundle).values() if name.source == "direction"]
    return np.array(names or range(bundle.manifest.dimensions))


def _missing(asked: ClassesAndJudge, head: Head | None) -> tuple[str, ...]:
    """Return what cannot be measured, and why."""
    count, enough = int(asked.classes.max()) + 1, asked.teaching.classes
    few = f"{enough} of {count} classes have {ENOUGH} photos"
    found = (
        ("consistency is not measured: the photos are of one class", count < 2),
        (f"probes are not measured: {few}, and two have to", not asked.teaching.possible),
        (f"responses are not measured: {few}, and three have to", not asked.pairs.possible),
        ("an untrained head is not measured: the bundle has no head in a file of its own", head is None),
    )
    return tuple(text for text, holds in found if holds)
