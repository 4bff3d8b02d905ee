"""Linear probe and neighbours, from train images to test images, for every way to choose dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import ConfigInvalid
from nonneg_core.shortening import unit
from nonneg_vectors.evaluation.linear_probes import probe
from nonneg_vectors.evaluation.ranking import retrieval
from nonneg_vectors.evaluation.retrieval import by_chance, falling, fit_pca

NEIGHBOURS = 20
DRAWS = 5  # of random dimensions; their mean is reported
Floats = NDArray[np.float32]
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
    check_selections(selections)
    width = pair[0].shape[1]
    if max(lengths, default=0) > width:
        raise ConfigInvalid(
            f"length={max(lengths)} exceeds the {width} dimensions",
            fix=f"ask for at most {width}",
            field="lengths",
            value=max(lengths),
            limit=width,
        )
    shorter = [k for k in lengths if k < width]
    return [
        _row("all", [pair], labels),
        *(_row(name, SELECTIONS[name](pair, k, seed), labels) for name in selections for k in shorter),
    ]


def check_selections(names: Sequence[str]) -> None:
    """Refuse a way to choose dimensions that is not known."""
    unknown = [name for name in names if name not in SELECTIONS]
    if unknown:
        raise ConfigInvalid(
            f"selection={unknown[0]} is not known",
            fix=f"choose of {', '.join(SELECTIONS)}",
            field="selections",
            value=unknown[0],
        )


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


def _kept(pair: Pair, order: NDArray[np.int64], k: int) -> Pair:
    return pair[0][:, order[:k]], pair[1][:, order[:k]]


def _random(pair: Pair, k: int, seed: int) -> Iterator[Pair]:
    return (_kept(pair, by_chance(pair[0].shape[1], seed * DRAWS + draw), k) for draw in range(DRAWS))


def _activation(pair: Pair, k: int, _: int) -> Iterator[Pair]:
    """Yield the columns of largest expected activation: the mean of unit vectors, signs and all."""
    yield _kept(pair, falling(unit(pair[0]).mean(axis=0)), k)


def _variance(pair: Pair, k: int, _: int) -> Iterator[Pair]:
    yield _kept(pair, falling(unit(pair[0]).var(axis=0)), k)


def _pca(pair: Pair, k: int, _: int) -> Iterator[Pair]:
    turn = fit_pca(pair[0])
    yield turn.apply(pair[0], k), turn.apply(pair[1], k)


def _prefix(pair: Pair, k: int, _: int) -> Iterator[Pair]:
    yield _kept(pair, np.arange(pair[0].shape[1]), k)


SELECTIONS: dict[str, Callable[[Pair, int, int], Iterator[Pair]]] = {
    "prefix": _prefix,
    "activation": _activation,
    "random": _random,
    "variance": _variance,
    "pca": _pca,
}
