"""The figures of structure of any encoder's vectors, each beside its floors: a figure without floors says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Numbers
from nonneg_core.errors import DataInvalid
from nonneg_core.shortening import unit
from nonneg_vectors.evaluation import structure as measures
from nonneg_vectors.evaluation.structure import Codes, EncoderCodes, floors, mean_score
from nonneg_vectors.evaluation.uncertainty import GROUPS, Estimate, Interval, groups_of

SECOND = "second"  # view of the first images


@dataclass(frozen=True)
class CodeFigures:
    """What the dimensions of one encoder are like."""

    dimensions: int
    live: int  # dimensions that are not zero on every image
    zero_share: float  # vectors without any entry; of a floor, images that it says nothing of
    nnz: float  # entries a vector that are not zero
    sparsity: float
    sparsity_loose: float  # by the NCL authors' other threshold
    correlation: float
    correlation_median: float  # the NCL authors'
    consistency: float  # weighted by how many images a dimension is active on
    consistency_unweighted: float  # the NCL authors'
    purity: float
    monosemanticity: float
    sepin: dict[str, float] | None  # @1, @10, @100, @all, in nats
    sepin_intervals: dict[str, tuple[float, float]] | None  # of 95 %, over images


@dataclass(frozen=True)
class StructureReport:
    """The figures, and the same of three things that mean nothing."""

    measured: CodeFigures
    shuffled: CodeFigures  # the same codes, the labels in another order
    rotated: CodeFigures  # the same codes, randomly rotated; each direction as often active as an axis
    untrained: CodeFigures | None  # an untrained head on the same features, as often active
    images: int
    classes: int
    estimator: str  # of SEPIN
    judge: str  # of monosemanticity

    def record(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        return asdict(self)


def structure(
    z: NDArray[Any],
    labels: Sequence[Any] | NDArray[Any],
    *,
    second: NDArray[Any] | None = None,
    untrained: tuple[NDArray[Any], NDArray[Any] | None] | None = None,
    judge: NDArray[Any] | None = None,
    seed: int = 0,
) -> StructureReport:
    """Measure vectors (images, D), signed ones too, and their floors.

    second: the vectors of another view of the first images, for SEPIN; without them it is left out.
    untrained: what an untrained head makes of the same images and second views.
    judge: another encoder's vectors of the same images, which say what is alike; without it labels do.
    """
    z = np.asarray(z, dtype=np.float32)
    _check(z, second)
    classes = measures.codes(labels, len(z))
    judged = np.eye(classes.max() + 1, dtype=np.float32)[classes] if judge is None else np.asarray(judge)
    if len(judged) != len(z):
        raise DataInvalid(f"{len(judged)} vectors of the judge for {len(z)} images", fix="give one an image")
    order = np.random.default_rng(seed).permutation(len(z))
    codes = _with_second(z, second)
    fresh = None if untrained is None else _with_second(*untrained)
    whole = floors(codes, fresh, seed=seed, cut=False)  # purity has no threshold
    figures = {
        name: replace(_figures(floor, classes, judged), purity=measures.purity(whole[name].photos, classes))
        for name, floor in floors(codes, fresh, seed=seed).items()
    }
    return StructureReport(
        measured=_figures(codes, classes, judged),
        shuffled=_figures(EncoderCodes(z), classes[order], judged[order]),
        rotated=figures["rotated"],
        untrained=figures.get("untrained"),
        images=len(z),
        classes=int(classes.max()) + 1,
        estimator=_estimator(second),
        judge="labels" if judge is None else "another encoder",
    )


COMPARED = (
    "live", "zero_share", "nnz", "sparsity", "correlation", "consistency", "consistency_unweighted", "purity",
    "monosemanticity",
)  # fmt: skip


def differences(
    first: NDArray[Any], second: NDArray[Any], labels: Sequence[Any] | NDArray[Any], *, seed: int = 0
) -> dict[str, Interval]:
    """Return how much more the second encoder has of each figure, with 95 % intervals over images.

    Row i of both is of image i: each group of images is left out of both at once. `seed` draws the groups.
    """
    classes = measures.codes(labels, len(first))
    groups = groups_of(classes, seed=seed)
    ours, theirs = (_estimates(np.asarray(z, dtype=np.float32), classes, groups) for z in (second, first))
    return {name: (ours[name] - theirs[name]).interval() for name in COMPARED}


def _estimates(z: NDArray[Any], classes: Numbers, groups: Numbers) -> dict[str, Estimate]:
    judged = np.eye(classes.max() + 1, dtype=np.float32)[classes]
    whole = _figures(EncoderCodes(z), classes, judged)
    rest = [groups != group for group in range(GROUPS)]
    without = [_figures(EncoderCodes(z[rows]), classes[rows], judged[rows]) for rows in rest]
    return {
        name: Estimate(getattr(whole, name), np.array([getattr(row, name) for row in without]), left_out=True)
        for name in COMPARED
    }


def _with_second(z: NDArray[Any], second: NDArray[Any] | None) -> EncoderCodes:
    views = {} if second is None else {SECOND: np.asarray(second, dtype=np.float32)}
    return EncoderCodes(np.asarray(z, dtype=np.float32), views)


def _figures(codes: EncoderCodes, classes: Numbers, judged: NDArray[Any]) -> CodeFigures:
    z, second = codes.photos, codes.pictures.get(SECOND)
    weighted, _ = measures.shares((z != 0).astype(np.float32), classes)
    _, unweighted = measures.shares((np.abs(unit(z)) > measures.ZERO).astype(np.float32), classes)
    sepin = None if second is None else measures.sepin_ranked(z[: len(second)], second)
    return CodeFigures(
        dimensions=z.shape[1],
        live=measures.live_dimensions(z),
        zero_share=measures.zero_share(z),
        nnz=float((z != 0).sum(axis=1).mean()),
        sparsity=measures.sparsity(z),
        sparsity_loose=measures.loose_sparsity(z),
        correlation=measures.correlation(z),
        correlation_median=measures.median_correlation(z),
        consistency=weighted,
        consistency_unweighted=unweighted,
        purity=measures.purity(z, classes),
        monosemanticity=mean_score(z, judged),
        sepin=None if sepin is None else {k: interval.mean for k, interval in sepin.items()},
        sepin_intervals=None if sepin is None else {k: (interval.low, interval.high) for k, interval in sepin.items()},
    )


def _estimator(second: NDArray[Any] | None) -> str:
    if second is None:
        return "not measured: it needs second views"
    sizes = [len(block) for block in measures.blocks(second)]
    half = sum(sizes[::2])
    return (
        f"nats, by the InfoNCE bound: temperature {measures.TEMPERATURE}, {sizes[0] - 1} negatives, dimensions chosen "
        f"on {half} pairs and measured on {len(second) - half} others, both ways; in brackets 95 % over images; values "
        "near zero are zero"
    )


def _check(z: Codes, second: NDArray[Any] | None) -> None:
    if z.ndim != 2 or not len(z):
        raise DataInvalid(f"vectors of shape {z.shape}", fix="give one row an image, (images, D)")
    if not all(np.isfinite(rows).all() for rows in (z, second) if rows is not None):
        raise DataInvalid("the vectors hold values that are not numbers", fix="see which images gave them")
    if second is not None and (second.shape[1:] != z.shape[1:] or not 4 <= len(second) <= len(z)):
        raise DataInvalid(
            f"second views of shape {second.shape} for vectors of shape {z.shape}",
            fix="give the vectors of another view of the first images, at least four",
        )
