"""List photos that are nearly the same as a larger one: `find_copies.py PHOTOS [COSINE]`.

Prints one line a copy: the file, the one to keep, and their cosine. Nothing is removed. Needs a server (`nonneg serve`)
and the extra `search`. `nonneg curate` does more: it compares pixels too, and tells copies from look-alikes.
"""

import sys
import tempfile
from pathlib import Path

from nonneg_client import Client
from nonneg_client.search import Index

photos, threshold = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.97

with Client() as client:
    vectors = client.embed(photos, on_error="return")
for failure in vectors.failures:
    print(f"skipped {failure.id}: {failure.error.message}", file=sys.stderr)

with tempfile.TemporaryDirectory() as folder, Index.open(f"{folder}/index", like=vectors) as index:
    index.add(vectors)
    sizes = {name: Path(name).stat().st_size for name in vectors.ids or ()}
    largest_first = sorted(range(len(vectors)), key=lambda i: -sizes[(vectors.ids or ())[i]])
    copies: set[str] = set()
    for i in largest_first:
        name = (vectors.ids or ())[i]
        if name in copies:
            continue
        for hit in index.search(vectors[i], k=20, exclude=[name, *copies], reasons=False):
            if hit.score >= threshold:
                copies.add(hit.id)
                print(f"{hit.id}\t{name}\t{hit.score:.3f}")
