"""Retrieval metrics at scale: 10,000 queries against 100,000 vectors of 2048 dimensions at 7 lengths.

    python benchmarks/client_metrics.py
    python benchmarks/client_metrics.py --queries 1000 --gallery 20000

Prints a table, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "serving"))

from provenance import provenance

from nonneg_vectors.evaluation.ranking import retrieval

LENGTHS = (2048, 1024, 512, 256, 128, 64, 32)
LABELS = 1000


def vectors(rng: np.random.Generator, centres: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Sparse non-negative vectors around a centre a label, some 10 % active."""
    z = np.empty((len(labels), centres.shape[1]), np.float32)
    for start in range(0, len(labels), 10_000):
        part = labels[start : start + 10_000]
        noise = rng.standard_normal((len(part), centres.shape[1]), dtype=np.float32)
        z[start : start + 10_000] = np.maximum(0.8 * centres[part] + noise - 1.8, 0)
    return z


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--gallery", type=int, default=100_000)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    labels, query_labels = (rng.integers(0, LABELS, n) for n in (options.gallery, options.queries))
    centres = rng.standard_normal((LABELS, LENGTHS[0]), dtype=np.float32)
    gallery, queries = vectors(rng, centres, labels), vectors(rng, centres, query_labels)

    rows = []
    begin = time.perf_counter()
    print(f"{'length':>6} {'seconds':>8} {'P@1':>6} {'P@10':>6} {'mAP@100':>8} {'kNN':>6}")
    for length in LENGTHS:
        start = time.perf_counter()
        means = retrieval(gallery[:, :length], labels, queries[:, :length], query_labels, k=100).means()
        seconds = time.perf_counter() - start
        rows.append({"length": length, "seconds": round(seconds, 2), **means})
        scores = f"{means['P@1']:6.3f} {means['P@10']:6.3f} {means['mAP@100']:8.3f} {means['kNN']:6.3f}"
        print(f"{length:6} {seconds:8.1f} {scores}")
    total = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{options.queries} queries, {options.gallery} vectors: {total:.0f} s, {peak:.2f} GiB at most")
    print(json.dumps({"seconds": round(total, 1), "peak_gib": round(peak, 2), "rows": rows, **provenance()}))


if __name__ == "__main__":
    main()
