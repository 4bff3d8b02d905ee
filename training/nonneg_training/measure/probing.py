"""Linear probe and neighbours, from train images to test images, for every way to choose dimensions."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Floats
from nonneg_vectors.evaluation.linear_probes import probe
from nonneg_vectors.evaluation.ranking import retrieval
from nonneg_vectors.evaluation.retrieval import check_lengths, choice

NEIGHBOURS = 20
DRAWS = 5  # of random dimensions; their mean is reported
Pair = tuple[Floats, Floats]  # of the images that teach, of those that are asked
LabelPair = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class ProbeResult:
    """What one choice of dimensions is worth."""

    selection: str
    dimensions: int
    probe: float  # accuracy of a ridge regression on unit vectors
    knn: float  # accuracy of 20 neighbours' vote
    p_at_1: float
    p_at_10: float  # the NCL authors' mAP@10
    live: float  # dimensions that are not zero on every image that is asked
    zero_share: float

    def record(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        return asdict(self)


def probe_rows(
    pair: Pair,
    labels: LabelPair,
    *,
    lengths: Sequence[int] = (),
    selections: Sequence[str] = ("prefix",),
    seed: int = 0,
) -> list[ProbeResult]:
    """Return one row for all dimensions, then one a selection and length; selections look at the images that teach."""
    width = pair[0].shape[1]
    shorter = [length.dimensions for length in check_lengths(lengths, width) if length.dimensions < width]
    rows = [_row("all", [pair], labels)]
    for name in selections:
        seeds = range(seed * DRAWS, (seed + 1) * DRAWS) if name == "random" else [seed]
        draws = [choice(name, width, pair[0], draw) for draw in seeds]
        rows += [_row(name, ((cut(pair[0], k), cut(pair[1], k)) for cut in draws), labels) for k in shorter]
    return rows


def _row(name: str, pairs: Iterable[Pair], labels: LabelPair) -> ProbeResult:
    scores = [_scores(pair, labels) for pair in pairs]
    mean = {key: float(np.mean([score[key] for score in scores])) for key in scores[0]}
    return ProbeResult(name, int(mean.pop("dimensions")), **mean)


def _scores(pair: Pair, labels: LabelPair) -> dict[str, float]:
    teach, ask = pair
    ranking = retrieval(teach, labels[0], ask, labels[1], k=10, neighbours=NEIGHBOURS)
    return {
        "dimensions": teach.shape[1],
        "probe": probe(teach, labels[0], ask, labels[1]),
        "knn": float(ranking.knn.mean()),
        "p_at_1": float(ranking.precision[1].mean()),
        "p_at_10": float(ranking.precision[10].mean()),
        "live": float(np.any(ask, axis=0).sum()),
        "zero_share": float(1 - np.any(ask, axis=1).mean()),
    }
