"""The evidence for named columns: their precision on photos outside the fit, or the rank of one held out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from nonneg_core.arrays import Doubles, Flags, Floats, Numbers, Rows
from nonneg_runtime.heads.analytic_head import EXPONENT, Basis, components, polar
from nonneg_runtime.heads.head import class_directions
from nonneg_runtime.heads.moments import spread
from nonneg_runtime.words.names import Name

WNID = re.compile(r"n\d{8}")
STRONGEST = 10  # photos a precision is the share of
ENOUGH = 5  # photos of a class for a precision
FOLDS = 5
Precisions = dict[int, tuple[float, int]]  # class -> precision, photos


def classes_of(paths: Sequence[Path], wnids: Sequence[str]) -> Numbers:
    """Return ImageNet's class of every photo by the wnid in its name or its folder's; -1 where there is none."""
    number = {wnid: i for i, wnid in enumerate(wnids)}
    matches = [WNID.match(path.name) or WNID.match(path.parent.name) for path in paths]
    return np.array([number.get(match[0], -1) if match else -1 for match in matches], dtype=np.int64)


def precisions(
    codes: Floats,
    of: Numbers,
    classes: Numbers,
    unclear: Flags | None = None,
) -> Precisions:
    """Return each class's share of the photos that its column (codes[:, j]) is strongest on, of classes with enough.

    unclear: (photos, all classes), where a photo that is of another class counts neither for nor against the class.
    """
    by_class: Precisions = {}
    for j, klass in enumerate(classes.tolist()):
        photos = int((of == klass).sum())
        if photos >= ENOUGH:
            column = codes[:, j] if unclear is None else np.where(unclear[:, klass] & (of != klass), 0, codes[:, j])
            strongest = np.argsort(-column, kind="stable")[: min(STRONGEST, photos)]
            strongest = strongest[column[strongest] > 0]
            hits = int((of[strongest] == klass).sum())
            by_class[klass] = (hits / min(STRONGEST, photos), photos)
    return by_class


def held_out_ranks(
    views: Floats,
    of: Numbers,
    classes: Numbers,
    classifier: Floats,
    keep: int,
    progress: Callable[[int, int], None] | None = None,
) -> dict[int, int]:
    """Return where each class's photo stands on its column when mean, components and names are computed without it.

    views: (views, photos, features) of pooled features, the evaluation view first. Turning the components changes no
    named column, so they are left as they are.
    """
    owned = np.flatnonzero(np.isin(of, classes))
    column = {int(klass): j for j, klass in enumerate(classes)}
    ranks: dict[int, int] = {}
    for fold in range(FOLDS):
        out = owned[fold::FOLDS]
        others = np.setdiff1d(np.arange(views.shape[1]), out)
        codes = _named_columns(
            views[:, others].reshape(-1, views.shape[2]), np.sqrt(views[0]), classes, classifier, keep
        )
        for photo in out:
            j = column[int(of[photo])]
            ranks[int(of[photo])] = 1 + int((codes[owned, j] > codes[photo, j]).sum())
        if progress:
            progress(fold + 1, FOLDS)
    return ranks


def _named_columns(fitted_on: Rows, rows: Rows, classes: Numbers, classifier: Floats, keep: int) -> Floats:
    of = spread(np.sqrt(fitted_on))
    basis = Basis(of.mean.astype(np.float32), components(of, keep, EXPONENT).astype(np.float32), 1.0)
    directions = class_directions(basis, classifier, fitted_on.mean(axis=0))[:, classes]
    return np.asarray(basis.coordinates(rows) @ polar(directions), dtype=np.float32)


def described(
    classes: Numbers,
    labels: Sequence[str],
    places: Numbers,
    faithfulness: Doubles,
    precise: Precisions,
    ranks: dict[int, int],
) -> tuple[Name, ...]:
    """Return a record for every column along a class, by dimension; `places`: where they stand."""
    records = []
    for j, klass in enumerate(classes.tolist()):
        precision, photos = precise.get(klass, (None, 0))
        records.append(
            Name.model_validate(
                {
                    "dimension": int(places[j]),
                    "name": labels[klass],
                    "class": klass,
                    "faithfulness": round(float(faithfulness[j]), 3),
                    "precision": None if precision is None else round(precision, 3),
                    "photos": photos,
                    "rank": ranks.get(klass),
                }
            )
        )
    return tuple(sorted(records, key=lambda name: name.dimension))
