"""Servers side by side: the same ONNX file, the same preprocessing, the same JPEGs, in one run.

    python benchmarks/serving/run.py --photos FOLDER                     every contestant, three rounds
    python benchmarks/serving/run.py --photos FOLDER --only nonneg mosec
    python benchmarks/serving/run.py --photos FOLDER --overload          3x the peak for a minute, ours only
    python benchmarks/serving/run.py --photos FOLDER --bundle DIR        another model than the default one

Prints a table, then one JSON line. The peers are installed in environments of their own under --home.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from contestants import CONTESTANTS
from measure import Plan, limit, overload, throughput
from photos import make_photos
from provenance import provenance

from nonneg_export.bundle import open_bundle

COLUMNS = ("c8 share of limit", "c32 share", "c1 p50 ms", "c8 p99 ms", "CPU ms/image", "PSS MB", "cold start s")


def rounds(plan: Plan, names: list[str], count: int) -> list[dict[str, Any]]:
    """Every contestant in every round, each between two measurements of the limit."""
    found = []
    for number in range(count):
        before = limit(plan)
        this: dict[str, Any] = {"contestants": {}}
        for name in names:
            print(f"round {number + 1} of {count}: {name}", file=sys.stderr)
            measured = throughput(CONTESTANTS[name], plan)
            after = limit(plan)
            measured["limit"] = (before["rate"] + after["rate"]) / 2
            measured["limit_cpu_ms"] = after["cpu_ms_per_image"]
            this["contestants"][name] = measured
            before = after
        found.append(this)
    return found


def summarised(found: list[dict[str, Any]], name: str) -> dict[str, dict[str, float]]:
    """Median, least and most over the rounds, a column each."""
    runs = [this["contestants"][name] for this in found]
    values = {
        "c8 share of limit": [run["c8"]["rate"] / run["limit"] for run in runs],
        "c32 share": [run["c32"]["rate"] / run["limit"] for run in runs],
        "c1 p50 ms": [run["c1"]["p50_ms"] for run in runs],
        "c8 p99 ms": [run["c8"]["p99_ms"] for run in runs],
        "CPU ms/image": [run["c8"]["cpu_ms_per_image"] for run in runs],
        "PSS MB": [run["pss_mb"] for run in runs],
        "cold start s": [run["cold_start_s"] for run in runs],
    }
    return {key: {"median": median(v), "least": min(v), "most": max(v)} for key, v in values.items()}


def table(summary: dict[str, dict[str, dict[str, float]]]) -> str:
    lines = ["| server | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, row in summary.items():
        cells = [f"{_show(row[c]['median'])} ({_show(row[c]['least'])} to {_show(row[c]['most'])})" for c in COLUMNS]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _show(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def overload_table(found: dict[str, Any]) -> str:
    peak, flood, after = found["peak"], found["flood"], found["after"]
    rows = [
        ("peak, 32 clients", peak["rate"], peak["p99_ms"], peak["statuses"]),
        ("3x the peak, open loop", flood["rate"], flood["p99_ms"], flood["statuses"]),
        ("after it, 8 clients", after["rate"], after["p99_ms"], after["statuses"]),
    ]
    lines = ["| | images/s answered | p99 ms of these | answers |", "|---|---|---|---|"]
    lines += [f"| {what} | {rate:.0f} | {p99:.0f} | {_statuses(s)} |" for what, rate, p99, s in rows]
    return "\n".join([*lines, "", f"Goodput {found['goodput']:.3f} of the peak; PSS {found['pss_mb']} MB afterwards."])


def _statuses(found: dict[str, int]) -> str:
    return ", ".join(f"{count} x {status}" for status, count in sorted(found.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True, help="any folder of photos; a sample becomes the JPEGs")
    parser.add_argument("--size", default="500x375")
    parser.add_argument("--bundle", type=Path, help="without it, the default model")
    parser.add_argument("--only", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="of every single measurement")
    parser.add_argument("--overload", action="store_true")
    parser.add_argument("--overload-seconds", type=float, default=60)
    parser.add_argument("--home", type=Path, default=Path.home() / ".cache/nonneg-benchmarks")
    given = parser.parse_args()
    given.home.mkdir(parents=True, exist_ok=True)
    bundle = open_bundle(given.bundle)
    width, height = map(int, given.size.split("x"))
    bodies = make_photos(given.photos, width=width, height=height)
    plan = Plan(bundle.path.resolve(), given.photos.resolve(), bodies, given.size, given.seconds, given.home.resolve())
    line: dict[str, Any] = {"benchmark": "serving", **provenance(), "model": bundle.manifest.name, "size": given.size}
    if given.overload:
        line["overload"] = overload(CONTESTANTS["nonneg"], plan, times=3, seconds=given.overload_seconds)
        print(overload_table(line["overload"]))
    else:
        found = rounds(plan, given.only, given.rounds)
        line["summary"] = {name: summarised(found, name) for name in given.only}
        line["rounds"] = found
        print(table(line["summary"]))
    print(json.dumps(line))


if __name__ == "__main__":
    main()
