"""A certificate from end to end: photos, pictures, codes, floors, figures, and the verdict with its reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nonneg_core.arrays import Numbers, Rows
from nonneg_core.errors import DataInvalid
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_core.shortening import unit
from nonneg_export.calibrate.photo_folder import Photos, digest_of
from nonneg_export.calibrate.photo_records import Tick
from nonneg_export.certify.certified_encoders import Certified, random_weight, read_photos, read_pictures
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.bundle.evidence import Bounds, CertificateRecord, CheckOutcome, FigureRecord
from nonneg_runtime.heads.head import Head
from nonneg_runtime.words.column_facts import known_names
from nonneg_vectors.evaluation.certificate_splits import ENOUGH, pasted_pairs, split_for_certificate
from nonneg_vectors.evaluation.meaning import ClassesAndJudge, Estimates, examine
from nonneg_vectors.evaluation.structure import EncoderCodes
from nonneg_vectors.evaluation.structure import codes as numbered
from nonneg_vectors.evaluation.uncertainty import Estimate, Interval

MOST, FEWEST = 5000, 40  # photos
PAIRS = 200


@dataclass(frozen=True, eq=False)
class Certificate:
    """What was found, and which photos could not be read."""

    record: CertificateRecord
    broken: tuple[tuple[Path, str], ...]


@dataclass(frozen=True, eq=False)
class HeadInputs:
    """What the encoder's head takes of photos and of pictures made of them, and what these are asked."""

    rows: Rows  # the embedding itself where no head lies apart
    shown: dict[str, Rows]
    truth: ClassesAndJudge

    def through(self, head: Head | None, named: Numbers) -> "CertificateFigures":
        """Embed all of it by a head and hold it against the floors; `named`: the dimensions that have a name."""
        figures = _figures(self, head, named)
        missing = _missing(self.truth, head)
        return CertificateFigures(figures, missing, *verdict(figures, missing))


@dataclass(frozen=True)
class CertificateFigures:
    """The figures and what they come to."""

    figures: tuple[FigureRecord, ...]
    missing: tuple[str, ...]
    outcome: CheckOutcome
    reason: str


def certify(
    bundle: Bundle, judge: Bundle, photos: Photos, work: Path, *, data: str, tick: Tick | None = None
) -> Certificate:
    """Measure the bundle on labelled photos; `work`: a folder for its encoder while that lasts."""
    photos.labels(photos.paths)  # loose photos are refused before the work begins
    certified, view = Certified(bundle, work, available_cores()), bundle.manifest.view
    read = read_photos(certified, view, judge, photos.every(MOST), tick)
    truth = _asked(photos.labels(read.paths), read.judged)
    looked = HeadInputs(read.rows, read_pictures(certified, view, read.paths, truth.pairs, tick), truth)
    findings = looked.through(certified.head, _named(bundle))
    return Certificate(
        CertificateRecord(
            data=data,
            digest=digest_of(read.digests),
            images=len(read.paths),
            classes=int(truth.classes.max()) + 1,
            pairs=len(truth.pairs.donor),
            judge=f"{judge.manifest.name} {judge.manifest.fingerprint}",
            precision=bundle.manifest.precision,
            figures=findings.figures,
            missing=(*findings.missing, *not_above(findings.figures)),
            outcome=findings.outcome,
            reason=findings.reason,
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
    by = split_for_certificate(classes)
    return ClassesAndJudge(classes, judged, by, pasted_pairs(by, min(PAIRS, 2 * len(by.ask))))


def _figures(looked: HeadInputs, head: Head | None, named: Numbers) -> tuple[FigureRecord, ...]:
    """Return those of the dimensions that have a name, and means over all of them; of all where none has one."""
    codes = _embedded(looked, head)
    columns, truth = codes.photos.shape[1], looked.truth
    if len(named) == columns:
        return records(examine(codes, truth, _untrained(looked, head, columns)), columns)
    chosen = EncoderCodes(codes.photos[:, named], {kind: z[:, named] for kind, z in codes.pictures.items()})
    own = examine(chosen, truth, _untrained(looked, head, len(named)))
    every = examine(
        EncoderCodes(codes.photos, {}), truth, _untrained(looked, head, columns, photos=True), only_averages=True
    )
    return (*records(own, len(named)), *records(every, columns, decide=False))


def _embedded(looked: HeadInputs, head: Head | None) -> EncoderCodes:
    def embed(rows: Rows) -> Rows:
        return unit(rows if head is None else head.embed(rows))

    return EncoderCodes(embed(looked.rows), {kind: embed(rows) for kind, rows in looked.shown.items()})


def _untrained(looked: HeadInputs, head: Head | None, columns: int, *, photos: bool = False) -> EncoderCodes | None:
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


def _missing(truth: ClassesAndJudge, head: Head | None) -> tuple[str, ...]:
    """Return what cannot be measured, and why."""
    count, enough = int(truth.classes.max()) + 1, truth.teaching.classes
    few = f"{enough} of {count} classes have {ENOUGH} photos"
    gaps = (
        ("consistency is not measured: the photos are of one class", count < 2),
        (f"probes are not measured: {few}, and two have to", not truth.teaching.possible),
        (f"responses are not measured: {few}, and three have to", not truth.pairs.possible),
        ("an untrained head is not measured: the bundle has no head in a file of its own", head is None),
    )
    return tuple(text for text, holds in gaps if holds)


# From the figures and their floors to a verdict with its reason.

DIGITS = 4
CHANCE = "shuffled"
FLOORS = {
    "shuffled": "shuffled labels",
    "rotated": "the same codes randomly rotated",
    "untrained": "an untrained head",
}


def records(estimates: Mapping[str, Estimates], dimensions: int, *, decide: bool = True) -> tuple[FigureRecord, ...]:
    """Return every figure that was measured on so many dimensions, beside its floors."""
    floors = {name: figures for name, figures in estimates.items() if name != "measured"}
    return tuple(
        FigureRecord(
            name=name,
            dimensions=dimensions,
            decides=decide,
            measured=_bounds(estimate),
            floors={floor: _bounds(figures[name]) for floor, figures in floors.items()},
            above={floor: _bounds(estimate - figures[name]) for floor, figures in floors.items()},
        )
        for name, estimate in estimates["measured"].items()
    )


def verdict(figures: Sequence[FigureRecord], missing: Sequence[str]) -> tuple[CheckOutcome, str]:
    """Pass where all figures of the named dimensions lie above every floor, and the others above chance; and why."""
    comparisons = [
        (figure, floor) for figure in figures for floor in figure.floors if figure.decides or floor == CHANCE
    ]
    short = [_short_of(figure, floor) for figure, floor in comparisons if not figure.above[floor].low > 0]
    if missing:
        return "not decided", "; ".join(missing)
    if short:
        return "fail", "; ".join(short)
    deciding = ", ".join(figure.name for figure in figures if figure.decides)
    return "pass", f"{deciding} lie above {', '.join(FLOORS.values())}, by more than chance"


def not_above(figures: Sequence[FigureRecord]) -> tuple[str, ...]:
    """Return where figures that do not decide are not above a floor: it is said all the same."""
    return tuple(
        f"{_short_of(figure, floor)}: means over all dimensions do not decide"
        for figure in figures
        for floor in figure.floors
        if not figure.decides and floor != CHANCE and not figure.above[floor].low > 0
    )


def _short_of(figure: FigureRecord, floor: str) -> str:
    above = figure.above[floor]
    return (
        f"{figure.name} of {figure.dimensions} dimensions, {figure.measured.value:.3f}, is not above {FLOORS[floor]}, "
        f"{figure.floors[floor].value:.3f} (difference {above.value:+.3f} [{above.low:+.3f} {above.high:+.3f}])"
    )


def _bounds(estimate: Estimate) -> Bounds:
    span: Interval = estimate.interval()
    return Bounds(value=_short(span.mean), low=_short(span.low), high=_short(span.high))


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
