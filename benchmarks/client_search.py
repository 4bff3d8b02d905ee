"""The local index at scale: two stages beside the exact search, and beside FAISS alone.

    python benchmarks/client_search.py --vectors 1000000        generated vectors: time, bytes, filling, opening
    python benchmarks/client_search.py --real photos.npz        vectors of photos and their crops: recall

Generated vectors have the statistics of a bundle's columns: each dimension is active as often, and as strong on
average and in spread, as on the photos that it was ranked on; dimensions are drawn independently, for 10,000 vectors,
and other thousands are these with every column scaled by chance. Their recall says nothing of photos, and is not
printed. Stored are each vector's `--keep` largest values (0: all); queries are whole vectors. Times are processor time
of this process a query, the least of three rounds. Recall is the share of the exact ten that were answered, the query
itself apart; `1 %`: under a condition that leaves so many. FAISS alone compares the first 128 dimensions in int8 (flat,
and as a graph), without names, payloads or conditions. `--photos FOLDER` asks a server over the same index, in turns
for /embed and for /search, and prints the server's processor time of both. Prints a table, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "serving"))

import load
from photos import make_photos
from processes import running
from provenance import provenance

from nonneg_client import Embeddings
from nonneg_client.search import Index
from nonneg_core.shortening import keep_largest
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_vectors.search.first_stage import import_faiss
from nonneg_vectors.search.index import describe

ROUNDS, AT_ONCE, PREFIX = 3, 10_000, 128
TRUE = 10  # of each query's nearest
SHARES = {"": None, "1 %": {"folder": "0"}}  # conditions on the payload
Floats = np.ndarray


class Drawn:
    """Vectors as the model's manifest describes its columns."""

    def __init__(self, bundle: str) -> None:
        manifest = open_bundle(bundle).manifest
        columns = manifest.columns
        mean = np.array(columns.expected_activation)
        self.name, self.fingerprint = manifest.name, manifest.fingerprint
        share = np.array(columns.frequency)
        active = mean / np.maximum(share, 1e-9)  # the mean where it is active
        square = np.array(columns.variance) + mean**2
        spread = np.maximum(square / np.maximum(share, 1e-9) - active**2, 1e-4 * active**2 + 1e-12)
        shape, scale = active**2 / spread, spread / np.maximum(active, 1e-9)  # of a gamma distribution
        rng = np.random.default_rng(0)
        self._base = rng.gamma(shape, scale, (AT_ONCE, len(share))).astype(np.float32)
        self._base *= rng.random(self._base.shape, dtype=np.float32) < share

    def vectors(self, seed: int, count: int = AT_ONCE, keep: int | None = None) -> Embeddings:
        """Return some of them; another seed, others."""
        rng = np.random.default_rng(seed)
        z = self._base[rng.permutation(AT_ONCE)[:count]] * rng.lognormal(0, 0.3, self._base.shape[1])
        z = z.astype(np.float32) if keep is None else keep_largest(z.astype(np.float32), keep)
        unit = Embeddings.from_dense(z, fingerprint=self.fingerprint, model=self.name, normalized=False).shorten()
        return unit.named([f"{seed}/{i}" for i in range(count)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", default="photo")
    parser.add_argument("--keep", type=int, default=205)
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--real", help="file of vectors, of which some are queries; in place of generated ones")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--graph", action="store_true", help="beside it the graph of FAISS, which is slow to build")
    parser.add_argument("--photos", type=Path, help="folder of photos to ask a server with")
    options = parser.parse_args()
    keep = options.keep or None
    if options.real:
        every = Embeddings.load(options.real).shorten()
        every = every.named(tuple(map(str, range(len(every)))))
        rows = [real(every[:count], keep, options.queries) for count in sizes(len(every))]
    else:
        drawn, photos = Drawn(options.bundle), options.photos
        rows = [generated(drawn, options.vectors, keep, options.queries, graph=options.graph, photos=photos)]
    for row in rows:
        print(*(f"{name} {value}" for name, value in row.items()), sep="\n", end="\n\n")
    print(json.dumps({"keep": keep, "rows": rows, **provenance()}))


def sizes(most: int) -> list[int]:
    return [*(count for count in (10_000, 100_000) if count < most), most]


def real(every: Embeddings, keep: int | None, queries: int) -> dict[str, float]:
    """Return how many of the exact ten are answered, over vectors of photos."""
    stored = every if keep is None else every.shorten(top_k=keep)
    chosen = np.linspace(0, len(every) - 1, queries).astype(int).tolist()
    row: dict[str, float] = {"vectors": len(every)}
    with tempfile.TemporaryDirectory() as folder, Index.open(Path(folder) / "x", like=stored) as index:
        index.add(stored, [{"folder": str(i % 100)} for i in range(len(stored))])
        for share, where in SHARES.items():
            allowed = np.flatnonzero(np.arange(len(stored)) % 100 == 0) if where else np.arange(len(stored))
            gallery = stored[allowed]
            good = candidates = 0.0
            for i in chosen:
                scores = (gallery.csr() @ every[i].csr().T).toarray()[:, 0]
                scores[allowed == i] = 0
                true = np.sort(scores)[-TRUE]
                hits = index.search(every[i], TRUE, where=where, exclude=[stored.ids[i]], reasons=False)
                good += sum(hit.score >= true - 2e-4 and hit.id in _best(gallery, scores) for hit in hits) / TRUE
                candidates += not hits.exact
            row[f"recall {share}".strip()] = round(good / len(chosen), 4)
            row[f"in two stages {share}".strip()] = candidates / len(chosen)
    return row


def _best(gallery: Embeddings, scores: Floats) -> set[str]:
    return {gallery.ids[i] for i in np.argsort(-scores, kind="stable")[:TRUE]}


def generated(
    drawn: Drawn, vectors: int, keep: int | None, queries: int, *, graph: bool, photos: Path | None
) -> dict[str, float]:
    """Return what filling, opening and asking take."""
    asked = drawn.vectors(10**6, queries)
    row: dict[str, float] = {"vectors": vectors, "entries of a query": round(float(asked.nnz.mean()))}
    prefixes = []
    with tempfile.TemporaryDirectory() as folder:
        like = describe(asked)
        filling = 0.0
        with Index.open(Path(folder) / "x", like=like) as index:
            for part in parts(drawn, vectors, keep):
                begun = time.process_time()
                index.add(part, [{"folder": str(i % 100)} for i in range(len(part))])
                filling += time.process_time() - begun
                prefixes.append(np.clip(np.rint(512 * part.numpy()[:, :PREFIX]), 0, 255).astype(np.uint8))
            begun = time.process_time()
        row["filled, CPU s"] = round(filling + time.process_time() - begun, 1)
        for path in sorted((Path(folder) / "x").iterdir()):
            row[f"bytes a vector, {path.name}"] = round(path.stat().st_size / vectors, 1)
        begun, cpu = time.perf_counter(), time.process_time()
        with Index.open(Path(folder) / "x") as index:
            index.search(asked[0], TRUE)
            row["opened and first asked, s"] = round(time.perf_counter() - begun, 3)
            row["opened and first asked, CPU s"] = round(time.process_time() - cpu, 3)
            ways = {
                "two stages": {"reasons": False},
                "with reasons": {},
                "1 % of them": {"where": SHARES["1 %"], "reasons": False},
            }
            for name, how in ways.items():
                row[f"CPU ms, {name}"] = measure(lambda i, how=how: index.search(asked[i], TRUE, **how), queries)
            row["CPU ms, exact"] = measure(lambda i: index.search(asked[i], TRUE, exact=True, reasons=False), 2)
            row["CPU ms, dim:17"] = measure(lambda i: index.by_dimensions({17 + i: 1.0}, TRUE), 5)
        if photos is not None:
            row |= served(Path(folder), make_photos(photos))
    return row | beside(np.concatenate(prefixes), asked.numpy()[:, :PREFIX].copy(), graph=graph)


def parts(drawn: Drawn, vectors: int, keep: int | None) -> Iterator[Embeddings]:
    for seed, start in enumerate(range(0, vectors, AT_ONCE)):
        yield drawn.vectors(seed, min(AT_ONCE, vectors - start), keep)


def served(folder: Path, bodies: list[bytes]) -> dict[str, float]:
    """Return the processor time of a server for a photo that is embedded, and for one that is searched for."""
    command = [str(Path(sys.executable).with_name("nonneg")), "serve", "--index", str(folder / "x"), "--port", "{port}"]
    times: dict[str, list[float]] = {"/embed": [], "/search": []}
    with running(command, "/embed", bodies[0], env={}, cwd=folder, log=folder / "log") as server:
        for _ in range(ROUNDS):
            for path, each in times.items():
                url = server.url.removesuffix("/embed") + path
                load.run(url, bodies, seconds=0.5, clients=1)
                before = server.cpu_seconds()
                asked = load.run(url, bodies, seconds=5, clients=1)
                each.append((server.cpu_seconds() - before) / asked["ok"])
    row = {f"CPU ms, {path}": round(1e3 * min(each), 2) for path, each in times.items()}
    return row | {"/search to /embed": round(row["CPU ms, /search"] / row["CPU ms, /embed"], 3)}


def beside(prefixes: Floats, asked: Floats, *, graph: bool) -> dict[str, float]:
    """Return what FAISS takes for 400 candidates by prefixes of int8."""
    faiss = import_faiss()
    kind, product = faiss.ScalarQuantizer.QT_8bit_direct, faiss.METRIC_INNER_PRODUCT
    indexes = {"FAISS, flat int8": faiss.IndexScalarQuantizer(PREFIX, kind, product)}
    if graph:
        indexes["FAISS, HNSW int8"] = faiss.IndexHNSWSQ(PREFIX, kind, 32, product)
        indexes["FAISS, HNSW int8"].hnsw.efSearch = 400
    row = {}
    for name, index in indexes.items():
        index.train(prefixes[:1000].astype(np.float32))
        begun = time.process_time()
        for start in range(0, len(prefixes), AT_ONCE):
            index.add(prefixes[start : start + AT_ONCE].astype(np.float32))
        row[f"filled, CPU s, {name}"] = round(time.process_time() - begun, 1)
        row[f"CPU ms, {name}"] = measure(lambda i, index=index: index.search(asked[i : i + 1], 400), len(asked))
    return row


def measure(ask: Callable[[int], object], queries: int) -> float:
    """Return milliseconds of processor time a query."""
    for i in range(queries):
        ask(i)
    best = []
    for _ in range(ROUNDS):
        cpu = time.process_time()
        for i in range(queries):
            ask(i)
        best.append((time.process_time() - cpu) / queries)
    return round(1e3 * min(best), 2)


if __name__ == "__main__":
    main()
