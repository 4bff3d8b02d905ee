"""Embed many photos into Parquet, and from there into PostgreSQL: `bulk_export.py PHOTOS OUT.parquet [DSN]`.

Interrupted, it goes on; given again, it embeds only what is new or changed. The second half needs psycopg and a
database with pgvector 0.7. Needs a server and the extra `scale`.
"""

import subprocess
import sys
from pathlib import Path

from nonneg_client import converters
from nonneg_client.storage import parts

photos, out, *database = sys.argv[1:]
again = ["--update"] if Path(out).exists() else []
subprocess.run([sys.executable, "-m", "nonneg_cli", "embed", photos, "-o", out, *again], check=True)

if database:
    import psycopg

    with psycopg.connect(database[0]) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        made = False
        for vectors in parts(Path(out)):  # a row group at a time: the file may be larger than memory
            if not made:
                column = f"sparsevec({vectors.dimensions})"
                connection.execute(
                    f"CREATE TABLE IF NOT EXISTS photos (id text PRIMARY KEY, vector {column}, said jsonb)"
                )
                made = True
            upsert = "INSERT INTO photos VALUES (%s, %s::sparsevec, %s::jsonb) ON CONFLICT (id) DO UPDATE SET "
            rows = converters.pgvector_points(vectors)
            connection.cursor().executemany(upsert + "vector = EXCLUDED.vector, said = EXCLUDED.said", rows)
        count = connection.execute("SELECT count(*) FROM photos").fetchone()
        print(f"{count[0] if count else 0} rows in the table photos")
