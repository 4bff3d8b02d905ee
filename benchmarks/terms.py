"""Photos in a text engine: P@1 of SQLite's FTS5 with `to_terms`, beside exact cosines; size and time.

    python benchmarks/terms.py caltech101.npz [--photos 10000]

Stored are each vector's 205 largest values as words; a photo asks with the words of its strongest dimensions, and BM25
ranks. P@1: the first hit but the photo itself is of its class, over every fifth photo. The larger collection holds
mixtures of the real vectors, as in curation_scale.py. Milliseconds are of processor time, medians.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nonneg_client import Embeddings
from nonneg_core.terminal.tables import table

ASKED = (32, 128, 300)  # dimensions of a query
STORED = 205  # of a photo
EVERY = 5  # photos, of which one asks
TIMED = 10  # queries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors", type=Path)
    parser.add_argument("--photos", type=int, default=10_000)
    options = parser.parse_args()
    held = Embeddings.load(options.vectors).shorten()
    labels = np.array([name.split("/")[0] for name in held.ids or ()])
    with tempfile.TemporaryDirectory() as folder:
        rows = [quality(Path(folder, "small.db"), held, labels, asked) for asked in ASKED]
        print(table(["query's dimensions", "P@1 FTS5", "P@1 cosine"], rows))
        figures = speed(Path(folder, "large.db"), held, options.photos)
    print(table(["photos", "bytes a photo", "s to write", *(f"ms, {asked}" for asked in ASKED)], [figures]))
    print(json.dumps({"fingerprint": held.fingerprint, "quality": rows, "speed": figures}))


def written(path: Path, vectors: Embeddings) -> sqlite3.Connection:
    """Return a database of these photos."""
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    database.execute("CREATE VIRTUAL TABLE photos USING fts5(terms, content='')")
    add(database, 0, vectors)
    return database


def add(database: sqlite3.Connection, first: int, vectors: Embeddings) -> None:
    """Add the terms of some photos."""
    rows = enumerate(vectors.shorten(top_k=STORED).to_terms(), first)
    with database:
        database.executemany("INSERT INTO photos (rowid, terms) VALUES (?, ?)", rows)


def nearest(database: sqlite3.Connection, query: Embeddings, asked: int, k: int) -> list[int]:
    """Return the first photos for the strongest dimensions of one vector."""
    (text,) = query.shorten(top_k=asked).to_terms()
    words = " OR ".join(text.split())
    sql = "SELECT rowid FROM photos WHERE photos MATCH ? ORDER BY rank LIMIT ?"
    return [row for (row,) in database.execute(sql, (words, k))]


def quality(path: Path, held: Embeddings, labels: NDArray[np.str_], asked: int) -> tuple[int, float, float]:
    """Return P@1 of the text engine and of cosines."""
    database = written(path, held)
    right = []
    for i in range(0, len(held), EVERY):
        others = [row for row in nearest(database, held[i], asked, 2) if row != i]
        right.append(bool(others) and labels[others[0]] == labels[i])
    database.close()
    scores = held.similarity()
    np.fill_diagonal(scores, -1)
    return asked, float(np.mean(right)), float((labels[scores.argmax(axis=1)] == labels)[::EVERY].mean())


def speed(path: Path, real: Embeddings, photos: int) -> tuple[float, ...]:
    """Return the bytes a photo, seconds to write, and the median milliseconds of a query at each length."""
    rng, keep = np.random.default_rng(0), round(float(real.nnz.mean()))
    database = written(path, real[:0])
    took = 0.0
    for start in range(0, photos, 2000):
        one, other = rng.integers(0, len(real), (2, min(2000, photos - start)))
        weight = rng.uniform(0.6, 0.9, (len(one), 1)).astype(np.float32)
        z = weight * real[one].numpy() + (1 - weight) * real[other].numpy()
        mixed = Embeddings.from_dense(z, fingerprint=real.fingerprint).shorten(top_k=keep)
        began = time.process_time()
        add(database, start, mixed)
        took += time.process_time() - began
    with database:
        database.execute("INSERT INTO photos (photos) VALUES ('optimize')")
    size = path.stat().st_size / photos
    medians = [median(database, real, asked) for asked in ASKED]
    return photos, size, took, *medians


def median(database: sqlite3.Connection, real: Embeddings, asked: int) -> float:
    """Return the median milliseconds of a query for ten."""
    times = []
    for i in np.random.default_rng(1).choice(len(real), TIMED, replace=False):
        began = time.process_time()
        nearest(database, real[int(i)], asked, 10)
        times.append(1e3 * (time.process_time() - began))
    return float(np.median(times))


if __name__ == "__main__":
    main()
