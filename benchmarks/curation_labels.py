"""How many wrong labels `nonneg curate` finds: `python benchmarks/curation_labels.py FOLDER... [--bundle B]`.

Of a labelled folder 5 % of the photos get another label by chance (five draws). Precision is the share of the doubted
photos whose label was swapped, recall the share of the swapped ones that are doubted; labels that were wrong before
count against precision.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from nonneg_client.local import Encoder
from nonneg_core.terminal.tables import table
from nonneg_vectors.curation.doubtful_labels import DOUBTFUL, doubts
from nonneg_vectors.evaluation.labelled_images import image_folder
from nonneg_vectors.storage.embeddings import Embeddings

DRAWS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--bundle")
    parser.add_argument("--share", type=float, default=0.05)
    options = parser.parse_args()
    rows, records = [], []
    with Encoder(options.bundle) as encoder:
        fingerprint = encoder.model().fingerprint
        for folder in options.folders:
            data = image_folder(folder)
            vectors = encoder.embed(data.paths, progress=False)
            scores = np.array([score(vectors, data.labels, options.share, seed) for seed in range(DRAWS)])
            precision, recall, best = scores.mean(axis=0).tolist()
            rows.append((folder.name, len(vectors), len(set(data.labels)), precision, recall, best))
            records.append({"folder": folder.name, "scores": scores.tolist()})
    print(table(["folder", "photos", "labels", "precision", "recall", "precision = recall"], rows))
    print(json.dumps({"fingerprint": fingerprint, "share": options.share, "margin": DOUBTFUL, "sets": records}))


def score(vectors: Embeddings, labels: tuple[str, ...], share: float, seed: int) -> tuple[float, float, float]:
    """Precision and recall at the usual margin, and where as many are taken as were swapped."""
    rng = np.random.default_rng(seed)
    names, codes = np.unique(labels, return_inverse=True)
    swapped = rng.choice(len(codes), round(share * len(codes)), replace=False)
    told = codes.copy()
    told[swapped] = (codes[swapped] + rng.integers(1, len(names), len(swapped))) % len(names)
    found = doubts(vectors, told.tolist())
    doubted = found.photos()
    right = np.isin(doubted, swapped).sum()
    first = np.argsort(-found.margin, kind="stable")[: len(swapped)]
    return right / max(1, len(doubted)), right / len(swapped), float(np.isin(first, swapped).mean())


if __name__ == "__main__":
    main()
