"""What the studio's answers take: `python benchmarks/studio.py VECTORS [--photos 10000,100000]`.

Collections are mixtures of real vectors, as in curation_scale.py. For each size: the search at several lengths (the
first time, when the columns of that length are made, and the median and 95th percentile of the later ones), the facets,
and a dimension's page. With --busy a thread of this process runs the encoder all the time, as the server does while it
embeds. Milliseconds are of this thread's work on a core; memory is of the
collection alone.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nonneg_client.embeddings import Embeddings
from nonneg_core.expressions.expression import Photo
from nonneg_core.expressions.parse import parse
from nonneg_core.tables import table
from nonneg_runtime.bundle import Bundle, open_bundle
from nonneg_runtime.graph import test_pattern
from nonneg_runtime.known_names import names_of
from nonneg_runtime.session import Session
from nonneg_server.studio.cards import Cards
from nonneg_server.studio.collection import Collection
from nonneg_server.studio.column_index import Stored
from nonneg_server.studio.dimension_details import meaning
from nonneg_server.studio.facets import facets
from nonneg_server.studio.length import Length
from nonneg_server.studio.query import Query
from nonneg_server.studio.search import Page, search

ASKED = 40
LENGTHS = (Length(2048), Length(512), Length(128), Length(2048, 64), Length(512, 32), Length(2048, None, tenth=True))
AT_ONCE = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vectors", type=Path, help="a file of vectors of `photo`")
    parser.add_argument("--photos", default="10000,100000")
    parser.add_argument("--busy", action="store_true", help="run the encoder beside it")
    options = parser.parse_args()
    bundle, real = open_bundle("photo"), Embeddings.load(options.vectors).shorten()
    if options.busy:
        threading.Thread(target=encode_for_ever, args=(bundle,), daemon=True).start()
    rows = []
    for size in map(int, options.photos.split(",")):
        collection, megabytes = made(real, size)
        rows += measured(bundle, collection, megabytes)
    print(table(["photos", "what", "first", "median", "95 %", "MB"], rows))
    print(json.dumps({"busy": options.busy, "rows": rows}))


def measured(bundle: Bundle, collection: Collection, megabytes: float) -> list[tuple[Any, ...]]:
    """A row for everything that is asked."""
    cards = Cards(names_of(bundle))
    asked = [int(i) for i in np.random.default_rng(1).choice(len(collection), ASKED, replace=False)]

    def ask(i: int, length: Length) -> None:
        name = Photo(collection.names[i])
        query = Query(bundle, parse(str(name)), {name: collection.stored.dense(i)})
        search(collection, query, [i], length, Page(), cards)

    rows = []
    for length in LENGTHS:
        said = f"search, {length.dimensions}" + (f", top_k {length.top_k}" if length.top_k else "")
        said += ", a tenth stored" * length.tenth
        rows.append((len(collection), said, *times(lambda i, at=length: ask(i, at), asked), megabytes))
    result = np.arange(20)
    rows.append((len(collection), "facets", *times(lambda _: facets(collection, result, cards), asked), megabytes))
    columns = bundle.manifest.columns
    some = [int(j) for j in np.random.default_rng(2).choice(2048, ASKED, replace=False)]
    took = times(lambda j: meaning(collection, j, columns, cards), some)
    rows.append((len(collection), "a dimension", *took, megabytes))
    return rows


def times(work: Callable[[int], object], over: list[int]) -> tuple[float, float, float]:
    """Milliseconds of the first, and of the others the median and the 95th percentile."""
    found = []
    for one in over:
        started = time.thread_time()
        work(one)
        found.append(1e3 * (time.thread_time() - started))
    return found[0], float(np.median(found[1:])), float(np.quantile(found[1:], 0.95))


def made(real: Embeddings, photos: int) -> tuple[Collection, float]:
    """A collection of mixtures of two, as long as the real ones, and how many megabytes it takes."""
    rng, keep = np.random.default_rng(0), round(float(real.nnz.mean()))
    parts = []
    for start in range(0, photos, AT_ONCE):
        one, other = rng.integers(0, len(real), (2, min(AT_ONCE, photos - start)))
        weight = rng.uniform(0.6, 0.9, (len(one), 1)).astype(np.float32)
        z = weight * real[one].numpy() + (1 - weight) * real[other].numpy()
        parts.append(Embeddings.from_dense(z, fingerprint=real.fingerprint).shorten(top_k=keep))
    held = Embeddings.concatenate(parts)
    del parts
    stored = Stored(held.indptr, held.indices, held.values, held.dimensions)
    whole = stored.whole
    arrays = (stored.indptr, stored.indices, stored.values, whole.rows, whole.values, whole.lengths)
    names = [f"{i:06d}.jpg" for i in range(photos)]
    collection = Collection(Path(), names, stored, "photo", real.fingerprint)
    return collection, sum(array.nbytes for array in arrays) / 1e6


def encode_for_ever(bundle: Bundle) -> None:
    """One image after the other."""
    session, pixels = Session(bundle.encoder), test_pattern(bundle.manifest.view.size)
    while True:
        session.run(pixels)


if __name__ == "__main__":
    main()
