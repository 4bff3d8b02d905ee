"""What a bridge would find: vectors stored by an old model, asked by a new one through a map that is fitted on photos.

    python -m research.bridge --old photo-fast --new photo --fit PHOTOS [PHOTOS ...] --judge LABELLED [LABELLED ...]

Of each labelled folder half of the photos joins the fit, as an owner's own would; the other half is judged: P@1 and
mAP@100 of old vectors asked by old ones, of new by new, and of old by mapped ones. The map is a ridge regression from
the new model's vectors to the old one's, its weight chosen among four on a tenth of the fit, negative values cut.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from nonneg_client import Encoder
from nonneg_core.arrays import Floats
from nonneg_vectors.evaluation.labelled_images import read_dataset

WEIGHTS = (0.001, 0.01, 0.1, 1.0)  # times the mean of the squares on the diagonal
NEAREST = 100


def main() -> None:
    """Embed, fit and judge; print one JSON line for each labelled folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("--old", "photo-fast"), ("--new", "photo")):
        parser.add_argument(name, default=default)
    for name in ("--fit", "--judge"):
        parser.add_argument(name, nargs="+", type=Path, required=True)
    options = parser.parse_args()
    judged = {folder: read_dataset(folder) for folder in options.judge}
    photos = [path for folder in options.fit for path in sorted(folder.rglob("*.[jJ][pP]*"))]
    vectors = {}
    for name in (options.old, options.new):
        with Encoder(name, threads=1) as encoder:
            vectors[name] = [encoder.embed(paths).numpy() for paths in (photos, *(d.paths for d in judged.values()))]
    old, new = vectors[options.old], vectors[options.new]
    half = slice(0, None, 2)
    weights = bridge(*(np.concatenate([z[0], *(part[half] for part in z[1:])]) for z in (new, old)))
    for number, (folder, data) in enumerate(judged.items(), 1):
        labels = np.unique(data.labels, return_inverse=True)[1][1::2]
        before, after = old[number][1::2], new[number][1::2]
        rows = {"old": (before, before), "new": (after, after), "bridge": (crossed(after, weights), before)}
        scores = {name: judge(*sides, labels) for name, sides in rows.items()}
        kept = [round(b / a, 3) for a, b in zip(scores["old"], scores["bridge"], strict=True)]
        print(json.dumps({"set": folder.name, "photos": len(labels), **scores, "kept of old": kept}), flush=True)


def bridge(new: Floats, old: Floats) -> Floats:
    """Return the matrix (new's columns, old's columns) of the weight that maps a tenth, which was held out, best."""
    held_out = np.arange(len(new)) % 10 == 0
    best = max(WEIGHTS, key=lambda weight: cosine(new, old, ridge(new[~held_out], old[~held_out], weight), held_out))
    return ridge(new, old, best)


def ridge(new: Floats, old: Floats, weight: float) -> Floats:
    """Return the least squares solution with this weight on its size."""
    gram = new.T @ new
    gram += np.eye(len(gram), dtype=gram.dtype) * weight * gram.trace() / len(gram)
    weights: Floats = np.linalg.solve(gram, new.T @ old)
    return weights


def cosine(new: Floats, old: Floats, weights: Floats, rows: np.ndarray) -> float:
    """Return the mean cosine of mapped vectors with the old ones."""
    return float((crossed(new[rows], weights) * old[rows]).sum(axis=1).mean())


def crossed(new: Floats, weights: Floats) -> Floats:
    """Return new vectors as the old model might have made them: not negative, of length one."""
    z: Floats = np.maximum(new @ weights, 0)
    z /= np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-12)
    return z


def judge(queries: Floats, stored: Floats, labels: np.ndarray) -> tuple[float, float]:
    """Return P@1 and mAP@100 of each photo's query among the stored vectors of the others."""
    scores = queries @ stored.T
    np.fill_diagonal(scores, -np.inf)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :NEAREST]
    right = labels[order] == labels[:, None]  # (queries, NEAREST)
    relevant = np.bincount(labels)[labels] - 1
    precision = np.cumsum(right, axis=1) / np.arange(1, order.shape[1] + 1)
    average = (precision * right).sum(axis=1) / np.minimum(relevant, NEAREST)
    return round(float(right[:, 0].mean()), 3), round(float(average.mean()), 3)


if __name__ == "__main__":
    main()
