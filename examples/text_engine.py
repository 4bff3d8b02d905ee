"""Photos in a text engine: `text_engine.py PHOTOS PHOTO [words.db]`, with SQLite's FTS5. Needs a server.

Each dimension is a word, so a file that anything can open searches photos by BM25, with AND and NOT.
"""

import sqlite3
import sys

from nonneg_client import Client

folder, asked, *rest = sys.argv[1:]
database = sqlite3.connect(rest[0] if rest else ":memory:")
database.execute("CREATE VIRTUAL TABLE IF NOT EXISTS photos USING fts5(name UNINDEXED, terms)")

with Client() as client:
    names = {found["dimension"]: found["name"] for found in client.dimensions(named=True)}
    vectors = client.embed(folder, top_k=205)
    (query,) = client.embed(asked, top_k=300).to_terms(names)

with database:
    database.executemany("INSERT INTO photos VALUES (?, ?)", zip(vectors.ids, vectors.to_terms(names), strict=True))

by_likeness = " OR ".join(query.split())  # a word that stands twice counts twice
strongest = max(set(query.split()), key=query.split().count)
for title, match in (("like it", by_likeness), (f"like it, without {strongest}", f"({by_likeness}) NOT {strongest}")):
    print(title)
    for (name,) in database.execute("SELECT name FROM photos WHERE photos MATCH ? ORDER BY rank LIMIT 5", (match,)):
        print(f"  {name}")
