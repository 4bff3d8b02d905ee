"""What labels say: those that other photos contradict, what a search by example misses, and classes side by side.

Ridge regression from unit vectors to one-hot labels, with intercept. Without photo i its prediction for i would be

    (y_hat_i - h_i y_i) / (1 - h_i),     h_i = 1 / n + (x_i - mean)' (G + penalty I)^-1 (x_i - mean),

which costs one inverse for all photos (the hat matrix; leaving out one photo, solved exactly).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nonneg_core.arrays import Doubles, Floats, Places
from nonneg_core.errors import DataInvalid
from nonneg_vectors.curation.collection import Collection, Group, Section, found_at
from nonneg_vectors.curation.row_blocks import SparseRows, column_means, count, dense
from nonneg_vectors.storage.embeddings import Embeddings

SHRINKING = 0.4  # of the penalty: so many photos of an average label
DOUBTFUL = 0.12  # the margin from which a label is doubted
BLOCK = 2048
LEAST = 5  # photos of a label: fewer say nothing of it
LEARNT = 0.5  # of a folder's photos that the others recognise: from here on folders are taken for labels
SAMPLE, SAMPLE_PER_LABEL = 1000, 10  # photos


@dataclass(frozen=True)
class Doubts:
    """What the others say of each photo's label: `margin` is how far another label is above its own."""

    names: tuple[Any, ...]  # the labels, sorted
    own: Places  # (n,) each photo's label, a place in `names`
    other: Places  # (n,) the label that the others say
    margin: Floats  # (n,) above 0: another label fits better

    def photos(self, least: float = DOUBTFUL) -> Places:
        """Return the photos whose margin is above `least`, the most doubtful first."""
        places = np.flatnonzero(self.margin > least)
        return places[np.argsort(-self.margin[places], kind="stable")]


def doubts(rows: SparseRows, labels: Sequence[Any]) -> Doubts:
    """Return every photo's best other label and its margin, which is -inf where a label has fewer than five photos."""
    names, own, sizes = np.unique(np.asarray(labels), return_inverse=True, return_counts=True)
    if len(names) < 2:
        raise DataInvalid(f"all photos have the label {names[0]}" if len(names) else "there are no labels",
                          fix="give photos of at least two labels")  # fmt: skip
    mean, penalty = column_means(rows), SHRINKING * count(rows) / len(names)
    inverse = np.linalg.inv(_gram(rows, mean) + penalty * np.eye(rows.dimensions))
    weights = inverse @ _toward(rows, mean, own, len(names))  # (D, C)
    shares = sizes / count(rows)
    margin, other = np.zeros(count(rows), np.float32), np.zeros(count(rows), np.intp)
    for start in range(0, count(rows), BLOCK):
        x = dense(rows, start, start + BLOCK).astype(np.float64) - mean
        span = slice(start, start + len(x))
        leverage = 1 / count(rows) + np.einsum("ij,ij->i", x @ inverse, x)
        scores = x @ weights + shares  # (rows, C)
        scores[np.arange(len(x)), own[span]] -= leverage
        scores /= np.maximum(1 - leverage, 1e-9)[:, None]
        mine = scores[np.arange(len(x)), own[span]].copy()
        scores[np.arange(len(x)), own[span]] = -np.inf
        other[span], margin[span] = scores.argmax(axis=1), scores.max(axis=1) - mine
    margin[sizes[own] < LEAST] = -np.inf
    return Doubts(tuple(names.tolist()), own, other, margin)


def recognised(rows: Embeddings, labels: Sequence[str]) -> float:
    """Return which share of a label's photos all other photos give that label, the mean over labels of a sample."""
    size = max(SAMPLE, SAMPLE_PER_LABEL * len(set(labels)))
    some = np.sort(np.random.default_rng(0).permutation(len(labels))[:size])
    verdicts = doubts(rows[some], [labels[i] for i in some.tolist()])
    judged = np.isfinite(verdicts.margin)
    sizes = np.bincount(verdicts.own[judged])
    right = np.bincount(verdicts.own[judged & (verdicts.margin <= 0)], minlength=len(sizes))
    return float((right[sizes > 0] / sizes[sizes > 0]).mean()) if len(sizes) else 0.0


def _gram(rows: SparseRows, mean: Floats) -> Doubles:
    """Return the scatter matrix of the centred rows, (D, D)."""
    total = np.zeros((rows.dimensions, rows.dimensions), np.float64)
    for start in range(0, count(rows), BLOCK):
        x = dense(rows, start, start + BLOCK) - mean
        total += x.T @ x
    return total


def _toward(rows: SparseRows, mean: Floats, own: Places, labels: int) -> Doubles:
    """Return the sums of the centred rows of each label, (D, C): X'Y."""
    sums = np.zeros((labels, rows.dimensions))
    for start in range(0, count(rows), BLOCK):
        sums += np.eye(labels)[:, own[start : start + BLOCK]] @ (dense(rows, start, start + BLOCK) - mean)
    return sums.T


# What labels tell: those that the other photos contradict, what a search by example misses, and figures by label.

SHOWN = 3  # neighbours that took the place
ASKED_CUT = "a search asks with the whole vector, and misses fewer"
FEW_OTHERS = "of whole vectors a few of these would be other photos, as often rightly doubted"
PER_LABEL = 2  # photos a label on average: with fewer these are not labels


def is_labelled(labels: list[str]) -> bool:
    """Return whether these can be labels: at least two, and some photos of each."""
    return len(set(labels)) >= 2 and len(labels) >= PER_LABEL * len(set(labels))


def doubtful(collection: Collection, labels: list[str], field: str) -> Section:
    """Return photos that are untypical of their label, with the label that the others say."""
    verdicts = doubts(collection.vectors, labels)
    findings = tuple(
        found_at(
            collection,
            i,
            "review",
            f"{field} {labels[i]}, more like {verdicts.names[verdicts.other[i]]} (margin {verdicts.margin[i]:.2f})",
        )
        for i in verdicts.photos().tolist()
    )
    how = (
        "A linear classifier that has learnt from all other photos prefers another label by a margin of at least "
        f"{DOUBTFUL}; labels of fewer than {LEAST} photos are not judged."
    )
    groups = (Group(f"{len(findings)} photos", findings),) if findings else ()
    return Section("labels", "Doubtful labels", how, groups, collection.cut_note(FEW_OTHERS))


def missed(collection: Collection, labels: list[str], places: Places, cosines: Floats) -> Section:
    """Return photos whose nearest is of another label, with the neighbours that took the place."""
    classes = np.array(labels)
    groups = []
    for i in np.flatnonzero(_asks(classes) & (places[:, 0] >= 0)).tolist():
        near = [int(j) for j in places[i] if j >= 0]
        if classes[near[0]] == classes[i]:
            continue
        right = next((rank for rank, j in enumerate(near, 1) if classes[j] == classes[i]), None)
        where = f"first of its label at place {right}" if right else f"none of its label among the first {len(near)}"
        taken = tuple(
            found_at(collection, j, "", f"place {rank}: {classes[j]}", collection.ids[i], float(cosines[i, rank - 1]))
            for rank, j in enumerate(near[:SHOWN], 1)
        )
        groups.append(Group(f"{classes[i]}: {where}", (found_at(collection, i, "review", classes[i]), *taken)))
    how = "Each photo asks for the others of its label; of these the nearest has another label."
    return Section("missed", "Missed by search", how, tuple(groups), collection.cut_note(ASKED_CUT))


def by_label(collection: Collection, labels: list[str], places: Places) -> Section:
    """Return retrieval by label, the worst first, and which label is taken for it."""
    classes = np.array(labels)
    asks = _asks(classes)
    right = (classes[np.maximum(places, 0)] == classes[:, None]) & (places >= 0)  # (n, k)
    rows = []
    for label in np.unique(classes[asks]).tolist():
        mine = np.flatnonzero(classes == label)
        others = Counter(classes[places[mine][(places[mine] >= 0) & ~right[mine]]].tolist())
        confused = ", ".join(f"{other} {n}" for other, n in others.most_common(2))
        reachable = min(places.shape[1], len(mine) - 1)
        at_k = float(right[mine, :reachable].mean())
        rows.append((label, len(mine), float(right[mine, 0].mean()), at_k, confused))
    rows.sort(key=lambda row: (row[2], row[3], row[0]))
    how = (
        f"P@1 and P@{places.shape[1]} (or at as many as a label has others) of each label's photos asking for one "
        "another, the worst first; beside them the labels of wrong neighbours, with how many."
    )
    columns = ("label", "photos", "P@1", f"P@{places.shape[1]}", "taken for")
    return Section("classes", "Figures by label", how, (), collection.cut_note(ASKED_CUT), columns, tuple(rows))


def _asks(labels: np.ndarray) -> np.ndarray:
    """Return which photos have another of their label."""
    _, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    return np.asarray(sizes[codes] > 1)
