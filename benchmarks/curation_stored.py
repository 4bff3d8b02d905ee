"""What operations between stored photos lose where only the largest entries of each vector are stored:
`python benchmarks/curation_stored.py FOLDER|VECTORS... [--keep 205]`.

Both vectors of a pair are cut then. Of a labelled folder, whole and cut: photos whose nearest has their label, pairs of
at least two cosines, the normalised mutual information of clusters and labels (and of both clusterings), the outliers
that both list, precision and recall for 5 % swapped labels, and the least cosine of a photo to the nearest of a subset
of 100 (by whole vectors). For `nonneg diff` see `curation_shifts.py --keep 205`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from curation_labels import DRAWS, score
from curation_shifts import read

from nonneg_core.terminal.tables import table
from nonneg_vectors.curation.clusters import clusters, k_centres, outliers, usual_number
from nonneg_vectors.curation.neighbours import PairLimits, Scan, joined, scanned
from nonneg_vectors.storage.embeddings import Embeddings

SIMILAR = (0.6, 0.7)
SUBSET = 100
SEEDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="+", type=Path, help="labelled folders, or files of their vectors")
    parser.add_argument("--keep", type=int, default=205)
    options = parser.parse_args()
    records = []
    for source in options.sources:
        whole = read(source)
        labels = [Path(name).parent.name for name in whole.ids or ()]
        forms = (whole, whole.shorten(top_k=options.keep))
        rows = compared(forms, labels)
        print(f"\n{source.stem}: {len(whole)} photos, {len(set(labels))} labels\n")
        print(table(["", "whole", f"{options.keep} stored"], rows))
        records.append({"source": source.stem, "fingerprint": whole.fingerprint, "rows": rows})
    print(json.dumps({"keep": options.keep, "found": records}))


def compared(forms: Sequence[Embeddings], labels: list[str]) -> list[tuple[object, ...]]:
    """Return a row a figure: of whole vectors, and of cut ones."""
    told = np.array(labels)
    scans = [joined(list(scanned(Scan(form, PairLimits(similar=min(SIMILAR)))))) for form in forms]
    rows: list[tuple[object, ...]] = [
        ("nearest has the same label", *(float((told[places[:, 0]] == told).mean()) for _, places, _ in scans))
    ]
    rows += [
        (f"pairs of cosine >= {least}", *(int((pairs.cosine >= least).sum()) for pairs, _, _ in scans))
        for least in SIMILAR
    ]
    groups = [[grouped(form, seed) for form in forms] for seed in range(SEEDS)]
    rows.append(("clusters: agreement with labels", *(mean([agreement(g[i], told) for g in groups]) for i in (0, 1))))
    draws = mean([agreement(groups[i][0], groups[i - 1][0]) for i in range(SEEDS)])
    rows.append(("clusters: with other whole clusters", draws, mean([agreement(*g) for g in groups])))
    lonely = [set(outliers(cosines).photos[: len(labels) // 100].tolist()) for _, _, cosines in scans]
    rows.append(("outliers, the first hundredth: in both lists", 1.0, len(lonely[0] & lonely[1]) / len(lonely[0])))
    scores = [np.mean([score(form, tuple(labels), 0.05, seed) for seed in range(DRAWS)], axis=0) for form in forms]
    rows.append(("wrong labels: precision", *(float(s[0]) for s in scores)))
    rows.append(("wrong labels: recall", *(float(s[1]) for s in scores)))
    rows.append(("subset of 100: least cosine, by whole vectors", *(standing(forms[0], form) for form in forms)))
    return rows


def mean(values: Sequence[float]) -> float:
    """Return the mean."""
    return float(np.mean(values))


def grouped(vectors: Embeddings, seed: int) -> np.ndarray:
    """Return each photo's cluster."""
    found = np.zeros(len(vectors), int)
    for number, cluster in enumerate(clusters(vectors, usual_number(len(vectors)), seed=seed)):
        found[cluster.members] = number
    return found


def agreement(one: np.ndarray, other: np.ndarray) -> float:
    """Normalised mutual information of two groupings."""
    (_, a), (_, b) = np.unique(one, return_inverse=True), np.unique(other, return_inverse=True)
    counts = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(counts, (a, b), 1)
    p = counts / counts.sum()
    ends = p.sum(axis=1, keepdims=True) * p.sum(axis=0, keepdims=True)
    mutual = float((p[p > 0] * np.log(p[p > 0] / ends[p > 0])).sum())
    entropies = [-float((q[q > 0] * np.log(q[q > 0])).sum()) for q in (p.sum(axis=0), p.sum(axis=1))]
    return 2 * mutual / sum(entropies)


def standing(whole: Embeddings, form: Embeddings) -> float:
    """Return how near, by whole vectors, the photo is that is farthest from a subset chosen by the form."""
    chosen = k_centres(form, SUBSET).chosen
    return float((whole.csr() @ whole[chosen].csr().T).toarray().max(axis=1).min())


if __name__ == "__main__":
    main()
