"""Search a catalogue of photos by a photo, among those that are affordable: `search_catalogue.py PHOTOS CSV QUERY`.

The CSV file has a column `path` (within PHOTOS) and others, such as price and brand. Needs a server (`nonneg serve`)
and the extra `search`. Run again, it embeds only what is new.
"""

import sys
from pathlib import Path

from nonneg_client import Client
from nonneg_client.search import Index, read_attributes

photos, table, query = Path(sys.argv[1]).resolve(), Path(sys.argv[2]), sys.argv[3]
said = read_attributes(table, photos).payloads  # numbers, dates, truth values and text, by path

with Client() as client:
    question = client.embed(query)
    with Index.open("catalogue.index", like=question) as index:
        known = index.engine.payloads()
        new = [name for name in said if name not in known]
        if new:
            vectors = client.embed([photos / name for name in new], on_error="return", progress=True)
            kept = [str(Path(path).relative_to(photos)) for path in vectors.ids or ()]
            index.add(vectors.named(kept), [said[name] for name in kept])
        hits = index.search(question, k=5, where={"price": {"lt": 30}, "sold": {"not": [True]}})

for hit in hits:
    print(f"{hit.score:.3f}  {hit.payload['price']:>7}  {hit.id}  because of dimensions {[d for d, _ in hit.reasons]}")
