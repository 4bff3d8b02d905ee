"""Whether dimensions mean something: figures of an encoder's codes, each beside codes and labels that mean nothing.

Every figure is computed in the same way for the codes and for three floors. The floors are the codes with shuffled
labels, the codes randomly rotated and cut to the same sparsity, and an untrained head cut alike. Figures that are means
over dimensions (consistency, monosemanticity) do not tell a trained head from an untrained one. The dimensions of an
untrained head repeat each other along the few directions in which photos vary most. Figures that ask for every class
by itself tell the two apart.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nonneg_core.arrays import Numbers
from nonneg_core.shortening import unit
from nonneg_vectors.evaluation.certificate_splits import CertificateSplit, PastedPairs, edit_responses
from nonneg_vectors.evaluation.linear_probes import probe_sparsely, telling_columns
from nonneg_vectors.evaluation.structure import Codes, EncoderCodes, floors, pair_sums, weighted_share
from nonneg_vectors.evaluation.uncertainty import GROUPS, Estimate, groups_of

PROBED = (1, 5)  # dimensions a class
FIGURES = {
    "consistency": "share of the most frequent class among the photos that activate a dimension, weighted by how many",
    "monosemanticity": "mean likeness, to the judge, of two photos that activate a dimension, weighted by how strongly",
    "probe@1": "average precision of a class by the one dimension that tells it best",
    "probe@5": "the same by five dimensions",
    "pasted": "share of other classes' dimensions that rise less than that of a photo that is pasted in",
    "cropped": "share of other classes' dimensions that fall less than that of a photo that is cropped away",
    "recoloured": "share of other classes' dimensions below that of what a photo shows, with its colours exchanged",
}
Estimates = dict[str, Estimate]


@dataclass(frozen=True, eq=False)
class ClassesAndJudge:
    """What the codes are held against."""

    classes: Numbers  # of every photo
    judge: Codes  # what another encoder makes of every photo
    teaching: CertificateSplit
    pairs: PastedPairs

    def shuffled(self, seed: int) -> "ClassesAndJudge":
        """Return the same with labels and judge in an order that means nothing."""
        order = np.random.default_rng(seed).permutation(len(self.classes))
        return ClassesAndJudge(self.classes[order], self.judge[order], self.teaching.shuffled(seed), self.pairs)


def examine(
    codes: EncoderCodes,
    truth: ClassesAndJudge,
    untrained: EncoderCodes | None,
    *,
    only_averages: bool = False,
    seed: int = 0,
) -> dict[str, Estimates]:
    """Compute all figures that these images allow, `measured` and of each floor; or the means over dimensions."""
    figures = averages if only_averages else every_figure
    return {
        "measured": figures(codes, truth),
        "shuffled": figures(codes, truth.shuffled(seed)),
        **{name: figures(floor, truth) for name, floor in floors(codes, untrained, seed=seed).items()},
    }


def every_figure(codes: EncoderCodes, truth: ClassesAndJudge) -> Estimates:
    """Return every figure of one encoder's codes that these images allow."""
    z, estimates = unit(codes.photos), averages(codes, truth)
    if truth.teaching.possible:
        estimates |= _probes(z, truth.teaching)
    if truth.pairs.possible:
        estimates |= _responses(z, codes.pictures, truth)
    return {name: estimates[name] for name in FIGURES if name in estimates}


def averages(codes: EncoderCodes, truth: ClassesAndJudge) -> Estimates:
    """Return the figures that are means over dimensions."""
    z, groups = unit(codes.photos), groups_of(truth.classes)
    estimates = {"monosemanticity": _monosemanticity(z, truth.judge, groups)}
    if truth.classes.max() > 0:
        estimates = {"consistency": _consistency(z, truth.classes, groups), **estimates}
    return estimates


def _consistency(z: Codes, classes: Numbers, groups: Numbers) -> Estimate:
    active = (z != 0).astype(np.float32)
    one_hot = np.eye(classes.max() + 1, dtype=np.float32)[classes]
    counts = [one_hot[groups == g].T @ active[groups == g] for g in range(GROUPS)]  # (classes, D) each
    total = np.sum(counts, axis=0)
    without = np.array([weighted_share(total - part) for part in counts])
    return Estimate(weighted_share(total), without, left_out=True)


def _monosemanticity(z: Codes, judge: Codes, groups: Numbers) -> Estimate:
    total = pair_sums(z, judge)
    without = [(total - pair_sums(z[groups == g], judge[groups == g])).mean() for g in range(GROUPS)]
    return Estimate(total.mean(), np.array(without), left_out=True)


def _probes(z: Codes, by: CertificateSplit) -> Estimates:
    teach, ask = z[by.teach], z[by.ask]
    columns = telling_columns(teach, by.of_teach, max(PROBED))
    scores = {k: probe_sparsely(teach, by.of_teach, ask, by.of_ask, columns[:, :k]) for k in PROBED}
    return {f"probe@{k}": Estimate.mean_of(values) for k, values in scores.items()}


def _responses(z: Codes, pictures: Mapping[str, Codes], truth: ClassesAndJudge) -> Estimates:
    by, pairs = truth.teaching, truth.pairs
    own = telling_columns(z[by.teach], by.of_teach, 1)[:, 0]
    scale = np.maximum(z[by.teach].std(axis=0), np.float32(1e-6))
    made = {kind: unit(rows) for kind, rows in pictures.items()}
    movements = {
        "pasted": (made["pasted"] - z[pairs.host], pairs.shown, pairs.beside),
        "cropped": (made["pasted"] - made["cropped"], pairs.beside, pairs.shown),
        "recoloured": (made["recoloured"] - z[by.teach].mean(axis=0), pairs.shown, pairs.beside),
    }
    return {
        kind: Estimate.mean_of(edit_responses(moved / scale, own, shown, beside).scores)
        for kind, (moved, shown, beside) in movements.items()
    }
