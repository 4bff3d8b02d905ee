"""What dimensions are like: sparse, uncorrelated, consistent, informative, of one meaning; and codes to compare with.

All take raw or normalised vectors (images, D), signed ones too, and normalise the rows themselves. A dimension is
active on an image where its entry is not zero: of signed, dense vectors every dimension is, on every image.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Doubles, Floats, Numbers
from nonneg_core.errors import DataInvalid
from nonneg_core.shortening import unit
from nonneg_vectors.evaluation.uncertainty import Interval, interval

TEMPERATURE = 0.2  # of SEPIN's bound
ZERO = 1e-5  # entries of row-normalised vectors below it, by absolute value, count as zero
LOOSE_ZERO = 1e-2  # the same in the NCL authors' other script, of vectors as they are
LEAST_SUM = 10  # a column whose entries add up to less has no part in the authors' correlation
TOP = 0.01  # share of the images that count as a dimension's own, in `purity`
BLOCK = 256  # pairs that SEPIN compares with each other


def live_dimensions(z: NDArray[Any]) -> int:
    """Return how many columns are not zero for every image."""
    return int(np.any(z, axis=0).sum())


def zero_share(z: NDArray[Any]) -> float:
    """Return the share of vectors without any entry."""
    return float(1 - np.any(z, axis=1).mean())


def sparsity(z: NDArray[Any]) -> float:
    """Return the share of entries of the row-normalised vectors that are below 1e-5."""
    return float((np.abs(unit(z)) < ZERO).mean())


def loose_sparsity(z: NDArray[Any]) -> float:
    """Return the share of entries below 1e-2 of the vectors as they are: it depends on how long they happen to be."""
    return float((np.abs(np.asarray(z)) < LOOSE_ZERO).mean())


def correlation(z: NDArray[Any]) -> float:
    """Return the mean absolute cosine between two columns; dead ones have no direction and are left out."""
    rows = unit(z)
    cosines = _cosines(rows[:, rows.any(axis=0)])
    return float(cosines.mean(dtype=np.float64)) if len(cosines) else 0.0


def median_correlation(z: NDArray[Any]) -> float:
    """Return the median absolute cosine between two columns whose entries add up to more than 10.

    The NCL authors' figure; of vectors as they are, so that it leaves out more columns of shorter ones, and of signed
    ones those that are negative on the whole.
    """
    z = np.asarray(z, dtype=np.float32)
    cosines = _cosines(z[:, z.sum(axis=0) > LEAST_SUM])
    return float(np.median(cosines)) if len(cosines) else 0.0


def _cosines(columns: NDArray[Any]) -> NDArray[Any]:
    """Return the absolute cosine of every two columns, once each."""
    directions = unit(columns.T)  # (columns, images)
    cosines: NDArray[Any] = np.abs(directions @ directions.T)[np.triu_indices(len(directions), 1)]
    return cosines


@dataclass(frozen=True)
class Consistency:
    """The share of the most frequent class among the images that activate a dimension."""

    weighted: float  # by how many images activate it
    unweighted: float  # flatters rare dimensions: one image is always of one class
    weighted_floor: float  # the same for shuffled labels
    unweighted_floor: float


def consistency(
    z: NDArray[Any], labels: Sequence[Any] | NDArray[Any], *, shuffles: int = 3, seed: int = 0
) -> Consistency:
    """Return how much each dimension belongs to one class, beside the floor that chance gives."""
    active = (np.asarray(z) != 0).astype(np.float32)  # (images, D)
    classes = codes(labels, len(active))
    rng = np.random.default_rng(seed)
    weighted, unweighted = shares(active, classes)
    floors = np.array([shares(active, rng.permutation(classes)) for _ in range(shuffles)])
    return Consistency(weighted, unweighted, float(floors[:, 0].mean()), float(floors[:, 1].mean()))


def purity(z: NDArray[Any], labels: Sequence[Any] | NDArray[Any], *, share: float = TOP) -> float:
    """Measure the most frequent class's share among the images with a dimension's largest entries, mean over live ones.

    The same number of images for every dimension (`share` of all), so that it needs no threshold: dense, signed vectors
    and sparse ones can be compared by it. Images on which the dimension is not above zero do not count. Rows are
    normalised, or images with long vectors would be among the largest of every dimension.
    """
    z = unit(np.asarray(z))
    classes = codes(labels, len(z))
    count = max(2, round(len(z) * share))
    order = np.argsort(-z, axis=0, kind="stable")[:count]  # (count, D)
    above = np.take_along_axis(z, order, axis=0) > 0
    counts = np.zeros((classes.max() + 1, z.shape[1]))
    np.add.at(counts, (classes[order], np.broadcast_to(np.arange(z.shape[1]), order.shape)), above)
    total = counts.sum(axis=0)
    own = total == count  # a dimension that fires on fewer would be flattered
    return float((counts.max(axis=0)[own] / count).mean()) if own.any() else 0.0


def codes(labels: Sequence[Any] | NDArray[Any], images: int) -> Numbers:
    """Return labels as numbers from 0, one a vector."""
    _, numbers = np.unique(np.asarray(labels), return_inverse=True)
    if len(numbers) != images:
        raise DataInvalid(f"{len(numbers)} labels for {images} vectors", fix="give one label a vector")
    return np.asarray(numbers, dtype=np.int64)


def shares(active: Floats, classes: Numbers) -> tuple[float, float]:
    """Return weighted and unweighted consistency of what is active where, (images, D)."""
    one_hot = np.eye(classes.max() + 1, dtype=np.float32)[classes]  # (images, classes)
    counts = one_hot.T @ active  # (classes, D)
    most, total = counts.max(axis=0), counts.sum(axis=0)
    live = total > 0
    if not live.any():
        return 0.0, 0.0
    return weighted_share(counts), float((most[live] / total[live]).mean())


def weighted_share(counts: NDArray[Any]) -> float:
    """Return the weighted consistency of counts of active images, (classes, D)."""
    total = float(counts.sum(dtype=np.float64))
    return float(counts.max(axis=0).sum(dtype=np.float64)) / total if total else 0.0


def separate_information(first: NDArray[Any], second: NDArray[Any], *, temperature: float = TEMPERATURE) -> Doubles:
    """Compute what each image adds to I(x; z_i | z without i), in nats: (images, D), the mean is that of dimension i.

    By the InfoNCE bound: L(f without i) - L(f). Row j of `first` and of `second` are two views of image j; the
    negatives of an image are the other images' second views. Cosine similarity; the vectors are normalised again
    without i. SEPIN@k is the mean over the first k.
    """
    u, v = (np.asarray(z, dtype=np.float64) for z in (first, second))  # (n, D) each
    products = u @ v.T  # (n, n)
    u2, v2 = u**2, v**2
    of_u, of_v = u2.sum(axis=1), v2.sum(axis=1)  # (n,): squared lengths
    whole = _info_nce(products, of_u, of_v, temperature)
    lost = np.zeros(u.shape)
    for i in np.flatnonzero(u2.any(axis=0) | v2.any(axis=0)):
        without = products - np.outer(u[:, i], v[:, i])
        lost[:, i] = _info_nce(without, of_u - u2[:, i], of_v - v2[:, i], temperature) - whole
    return lost


def sepin(lost: Doubles, ks: Sequence[int] = (1, 10, 100)) -> dict[str, Doubles]:
    """Return SEPIN@k of every image for several k, and for all dimensions: means over the first k columns."""
    means = {str(k): lost[:, :k].mean(axis=1) for k in ks if k <= lost.shape[1]}
    return {**means, "all": lost.mean(axis=1)}


def sepin_ranked(first: NDArray[Any], second: NDArray[Any], *, temperature: float = TEMPERATURE) -> dict[str, Interval]:
    """Return SEPIN@k over the k most informative dimensions: chosen on one half of the pairs, measured on the other.

    Chosen and measured on the same pairs the largest of many noisy estimates would be too large. Pairs are compared
    with those of their own block, of about 256 pairs: the estimate depends on how many negatives there are.
    """
    parts = [
        separate_information(u, v, temperature=temperature) for u, v in zip(blocks(first), blocks(second), strict=True)
    ]
    halves = [np.concatenate(parts[i::2]) for i in (0, 1)]
    both = [sepin(halves[1 - i][:, np.argsort(-halves[i].mean(axis=0), kind="stable")]) for i in (0, 1)]
    return {k: interval(np.concatenate([both[0][k], both[1][k]])) for k in both[0]}


def blocks(pairs: NDArray[Any]) -> list[NDArray[Any]]:
    """Cut pairs into blocks of nearly one size, about 256, at least two of them."""
    return np.array_split(np.asarray(pairs), max(2, round(len(pairs) / BLOCK)))


def _info_nce(products: Doubles, first: Doubles, second: Doubles, temperature: float) -> Doubles:
    """Return -log softmax of every pair, from dot products and squared lengths."""
    # A vector of which nothing is left is as far from all as can be; what rounding leaves of it counts as nothing.
    u, v = (np.where(squares > 1e-12, 1 / np.sqrt(np.maximum(squares, 1e-12)), 0) for squares in (first, second))
    scores = products * u[:, None] * v / temperature  # (n, n), at most 1 / temperature
    return np.asarray(np.log(np.exp(scores).sum(axis=1)) - np.diag(scores))


# What the figures of structure are held against: codes that mean nothing, as often active as those that are measured.

Codes = NDArray[np.float32]


def rotation(dimensions: int, seed: int = 0) -> Codes:
    """Return a random rotation, uniformly distributed: (dimensions, dimensions)."""
    normal = np.random.default_rng(seed).normal(size=(dimensions, dimensions))
    q, r = np.linalg.qr(normal)
    return np.asarray(q * np.sign(np.diag(r)), dtype=np.float32)


def cut_columns(z: NDArray[Any], counts: Sequence[int] | NDArray[Any], of: int | None = None) -> Codes:
    """Keep what lies above a threshold a column, less the threshold, so that column j is above zero `counts[j]` times.

    of: thresholds come from the first so many rows; equal entries count together.
    """
    z = np.asarray(z, dtype=np.float32)
    rows = np.sort(z[:of], axis=0)[::-1]  # falling, (rows, D)
    below = rows[-1] - np.maximum(np.abs(rows[-1]), 1) * np.float32(1e-6)  # keeps every row
    counts = np.asarray(counts)
    next_one = np.take_along_axis(rows, np.minimum(counts, len(rows) - 1)[None], axis=0)[0]
    cut: Codes = np.maximum(z - np.where(counts >= len(rows), below, next_one), 0)
    return cut


@dataclass(frozen=True, eq=False)
class EncoderCodes:
    """What one encoder makes of the images, and of other pictures of some of them."""

    photos: Codes  # (images, D)
    pictures: Mapping[str, Codes] = field(default_factory=dict)  # (pictures, D) of each kind

    @property
    def all(self) -> Codes:
        """Everything, the photos first."""
        return np.concatenate([self.photos, *self.pictures.values()])

    def like(self, rows: Codes) -> "EncoderCodes":
        """Return other rows of the same photos and pictures, in the order of `all`."""
        parts = np.split(rows, np.cumsum([len(self.photos), *map(len, self.pictures.values())])[:-1])
        return EncoderCodes(parts[0], dict(zip(self.pictures, parts[1:], strict=True)))


def floors(
    codes: EncoderCodes, untrained: EncoderCodes | None = None, *, seed: int = 0, cut: bool = True
) -> dict[str, EncoderCodes]:
    """Return codes that mean nothing: these turned by one random rotation; an untrained head's.

    Rows are unit vectors, so that no image counts for more than another. The rotation mixes live dimensions only, and
    each direction is active on as many images as the axis in whose place it stands: all that is lost is the axes.
    Directions of signed codes are active everywhere, and without `cut` all are: for figures without a threshold.
    """
    rows = unit(codes.all)
    live = np.flatnonzero(codes.photos.any(axis=0))
    turned = np.zeros_like(rows)
    turned[:, live] = rows[:, live] @ rotation(len(live), seed)
    every = {"rotated": turned} if untrained is None else {"rotated": turned, "untrained": unit(untrained.all)}
    if cut and not (codes.photos < 0).any():
        counts = (codes.photos != 0).sum(axis=0)
        every = {name: cut_columns(floor, counts, of=len(codes.photos)) for name, floor in every.items()}
    return {name: codes.like(floor) for name, floor in every.items()}


# The monosemanticity score: whether the images that activate a dimension are alike, in the eyes of another encoder.


@dataclass(frozen=True, eq=False)
class PairSums:
    """What the score of every dimension is computed from: sums over images, so that images can be taken out again."""

    directions: Doubles  # (width, D): sum of a e
    own: Doubles  # (D,): sum of a^2 |e|^2
    activations: Doubles  # (D,): sum of a
    squares: Doubles  # (D,): sum of a^2
    active: Doubles  # (D,): images

    def __sub__(self, other: "PairSums") -> "PairSums":
        return PairSums(*(getattr(self, name) - getattr(other, name) for name in self.__dataclass_fields__))

    def scores(self) -> Doubles:
        """Compute (|sum a e|^2 - sum a^2 |e|^2) / ((sum a)^2 - sum a^2); NaN where fewer than two images are active."""
        together = (self.directions**2).sum(axis=0) - self.own
        weights = self.activations**2 - self.squares
        ratios: Doubles = np.divide(together, weights, out=np.full(len(weights), np.nan), where=self.active > 1)
        return ratios

    def mean(self) -> float:
        """Return the mean over the dimensions that have a score; 0 without any."""
        scores = self.scores()
        known = scores[~np.isnan(scores)]
        return float(known.mean()) if len(known) else 0.0


def pair_sums(activations: NDArray[Any], judge: NDArray[Any]) -> PairSums:
    """Sum activations >= 0, (images, D), and what the judge makes of the same images, (images, width)."""
    a = np.asarray(activations, dtype=np.float64)
    e = unit(np.asarray(judge, dtype=np.float32)).astype(np.float64)
    squares = a**2
    return PairSums(
        e.T @ a, (e**2).sum(axis=1) @ squares, a.sum(axis=0), squares.sum(axis=0), (a > 0).sum(axis=0).astype(float)
    )


def monosemanticity(z: NDArray[Any], judge: NDArray[Any]) -> Doubles:
    """Return the mean cosine of all pairs of images for each dimension, weighted by both activations: (D,).

    judge: what another encoder, or one-hot labels, make of the same images, (images, width).
    The definition (arXiv 2504.02821) takes all pairs; as sums over single images (arXiv 2602.12403) it is one product.
    Columns that go below zero are raised to begin at zero, as the definition has it. A dimension that is active on
    fewer than two images has no score: NaN.
    """
    return pair_sums(_raised(z), judge).scores()


def mean_score(z: NDArray[Any], judge: NDArray[Any]) -> float:
    """Return the mean over the dimensions that have a score; 0 without any."""
    return pair_sums(_raised(z), judge).mean()


def _raised(z: NDArray[Any]) -> NDArray[Any]:
    z = np.asarray(z)
    return np.asarray(z - np.minimum(z.min(axis=0), 0))
