"""What a query costs besides a model: parsing it, and a text's search beside a photo's, on many photos.

    python benchmarks/queries.py photos.npz [--photos 100000]

The index is the local one; its vectors are mixtures of real ones, as in curation_scale.py. Parsing is timed without the
cache of recent expressions. A text's time is from words to hits; a photo's begins with its vector. Microseconds and
milliseconds are of this process, which holds the engine; medians.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from nonneg_client import Embeddings
from nonneg_client.embedder import local
from nonneg_client.search import Index
from nonneg_core.terminal.tables import table
from nonneg_vectors.expressions.expression_parser import parse

EXPRESSIONS = (
    '"golden retriever"',
    "photos/cat.jpg + 2*dim:17 - 0.5*dim:goldfish",
    'photo.jpg & "dog" & dim:17 !"car" !dim:40',
    " + ".join(f"dim:{j}" for j in range(32)),
)
TEXTS = ("golden retriever", "lighthouse", "dog", "vehicle", "a cup of espresso", "seashore", "crane", "lamp")
ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors", type=Path, help="a file of vectors of `photo`")
    parser.add_argument("--photos", type=int, default=100_000)
    options = parser.parse_args()
    parsing = [(text[:50], 1e6 * median(parse.__wrapped__, [text] * 500)) for text in EXPRESSIONS]
    print(table(["expression", "us"], parsing))
    real = Embeddings.load(options.vectors).shorten()
    with tempfile.TemporaryDirectory() as folder, local("photo") as embedder:
        with Index.open(folder, like=real) as index:
            fill(index, real, options.photos)
        with Index.open(folder) as index:
            rows = searched(index, real, embedder)
    print(table([f"on {options.photos} photos", "ms"], rows))
    print(json.dumps({"parsing_us": parsing, "photos": options.photos, "ms": rows}))


def searched(index: Index, real: Embeddings, embedder: object) -> list[tuple[str, float]]:
    """Return a row for photos, and one for each text."""
    vectors = [real[int(i)] for i in np.random.default_rng(1).choice(len(real), 20, replace=False)]
    rows = [("a photo's vector", 1e3 * median(index.search, vectors * ROUNDS))]
    for text in TEXTS:
        expression = f'"{text}"'
        rows.append((text, 1e3 * median(lambda asked: index.search(asked, through=embedder), [expression] * 20)))
    return rows


def median(work: Callable[[object], object], over: Sequence[object]) -> float:
    """Return the median seconds of all but the first."""
    times = []
    for one in over:
        started = time.process_time()
        work(one)
        times.append(time.process_time() - started)
    return float(np.median(times[1:]))


def fill(index: Index, real: Embeddings, photos: int) -> None:
    """Add mixtures of two, as long as the real ones."""
    rng, keep = np.random.default_rng(0), round(float(real.nnz.mean()))
    for start in range(0, photos, 2000):
        one, other = rng.integers(0, len(real), (2, min(2000, photos - start)))
        weight = rng.uniform(0.6, 0.9, (len(one), 1)).astype(np.float32)
        z = weight * real[one].numpy() + (1 - weight) * real[other].numpy()
        mixed = Embeddings.from_dense(z, fingerprint=real.fingerprint, model=real.model).shorten(top_k=keep)
        index.add(mixed.named([f"{start + i:06d}" for i in range(len(mixed))]))


if __name__ == "__main__":
    main()
