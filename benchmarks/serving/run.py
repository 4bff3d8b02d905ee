"""Servers side by side: the same ONNX file, the same preprocessing, the same JPEGs, in one run.

    python benchmarks/serving/run.py --photos FOLDER                     every contestant, in turn
    python benchmarks/serving/run.py --photos FOLDER --only nonneg mosec
    python benchmarks/serving/run.py --photos FOLDER --overload          3x the peak for a minute, ours only
    python benchmarks/serving/run.py --photos FOLDER --bundle DIR        another model than the default one
    python benchmarks/serving/run.py --photos FOLDER --size 4000x3000 --seconds 4 --naive --only nonneg

One server after the other, each width right behind a slice of the in-process limit; rounds during which others used the
machine do not count, if there are enough others. Prints a table, then one JSON line. The peers are installed in
environments of their own under --home.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import load
from contestants import CONTESTANTS
from measure import Limit, Plan, overload, slice_of, started
from photos import make_photos
from processes import Server
from provenance import provenance
from quiet import ENOUGH, Round, await_quiet, counting, disturbance, is_quiet

from nonneg_runtime.bundle.bundle_folder import open_bundle

COLUMNS = (
    "c8 share",
    "c32 share",
    "c8 share by CPU",
    "c32 share by CPU",
    "c1 p50 ms",
    "c8 p50 ms",
    "c8 p99 ms",
    "c8 max ms",
    "CPU ms/image",
    "PSS MB",
    "cold start s",
)


def collect(plan: Plan, names: list[str], *, most_rounds: int, wait: float) -> dict[str, Any]:
    """Measure one server after the other, slices of the limits in between: the machine is not the same for long."""
    found: dict[str, Any] = {}
    limit = Limit(plan)
    for name in names:
        print(f"starting {name}", file=sys.stderr)
        with started(CONTESTANTS[name], plan) as server:
            load.run(server.url, plan.bodies, clients=8, seconds=1.0)  # warm every worker
            rounds: list[Round] = []
            while len(rounds) < most_rounds and sum(map(is_quiet, rounds)) < ENOUGH:
                rounds.append(taken(limit, server, plan, wait=wait))
            found[name] = {"rounds": rounds, "cold_start_s": server.cold_start, "pss_mb": server.pss_mb()}
    limit.close()
    return found


def taken(limit: Limit, server: Server, plan: Plan, *, wait: float) -> Round:
    """Return each number of clients right behind its own slice of the limit."""
    found: Round = {}

    def take(kind: str, measure: Callable[[], dict[str, Any]]) -> None:
        await_quiet(wait)
        found[kind] = measure()

    take("c8 limit", lambda: limit.slice(plan.seconds))
    take("c8", lambda: slice_of(server, plan, 8))
    take("c32 limit", lambda: limit.slice(plan.seconds))
    take("c32", lambda: slice_of(server, plan, 32))
    if plan.naive:
        take("naive", lambda: limit.slice(plan.seconds, "naive"))
    take("c1", lambda: slice_of(server, plan, 1))
    return found


def column(rounds: list[Round], kind: str, key: str = "rate") -> list[float]:
    return [float(one[kind][key]) for one in rounds]


def ratios(rounds: list[Round], kind: str, other: str, key: str = "rate") -> list[float]:
    """Return the ratio of slices of the same round."""
    return [a / b for a, b in zip(column(rounds, kind, key), column(rounds, other, key), strict=True)]


def summarised(run: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Median, least and most over the rounds that count, a column each."""
    rounds = counting(run["rounds"])
    values = {
        "c8 share": ratios(rounds, "c8", "c8 limit"),
        "c32 share": ratios(rounds, "c32", "c32 limit"),
        "c8 share by CPU": ratios(rounds, "c8 limit", "c8", "cpu_ms_per_image"),
        "c32 share by CPU": ratios(rounds, "c32 limit", "c32", "cpu_ms_per_image"),
        "c1 p50 ms": column(rounds, "c1", "p50_ms"),
        "c8 p50 ms": column(rounds, "c8", "p50_ms"),
        "c8 p99 ms": column(rounds, "c8", "p99_ms"),
        "c8 max ms": column(rounds, "c8", "max_ms"),
        "CPU ms/image": column(rounds, "c8", "cpu_ms_per_image"),
        "PSS MB": [run["pss_mb"]],
        "cold start s": [run["cold_start_s"]],
    }
    return {key: {"median": median(v), "least": min(v), "most": max(v)} for key, v in values.items()}


def limits(found: dict[str, Any]) -> str:
    """Return the limits, and how quiet the machine was, in sentences."""
    rounds = [one for run in found.values() for one in counting(run["rounds"])]
    others = [disturbance(one) for one in rounds]

    def median_of(kind: str, key: str = "rate") -> float:
        return median(column(rounds, kind, key))

    return (
        f"In-process limit: {median_of('c8 limit'):.0f} images/s at "
        f"{median_of('c8 limit', 'cpu_ms_per_image'):.2f} ms of CPU an "
        f"image. Other processes used {median(others):.0%} of the machine (at most {max(others):.0%}) during the "
        f"rounds that count; "
        f"{sum(len(run['rounds']) for run in found.values())} were taken." + beside_naive(found)
    )


def beside_naive(found: dict[str, Any]) -> str:
    """Return how many times as fast as decoding every JPEG whole, where that was measured."""
    runs = {name: counting(run["rounds"]) for name, run in found.items() if "naive" in run["rounds"][0]}
    if not runs:
        return ""
    naive = median([rate for rounds in runs.values() for rate in column(rounds, "naive")])
    times = [f"{name} {median(ratios(rounds, 'c8', 'naive')):.2f}" for name, rounds in runs.items()]
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
    parser.add_argument("--wait", type=float, default=2, help="seconds a slice waits for quiet at most")
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
        line["runs"] = found
        print(table(line["summary"]), limits(found), sep="\n\n")
    print(json.dumps(line))


if __name__ == "__main__":
    main()
