"""The local index at scale: exact top-10 of 100,000 vectors as a shipped model makes them, against brute force.

    python benchmarks/client_search.py [--bundle photo] [--keep 205]
    python benchmarks/client_search.py --vectors 1000000 --only-kept      8 GB of memory

Each dimension is active as often, and as strong on average and in spread, as on the photos that the bundle was ranked
on; dimensions are drawn independently. Stored are each vector's `--keep` largest values, and beside these whole
vectors; both are asked with whole vectors. Times are processor time of this process a query, which holds the engine,
and wall-clock time, once other queries have warmed the index up: the least of three rounds, since other users of the
machine's memory only add. Recall is the share of the true ten of what is stored that were found, a vector of equal
score counting as true. Prints a table, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "serving"))

from provenance import provenance

from nonneg_client import Embeddings
from nonneg_client.search import Index
from nonneg_core.shortening import keep_largest
from nonneg_runtime.bundle.bundle_folder import open_bundle

ROUNDS, AT_ONCE = 3, 5000
TRUE = 10  # of each query's nearest
Floats = np.ndarray


class Drawn:
    """Vectors as the model's manifest describes its columns."""

    def __init__(self, bundle: str) -> None:
        manifest = open_bundle(bundle).manifest
        columns = manifest.columns
        mean = np.array(columns.expected_activation)
        self.name = manifest.name
        self.share = np.array(columns.frequency)
        active = mean / np.maximum(self.share, 1e-9)  # the mean where it is active
        square = np.array(columns.variance) + mean**2
        spread = np.maximum(square / np.maximum(self.share, 1e-9) - active**2, 1e-4 * active**2 + 1e-12)
        self.shape, self.scale = active**2 / spread, spread / np.maximum(active, 1e-9)  # of a gamma distribution

    def vectors(self, n: int, seed: int, keep: int | None = None) -> Embeddings:
        """Return n of them."""
        rng = np.random.default_rng(seed)
        parts = []
        for start in range(0, n, AT_ONCE):
            shape = (min(AT_ONCE, n - start), len(self.share))
            there = rng.random(shape, dtype=np.float32) < self.share
            z = np.zeros(shape, np.float32)
            z[there] = rng.gamma(np.broadcast_to(self.shape, shape)[there], np.broadcast_to(self.scale, shape)[there])
            z = z if keep is None else keep_largest(z, keep)
            parts.append(Embeddings.from_dense(z, fingerprint="benchmark", normalized=False).shorten())
        return Embeddings.concatenate(parts).named([f"{seed}/{i}" for i in range(n)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", default="photo")
    parser.add_argument("--keep", type=int, default=205)
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--only-kept", action="store_true", help="leave out whole vectors")
    options = parser.parse_args()
    drawn = Drawn(options.bundle)
    queries, others = drawn.vectors(options.queries, 1), drawn.vectors(options.queries, 2)
    rows, sizes = [], {}
    kinds: list[tuple[str, int | None]] = [(f"{options.keep} stored", options.keep)]
    for name, keep in kinds if options.only_kept else [*kinds, ("whole", None)]:
        stored = drawn.vectors(options.vectors, 0, keep)
        found, sizes[name] = searched(stored, queries, others)
        rows += [{"stored": name, "entries": round(float(stored.nnz.mean())), **row} for row in found]
    print(f"{options.vectors} vectors as {drawn.name} makes them; queries of {queries.nnz.mean():.0f} entries")
    print(f"{'stored':12} {'asked':28} {'entries':>7} {'bytes':>6} {'CPU ms':>7} {'ms':>7} {'p99 ms':>7} {'recall':>7}")
    for row in rows:
        print(
            f"{row['stored']:12} {row['way']:28} {row['entries']:7} {sizes[row['stored']]['bytes']:6} "
            f"{row['cpu_ms']:7.2f} {row['ms']:7.2f} {row['p99_ms']:7.2f} {row['recall']:7.4f}"
        )
    print(json.dumps({"vectors": options.vectors, "model": drawn.name, "sizes": sizes, "rows": rows, **provenance()}))


def searched(stored: Embeddings, queries: Embeddings, others: Embeddings) -> tuple[list[dict], dict[str, float]]:
    """Return a row a way of asking, and what the index takes."""
    truth = nearest(stored, queries)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        with Index.open(folder, like=stored) as index:
            index.add(stored)
        built = time.perf_counter() - start
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / len(stored)
        with Index.open(folder) as index:
            ways = {
                "exact": {"reasons": False},
                "exact, with reasons": {},
                "query cut to 48, re-ranked": {"cut": 48, "reasons": False},
            }
            rows = [{"way": name, **measure(index, queries, others, truth, how)} for name, how in ways.items()]
    return rows, {"built_s": round(built, 1), "bytes": round(size)}


def nearest(stored: Embeddings, queries: Embeddings) -> Floats:
    """Return the true best scores of each query, falling, (queries, TRUE)."""
    parts = [
        np.sort((queries.csr() @ stored[start : start + AT_ONCE].csr().T).toarray(), axis=1)[:, -TRUE:]
        for start in range(0, len(stored), AT_ONCE)
    ]
    return np.sort(np.concatenate(parts, axis=1), axis=1)[:, : -TRUE - 1 : -1]


def measure(index: Index, queries: Embeddings, others: Embeddings, truth: Floats, how: dict) -> dict[str, float]:
    single = [queries[i] for i in range(len(queries))]
    for i in range(len(others)):
        index.search(others[i], TRUE, **how)
    rounds = []
    for _ in range(ROUNDS):
        found, wall = [], []
        cpu = time.process_time()
        for query in single:
            start = time.perf_counter()
            found.append(index.search(query, TRUE, **how))
            wall.append(time.perf_counter() - start)
        rounds.append(((time.process_time() - cpu) / len(single), wall))
    cpu, wall = min(rounds, key=lambda one: one[0])
    good = [
        sum(hit.score >= best[-1] * (1 - 1e-5) for hit in hits) / TRUE for hits, best in zip(found, truth, strict=True)
    ]
    return {
        "cpu_ms": round(1e3 * cpu, 3),
        "ms": round(1e3 * float(np.median(wall)), 3),
        "p99_ms": round(1e3 * float(np.quantile(wall, 0.99)), 3),
        "recall": float(np.mean(good)),
    }


if __name__ == "__main__":
    main()
