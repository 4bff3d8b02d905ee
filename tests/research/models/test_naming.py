"""Evidence for names: precision among the strongest photos, and the rank of a photo its column did not see."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nonneg_runtime.heads.analytic_head import EXPONENT, Basis, components, polar
from nonneg_runtime.heads.head import class_directions
from nonneg_runtime.heads.moments import spread
from research.models.naming import classes_of, described, held_out_ranks, precisions

WNIDS = ["n00000001", "n00000002", "n00000003"]


def test_a_photos_class_is_in_its_name_or_its_folders() -> None:
    paths = [Path("a/n00000002_newt.jpg"), Path("n00000003/x.jpg"), Path("a/b.jpg"), Path("n00000009/x.jpg")]
    assert classes_of(paths, WNIDS).tolist() == [1, 2, -1, -1]


def test_precision_is_the_share_of_the_class_among_the_strongest_ten() -> None:
    of = np.array([0] * 12 + [1] * 5 + [2] * 4)
    codes = np.zeros((21, 3), dtype=np.float32)
    codes[:7, 0], codes[12:15, 0] = 1, 0.5  # seven of class 0, then three of class 1
    codes[12:14, 1] = 1  # two of five, and nothing else
    found = precisions(codes, of, np.array([0, 1, 2]))
    assert found == {0: (0.7, 12), 1: (0.4, 5)}  # of class 2 there are too few


def test_a_rank_is_that_of_columns_computed_without_the_photo() -> None:
    g = np.random.default_rng(0)
    views = (g.exponential(size=(2, 60, 16)) + 0.1).astype(np.float32)
    of = np.full(60, -1)
    of[:10] = np.arange(10)
    classifier = g.normal(size=(10, 16)).astype(np.float32)
    classes = np.array([1, 3, 4, 6, 7, 8])
    found = held_out_ranks(views, of, classes, classifier, keep=12)
    owned = [int(np.flatnonzero(of == klass)[0]) for klass in classes]
    out = owned[2::5]  # the third fold
    kept = np.delete(views, out, axis=1).reshape(-1, 16)
    rows = spread(np.sqrt(kept))
    basis = Basis(rows.mean.astype(np.float32), components(rows, 12, EXPONENT).astype(np.float32), 1.0)
    turned = polar(class_directions(basis, classifier, kept.mean(axis=0))[:, classes])
    column = basis.coordinates(np.sqrt(views[0])) @ turned[:, 2]
    assert found[4] == 1 + sum(column[i] > column[owned[2]] for i in owned)
    assert set(found) == set(classes.tolist())


def test_a_class_that_could_not_be_checked_has_the_rank_alone() -> None:
    classes, places, true = np.array([0, 2]), np.array([9, 5]), np.array([0.6, 0.5])
    names = described(classes, ["tench", "newt", "eel"], places, true, {0: (0.9, 20)}, {0: 1, 2: 3})
    assert [(n.dimension, n.name, n.precision, n.photos, n.rank) for n in names] == [
        (5, "eel", None, 0, 3),
        (9, "tench", 0.9, 20, 1),
    ]
