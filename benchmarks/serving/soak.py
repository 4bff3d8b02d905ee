"""An hour of mixed traffic at a steady rate: does memory stay where it is, and does everything get its answer?

    python benchmarks/serving/soak.py --photos FOLDER                       an hour at 30 requests a second
    python benchmarks/serving/soak.py --photos FOLDER --minutes 15 --rate 10

Most requests are small JPEGs, some are large ones, some are broken. A line a minute on stderr, then a table and one
JSON line; it fails if memory still grew after the first quarter, or if anything but 200 and 4xx came back.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import load
from contestants import CONTESTANTS
from measure import Plan, started
from photos import make_photos
from processes import Server
from provenance import provenance

from nonneg_export.bundle import open_bundle

GROWTH = 8.0  # MB that the median of the last quarter may lie above the second quarter's


def traffic(photos: Path) -> list[bytes]:
    """What is asked in turn: 56 small photos, 4 large ones, 4 broken files."""
    small, large = make_photos(photos, count=56), make_photos(photos, width=3000, height=2000, count=4)
    broken = [small[0][:5000], b"nonsense", b"\xff\xd8\xff" + b"\0" * 2000, small[1][:-200]]
    mixed = [*small, *large, *broken]
    return random.Random(0).sample(mixed, len(mixed))


def soaked(server: Server, bodies: list[bytes], *, minutes: float, rate: float) -> list[dict[str, Any]]:
    """One row a minute, or a sixtieth of the time if that is shorter."""
    rows: list[dict[str, Any]] = []
    until, slice_seconds = time.monotonic() + 60 * minutes, min(60.0, minutes)
    while time.monotonic() < until:
        found = load.run(server.url, bodies, rate=rate, seconds=slice_seconds)
        rows.append({"pss_mb": server.pss_mb(), **{key: found.get(key) for key in ("statuses", "p50_ms", "p99_ms")}})
        print(f"{len(rows):4d}  {rows[-1]}", file=sys.stderr, flush=True)
    return rows


def verdict(rows: list[dict[str, Any]]) -> dict[str, Any]:
    quarter = max(1, len(rows) // 4)
    second, last = (
        round(median(row["pss_mb"] for row in part), 1) for part in (rows[quarter : 2 * quarter], rows[-quarter:])
    )
    statuses: dict[str, int] = {}
    for row in rows:
        for status, count in row["statuses"].items():
            statuses[status] = statuses.get(status, 0) + count
    strange = sorted(status for status in statuses if status != "200" and not status.startswith("4"))
    return {
        "second_quarter_mb": second,
        "last_quarter_mb": last,
        "most_mb": max(row["pss_mb"] for row in rows),
        "statuses": statuses,
        "flat": last - second <= GROWTH,
        "strange": strange,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=30)
    parser.add_argument("--home", type=Path, default=Path.home() / ".cache/nonneg-benchmarks")
    given = parser.parse_args()
    given.home.mkdir(parents=True, exist_ok=True)
    bodies, bundle = traffic(given.photos), open_bundle(None)
    plan = Plan(bundle.path.resolve(), given.photos.resolve(), bodies, "mixed", 1.0, given.home.resolve())
    with started(CONTESTANTS["nonneg"], plan) as server:
        rows = soaked(server, bodies, minutes=given.minutes, rate=given.rate)
    found = verdict(rows)
    print("| minutes | requests | second quarter MB | last quarter MB | most MB | answers |\n|---|---|---|---|---|---|")
    answers = ", ".join(f"{count} x {status}" for status, count in sorted(found["statuses"].items()))
    print(
        f"| {given.minutes:g} | {sum(found['statuses'].values())} | {found['second_quarter_mb']} | "
        f"{found['last_quarter_mb']} | {found['most_mb']} | {answers} |"
    )
    print(json.dumps({"benchmark": "soak", **provenance(), "rate": given.rate, **found, "rows": rows}))
    return 0 if found["flat"] and not found["strange"] else 1


if __name__ == "__main__":
    sys.exit(main())
