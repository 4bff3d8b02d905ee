"""Ranking and quality table of 20,000 vectors of 2048 dimensions: 7 lengths x 4 selections, random with 3 seeds.

    python benchmarks/export_quality.py
    python benchmarks/export_quality.py --images 5000

Synthetic vectors around class centres, some 8 % active. Above 5,000 images a sample of 2,000 asks the rest: the
retrieval is exact, the queries are fewer. Prints a table, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "serving"))

from provenance import provenance

from nonneg_export.calibrate.column_ranking import measure, ranking
from nonneg_export.checks.quality import LENGTHS, quality_by_length, sampled_task
from nonneg_export.share.manifest_report import table
from nonneg_vectors.evaluation import structure
from nonneg_vectors.evaluation.retrieval import as_emitted, by_chance, falling, fit_pca

CLASSES, DIMENSIONS, CALIBRATION, SEEDS, PAIRS = 100, 2048, 5000, 3, 512
spent: dict[str, float] = {}


@contextmanager
def timed(name: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    spent[name] = time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=20_000)
    images = parser.parse_args().images
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, images)
    centres = np.maximum(rng.normal(size=(CLASSES, DIMENSIONS)) - 1.3, 0).astype(np.float32)
    z = np.maximum(centres[labels] + rng.standard_normal((images, DIMENSIONS), dtype=np.float32) * 0.8 - 1.2, 0)

    with timed("ranking"):
        z = np.ascontiguousarray(z[:, ranking(measure(z), "expected-activation")])
    with timed("PCA"):
        pca = fit_pca(z[:CALIBRATION])
    orders = {
        "expected-activation": [as_emitted(DIMENSIONS)],
        "random": [by_chance(DIMENSIONS, seed) for seed in range(SEEDS)],
        "variance": [falling(z.var(axis=0))],
    }
    with timed("quality by length"):
        rows = quality_by_length(sampled_task(z, labels), orders, pca=pca)
    with timed("sparsity, correlation, consistency"):
        structure.sparsity(z), structure.correlation(z), structure.consistency(z, labels)
    with timed("SEPIN"):
        structure.separate_information(z[:PAIRS], z[:PAIRS] + 0.01)

    total = sum(spent.values())
    queries = sampled_task(z, labels).queries
    print(table(("part", "seconds"), [(name, f"{seconds:.1f}") for name, seconds in spent.items()]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    asked = images if queries is None else len(queries)
    what = f"{images} x {DIMENSIONS}, {asked} queries, {len(LENGTHS)} lengths, {len(rows)} rows"
    print(f"{what}: {total:.1f} s, {peak:.2f} GiB at most")
    parts = {name: round(seconds, 2) for name, seconds in spent.items()}
    print(
        json.dumps({"images": images, "seconds": round(total, 1), "peak_gib": round(peak, 2), **parts, **provenance()})
    )


if __name__ == "__main__":
    main()
