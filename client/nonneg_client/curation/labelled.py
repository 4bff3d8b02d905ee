"""What labels tell: those that the other photos contradict, what a search by example misses, and figures by label."""

from __future__ import annotations

from collections import Counter

import numpy as np

from nonneg_client.curation.collection import Collection
from nonneg_client.curation.findings import Group, Section, found_at
from nonneg_core.curation.doubtful_labels import DOUBTFUL, LEAST, doubts
from nonneg_core.curation.sparse_rows import Floats, Places

SHOWN = 3  # neighbours that took the place
ASKED_CUT = "a search asks with the whole vector, and misses fewer"
FEW_OTHERS = "of whole vectors a few of these would be other photos, as often rightly doubted"
PER_LABEL = 2  # photos a label on average: with fewer these are not labels


def is_labelled(labels: list[str]) -> bool:
    """Return whether these can be labels: at least two, and some photos of each."""
    return len(set(labels)) >= 2 and len(labels) >= PER_LABEL * len(set(labels))


def doubtful(collection: Collection, labels: list[str], field: str) -> Section:
    """Return photos that are untypical of their label, with the label that the others say."""
    found = doubts(collection.vectors, labels)
    findings = tuple(
        found_at(
            collection,
            i,
            "review",
            f"{field} {labels[i]}, more like {found.names[found.other[i]]} (margin {found.margin[i]:.2f})",
        )
        for i in found.photos().tolist()
    )
    how = (
        "A linear classifier that has learnt from all other photos prefers another label by a margin of at least "
        f"{DOUBTFUL}; labels of fewer than {LEAST} photos are not judged."
    )
    groups = (Group(f"{len(findings)} photos", findings),) if findings else ()
    return Section("labels", "Doubtful labels", how, groups, collection.cut_note(FEW_OTHERS))


def missed(collection: Collection, labels: list[str], places: Places, cosines: Floats) -> Section:
    """Return photos whose nearest is of another label, with the neighbours that took the place."""
    told = np.array(labels)
    groups = []
    for i in np.flatnonzero(_asks(told) & (places[:, 0] >= 0)).tolist():
        near = [int(j) for j in places[i] if j >= 0]
        if told[near[0]] == told[i]:
            continue
        right = next((rank for rank, j in enumerate(near, 1) if told[j] == told[i]), None)
        where = f"first of its label at place {right}" if right else f"none of its label among the first {len(near)}"
        taken = tuple(
            found_at(collection, j, "", f"place {rank}: {told[j]}", collection.ids[i], float(cosines[i, rank - 1]))
            for rank, j in enumerate(near[:SHOWN], 1)
        )
        groups.append(Group(f"{told[i]}: {where}", (found_at(collection, i, "review", told[i]), *taken)))
    how = "Each photo asks for the others of its label; of these the nearest has another label."
    return Section("missed", "Missed by search", how, tuple(groups), collection.cut_note(ASKED_CUT))


def by_label(collection: Collection, labels: list[str], places: Places) -> Section:
    """Return retrieval by label, the worst first, and which label is taken for it."""
    told = np.array(labels)
    asks = _asks(told)
    right = (told[np.maximum(places, 0)] == told[:, None]) & (places >= 0)  # (n, k)
    rows = []
    for label in np.unique(told[asks]).tolist():
        mine = np.flatnonzero(told == label)
        others = Counter(told[places[mine][(places[mine] >= 0) & ~right[mine]]].tolist())
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


def _asks(told: np.ndarray) -> np.ndarray:
    """Return which photos have another of their label."""
    _, codes, sizes = np.unique(told, return_inverse=True, return_counts=True)
    return np.asarray(sizes[codes] > 1)
