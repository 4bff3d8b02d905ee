"""An hour of mixed traffic at a steady rate: does memory stay where it is, and does everything get its answer?

    python benchmarks/serving/soak.py --photos FOLDER                       an hour at 30 requests a second
    python benchmarks/serving/soak.py --photos FOLDER --minutes 15 --rate 10

Most requests are small JPEGs, some are large ones, some are broken. A line a minute on stderr, then a table and one
JSON line; it fails if memory may still have grown after the first quarter, or if anything but 200 and 4xx came back.

What is judged is the server's own, anonymous memory. Its share of the libraries' pages (the rest of PSS) changes by
20 MB with whatever else on the machine has mapped the same files.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import load
from contestants import CONTESTANTS
from measure import Plan, started
from photos import make_photos
from processes import Server
from provenance import provenance
from trend import trend

from nonneg_runtime.bundle.bundle_folder import open_bundle

GROWTH = 3.0  # MB it may have grown at most after the first quarter: 37 bytes a request in an hour at 30 a second


def traffic(photos: Path) -> list[bytes]:
    """Return what is asked in turn: 56 small photos, 4 large ones, 4 broken files."""
    small, large = make_photos(photos, count=56), make_photos(photos, width=3000, height=2000, count=4)
    broken = [small[0][:5000], b"nonsense", b"\xff\xd8\xff" + b"\0" * 2000, small[1][:-200]]
    mixed = [*small, *large, *broken]
    return random.Random(0).sample(mixed, len(mixed))


def soaked(server: Server, bodies: list[bytes], *, minutes: float, rate: float) -> list[dict[str, Any]]:
    """Return one row a minute, or a sixtieth of the time if that is shorter."""
    rows: list[dict[str, Any]] = []
    until, slice_seconds = time.monotonic() + 60 * minutes, min(60.0, minutes)
    while time.monotonic() < until:
        found = load.run(server.url, bodies, rate=rate, seconds=slice_seconds)
        memory = {"own_mb": server.own_mb(), "pss_mb": server.pss_mb()}
        rows.append({**memory, **{key: found.get(key) for key in ("statuses", "p50_ms", "p99_ms")}})
        print(f"{len(rows):4d}  {rows[-1]}", file=sys.stderr, flush=True)
    return rows


def verdict(rows: list[dict[str, Any]]) -> dict[str, Any]:
    later = [row["own_mb"] for row in rows[len(rows) // 4 :]]
    growth, least, most = (round(slope * (len(later) - 1), 2) for slope in trend(later))
    statuses: dict[str, int] = {}
    for row in rows:
        for status, count in row["statuses"].items():
            statuses[status] = statuses.get(status, 0) + count
    strange = sorted(status for status in statuses if status != "200" and not status.startswith("4"))
    return {
        "growth_mb": growth,
        "growth_least_mb": least,
        "growth_most_mb": most,
        "own_mb": later[-1],
        "most_mb": max(row["pss_mb"] for row in rows),
        "statuses": statuses,
        "flat": most <= GROWTH,
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
    print("| minutes | requests | growth MB | own MB at the end | most PSS MB | answers |\n|---|---|---|---|---|---|")
    answers = ", ".join(f"{count} x {status}" for status, count in sorted(found["statuses"].items()))
    growth = f"{found['growth_mb']} ({found['growth_least_mb']} to {found['growth_most_mb']})"
    requests = sum(found["statuses"].values())
    print(f"| {given.minutes:g} | {requests} | {growth} | {found['own_mb']} | {found['most_mb']} | {answers} |")
    line = {"benchmark": "soak", **provenance(), "model": bundle.manifest.name, "rate": given.rate, **found}
    print(json.dumps({**line, "rows": rows}))
    return 0 if found["flat"] and not found["strange"] else 1


if __name__ == "__main__":
    sys.exit(main())
