"""Servers side by side: the same ONNX file, the same preprocessing, the same JPEGs, in one run.

    python benchmarks/serving/run.py --photos FOLDER                     every contestant, in turn
    python benchmarks/serving/run.py --photos FOLDER --only nonneg mosec
    python benchmarks/serving/run.py --photos FOLDER --overload          3x the peak for a minute, ours only
    python benchmarks/serving/run.py --photos FOLDER --bundle DIR        another model than the default one
    python benchmarks/serving/run.py --photos FOLDER --size 4000x3000 --seconds 4 --naive --only nonneg

One server after the other, with slices of the in-process limit in between; slices during which others used the machine
do not count, if there are enough others. Prints a table, then one JSON line. The peers are installed in environments of
their own under --home.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import load
from contestants import CONTESTANTS
from measure import Limit, Plan, nothing, overload, slice_of, started
from photos import make_photos
from processes import Server
from provenance import provenance
from quiet import Watch

from nonneg_export.bundle import open_bundle

COLUMNS = (
    "c8 share of limit",
    "c32 share",
    "c8 share, asking paid",
    "c32 share, asking paid",
    "c8 share by CPU",
    "c1 p50 ms",
    "c8 p99 ms",
    "CPU ms/image",
    "PSS MB",
    "cold start s",
)
ASKING = "asking"  # the limit of who pays for being asked
CLIENTS = (1, 8, 32)
QUIET = 0.06  # of the machine's CPU time may have gone to others during a slice that counts
ENOUGH = 5  # slices that count, of every kind


def collect(plan: Plan, names: list[str], *, most_rounds: int, wait: float) -> dict[str, Any]:
    """One server after the other, each with slices of the limits in between: the machine is not the same for long."""
    found: dict[str, Any] = {}
    limit = Limit(plan)
    for name in names:
        print(f"starting {name}", file=sys.stderr)
        with started(CONTESTANTS[name], plan) as server:
            load.run(server.url, plan.bodies, clients=8, seconds=1.0)  # warm every worker
            mine: dict[str, Any] = {key: [] for key in (*limits(plan), *map(width, CLIENTS))}
            for number in range(most_rounds):
                last = number + 1 == most_rounds  # never quiet: better a disturbed slice than none
                take_turns(mine, limit, server, plan, wait=0 if last else wait)
                if all(map(enough, mine.values())):
                    break
            found[name] = {**mine, "cold_start_s": server.cold_start, "pss_mb": server.pss_mb()}
    limit.close()
    return found


def limits(plan: Plan) -> tuple[str, ...]:
    """Kinds of work in `limit.py`, and the job while somebody asks."""
    return ("job", "vectors", *(["naive"] if plan.naive else []), ASKING)


def width(clients: int) -> str:
    return f"c{clients}"


def take_turns(mine: dict[str, Any], limit: Limit, server: Server, plan: Plan, *, wait: float) -> None:
    """A slice of every limit and of every width, each when the machine is quiet."""
    for kind in limits(plan):
        if kind != ASKING and fell_quiet(wait):
            mine[kind].append(limit.slice(plan.seconds, kind))
    if mine["job"] and fell_quiet(wait):
        rate = mine["job"][-1]["rate"]
        with nothing(plan) as idle:
            mine[ASKING].append(limit.slice_asking(plan.seconds, idle, plan.bodies, rate))
    for count in CLIENTS:
        slices = mine[width(count)]
        if not enough(slices) and fell_quiet(wait):
            slices.append(slice_of(server, plan, count))


def fell_quiet(wait: float) -> bool:
    """True as soon as others leave the machine alone, False when they do not for so many seconds; 0: do not look."""
    until = time.monotonic() + wait
    while wait and time.monotonic() < until:
        watch = Watch(lambda: 0.0)
        time.sleep(0.25)
        if watch.others() <= QUIET:
            return True
    return not wait


def enough(slices: list[dict[str, Any]]) -> bool:
    return sum(one["others"] <= QUIET for one in slices) >= ENOUGH


def quietest(slices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The slices that count; where the machine was never quiet, the few that were disturbed least."""
    return sorted(slices, key=lambda one: float(one["others"]))[:ENOUGH]


def summarised(run: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Median, least and most over the slices that count, a column each."""
    few, many = quietest(run["c8"]), quietest(run["c32"])
    limit, limit_cpu, asking = (
        typical(run[kind], key) for kind, key in (("job", "rate"), ("job", "cpu_ms_per_image"), (ASKING, "rate"))
    )
    values = {
        "c8 share of limit": [one["rate"] / limit for one in few],
        "c32 share": [one["rate"] / limit for one in many],
        "c8 share, asking paid": [one["rate"] / asking for one in few],
        "c32 share, asking paid": [one["rate"] / asking for one in many],
        "c8 share by CPU": [limit_cpu / one["cpu_ms_per_image"] for one in few],
        "c1 p50 ms": [one["p50_ms"] for one in quietest(run["c1"])],
        "c8 p99 ms": [one["p99_ms"] for one in few],
        "CPU ms/image": [one["cpu_ms_per_image"] for one in few],
        "PSS MB": [run["pss_mb"]],
        "cold start s": [run["cold_start_s"]],
    }
    return {key: {"median": median(v), "least": min(v), "most": max(v)} for key, v in values.items()}


def typical(slices: list[dict[str, Any]], key: str) -> float:
    return float(median(one[key] for one in quietest(slices)))


def disturbance(found: dict[str, Any]) -> str:
    """The limits, and how quiet the machine was, in sentences."""
    kinds = [slices for run in found.values() for slices in run.values() if isinstance(slices, list)]
    counted = [one["others"] for slices in kinds for one in quietest(slices)]
    job, vectors, asking = (
        [one for run in found.values() for one in quietest(run[kind])] for kind in ("job", "vectors", ASKING)
    )
    return (
        f"In-process limit: {amid(job, 'rate'):.0f} images/s at {amid(job, 'cpu_ms_per_image'):.2f} ms of CPU an "
        f"image; {amid(vectors, 'rate'):.0f} without writing answers; {amid(asking, 'rate'):.0f} while the load "
        f"generator asks a server that does nothing, at {amid(asking, 'generator_ms_per_image'):.3f} ms of its CPU an "
        f"image. Others used {median(counted):.0%} of the machine (at most {max(counted):.0%}) during the slices that "
        f"count; {sum(map(len, kinds))} were taken." + beside_naive(found)
    )


def amid(slices: list[dict[str, Any]], key: str) -> float:
    return float(median(one[key] for one in slices))


def beside_naive(found: dict[str, Any]) -> str:
    """How many times as fast as decoding every JPEG whole, where that was measured."""
    runs = {name: run for name, run in found.items() if run.get("naive")}
    if not runs:
        return ""
    naive = amid([one for run in runs.values() for one in quietest(run["naive"])], "rate")
    times = [f"{name} {typical(run['c8'], 'rate') / typical(run['naive'], 'rate'):.2f}" for name, run in runs.items()]
    return (
        f"\n\nDecoding every JPEG whole, without a server: {naive:.1f} images/s. "
        f"Times that, with 8 clients: {', '.join(times)}."
    )


def table(summary: dict[str, dict[str, dict[str, float]]]) -> str:
    lines = ["| server | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, row in summary.items():
        lines.append(f"| {name} | " + " | ".join(_cell(row[column]) for column in COLUMNS) + " |")
    return "\n".join(lines)


def _cell(values: dict[str, float]) -> str:
    if values["least"] == values["most"]:
        return _show(values["median"])
    return f"{_show(values['median'])} ({_show(values['least'])} to {_show(values['most'])})"


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
    parser.add_argument("--rounds", type=int, default=20, help="at most; fewer if the machine is quiet")
    parser.add_argument("--seconds", type=float, default=1.5, help="of every single measurement")
    parser.add_argument("--wait", type=float, default=2, help="seconds a slice waits for quiet before its turn is over")
    parser.add_argument("--naive", action="store_true", help="also: every JPEG decoded whole, without a server")
    parser.add_argument("--overload", action="store_true")
    parser.add_argument("--overload-seconds", type=float, default=60)
    parser.add_argument("--home", type=Path, default=Path.home() / ".cache/nonneg-benchmarks")
    given = parser.parse_args()
    given.home.mkdir(parents=True, exist_ok=True)
    bundle = open_bundle(given.bundle)
    width, height = map(int, given.size.split("x"))
    bodies = make_photos(given.photos, width=width, height=height)
    places = bundle.path.resolve(), given.photos.resolve()
    plan = Plan(*places, bodies, given.size, given.seconds, given.home.resolve(), given.naive)
    line: dict[str, Any] = {"benchmark": "serving", **provenance(), "model": bundle.manifest.name, "size": given.size}
    if given.overload:
        line["overload"] = overload(CONTESTANTS["nonneg"], plan, times=3, seconds=given.overload_seconds)
        print(overload_table(line["overload"]))
    else:
        found = collect(plan, given.only, most_rounds=given.rounds, wait=given.wait)
        line["summary"] = {name: summarised(run) for name, run in found.items()}
        line["slices"] = found
        print(table(line["summary"]), disturbance(found), sep="\n\n")
    print(json.dumps(line))


if __name__ == "__main__":
    main()
