"""Photos for fitting and for testing, pairs for edited pictures, and how a class's dimension answers to these."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Doubles, Flags, Numbers
from nonneg_vectors.evaluation.linear_probes import halves

ENOUGH = 4  # photos of a class: two teach, two are asked


@dataclass(frozen=True, eq=False)
class CertificateSplit:
    """Photos by which dimensions are chosen, and others on which they are asked, with their classes from 0."""

    teach: Numbers
    of_teach: Numbers
    ask: Numbers
    of_ask: Numbers

    @property
    def classes(self) -> int:
        """How many classes have photos enough."""
        return int(self.of_teach.max(initial=-1)) + 1

    @property
    def possible(self) -> bool:
        """Whether there are two classes to tell from each other."""
        return self.classes > 1

    def shuffled(self, seed: int) -> "CertificateSplit":
        """Return the same photos, those that teach under labels that mean nothing."""
        return replace(self, of_teach=np.random.default_rng(seed).permutation(self.of_teach))


@dataclass(frozen=True, eq=False)
class PastedPairs:
    """Photos that are pasted into photos of another class; of every pair the photos and their classes."""

    donor: Numbers
    host: Numbers
    shown: Numbers  # the donor's class
    beside: Numbers  # the host's

    @property
    def possible(self) -> bool:
        """Whether there is any."""
        return len(self.donor) > 0


def split_for_certificate(classes: Numbers) -> CertificateSplit:
    """Split the photos of every class that has enough: one half teaches, the other is asked."""
    enough = np.flatnonzero(np.bincount(classes) >= ENOUGH)
    place = np.full(classes.max() + 1, -1)
    place[enough] = np.arange(len(enough))
    photos = np.flatnonzero(place[classes] >= 0)
    if not len(photos):
        nothing = np.zeros(0, dtype=np.int64)
        return CertificateSplit(nothing, nothing, nothing, nothing)
    teach, ask = (photos[half] for half in halves(classes[photos].tolist()))
    return CertificateSplit(teach, place[classes[teach]], ask, place[classes[ask]])


def pasted_pairs(by: CertificateSplit, count: int, *, seed: int = 0) -> PastedPairs:
    """Pair photos that are asked, every class in turn, each with one of another class; none of fewer than three."""
    nothing = np.zeros(0, dtype=np.int64)
    if by.classes < 3 or not count:
        return PastedPairs(nothing, nothing, nothing, nothing)
    rng = np.random.default_rng(seed)
    turns = np.concatenate([rng.permutation(by.classes) for _ in range(-(-count // by.classes))])[:count]
    donors = np.array([rng.choice(np.flatnonzero(by.of_ask == c)) for c in turns])
    hosts = np.array([rng.choice(np.flatnonzero(by.of_ask != c)) for c in turns])
    return PastedPairs(by.ask[donors], by.ask[hosts], by.of_ask[donors], by.of_ask[hosts])


# How the dimension of a class answers to edited pictures: whether it moves, and those of other classes do not.
#
# Every class has one dimension, chosen on images that no edited picture was made of. A pair holds two pictures of
# which one shows something of a class that the other does not; its score is the share of the other classes'
# dimensions that move less than the one that should: 1 where it moves most of all, 1/2 where it moves as any other
# does.


@dataclass(frozen=True, eq=False)
class EditResponses:
    """Of every pair: the score, how far the dimension moved that should, and how far the others did."""

    scores: Doubles  # NaN without another class to compare with
    own: Doubles  # in standard deviations of each dimension
    others: Doubles  # the mean of the absolute movements


def edit_responses(movements: NDArray[Any], columns: Numbers, shown: Numbers, beside: Numbers) -> EditResponses:
    """Score the movements (pairs, D) of one kind of edit; those that should go down are given with the other sign.

    columns: the dimension of each class. shown: the class of each pair whose dimension should move; beside: the other
    class that the pair shows, which does not count.
    """
    of_classes = np.asarray(movements, dtype=np.float64)[:, columns]  # (pairs, classes)
    pairs = np.arange(len(shown))
    own = of_classes[pairs, shown]
    counted = (columns != columns[shown][:, None]) & (columns != columns[beside][:, None])  # (pairs, classes)
    less, equal = of_classes < own[:, None], of_classes == own[:, None]
    return EditResponses(
        _mean_where(less + 0.5 * equal, counted),
        own,
        _mean_where(np.abs(of_classes), counted),
    )


def _mean_where(values: Doubles, counted: Flags) -> Doubles:
    totals = counted.sum(axis=1)
    sums = (values * counted).sum(axis=1)
    means: Doubles = np.divide(sums, totals, out=np.full(len(values), np.nan), where=totals > 0)
    return means
