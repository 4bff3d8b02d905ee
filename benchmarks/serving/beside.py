"""Versions of nonneg side by side, each slice after one of the in-process limit: where does a request's CPU time go?

    python benchmarks/serving/beside.py --photos FOLDER new=.venv/bin/nonneg old=/other/checkout/.venv/bin/nonneg
    python benchmarks/serving/beside.py --photos FOLDER new=.venv/bin/nonneg "exact=.venv/bin/nonneg --decode exact"
    python benchmarks/serving/beside.py --photos FOLDER --bundle A a=.venv/bin/nonneg "b=.venv/bin/nonneg --model B"

All servers run all the time and are asked in turns. Printed: the medians of the shares of the limit by rate and by CPU
time, and by thread (the event loop's; all others) the microseconds an image and how often it was scheduled; the pages
an image that the kernel had to find or clear, and the memory at the end that is the server's own. Then the first
version over each other one, pair by pair, with a 95 % interval.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import load
from measure import Limit, Plan
from photos import make_photos
from processes import Server, running
from provenance import provenance

from nonneg_runtime.bundle.bundle_folder import open_bundle


def threads(pid: int) -> dict[str, tuple[float, int]]:
    """Return the microseconds of CPU of the loop's thread and of all others, and how often each was scheduled."""
    found = {"loop": (0.0, 0), "others": (0.0, 0)}
    for task in Path(f"/proc/{pid}/task").iterdir():
        name = "loop" if task.name == str(pid) else "others"
        ran, _, slices = (int(word) for word in (task / "schedstat").read_text().split())
        found[name] = found[name][0] + ran / 1e3, found[name][1] + slices
    return found


def faults(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


def slice_of(
    server: Server, plan: Plan, clients: int, limit: dict[str, Any], *, proxied: bool = False
) -> dict[str, float]:
    load.run(server.url, plan.bodies, clients=clients, seconds=0.2, proxied=proxied)
    before, pages = threads(server.process.pid), faults(server.process.pid)
    asked = load.run(server.url, plan.bodies, clients=clients, seconds=plan.seconds, proxied=proxied)
    after, images = threads(server.process.pid), max(1, asked["ok"])
    row = {"share": asked["rate"] / limit["rate"], "own MB": server.own_mb()}
    row["faults"] = (faults(server.process.pid) - pages) / images
    for name in after:
        row[f"{name} us"] = (after[name][0] - before[name][0]) / images
        row[f"{name} slices"] = (after[name][1] - before[name][1]) / images
    row["share by CPU"] = 1e3 * limit["cpu_ms_per_image"] / (row["loop us"] + row["others us"])
    return row


def paired(first: str, other: str, clients: int, ours: list[dict[str, float]], theirs: list[dict[str, float]]) -> str:
    """Return the first version's rate and CPU time over another's, pair by pair: geometric mean, 95 % interval."""
    said = []
    for what, key in (("rate", "share"), ("1 / CPU time", "share by CPU")):
        logs = [math.log(a[key] / b[key]) for a, b in zip(ours, theirs, strict=True)]
        wide = 1.96 * stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf
        low, mid, high = (math.exp(mean(logs) + step) for step in (-wide, 0.0, wide))
        said.append(f"{what} {mid:.3f} ({low:.3f} to {high:.3f})")
    return f"{first} / {other}, {clients} clients, {len(ours)} pairs: {', '.join(said)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "versions", nargs="+", metavar="NAME=NONNEG", help="a name and a version's nonneg; flags of `serve` may follow"
    )
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--bundle", type=Path)
    parser.add_argument("--size", default="500x375", help="of the JPEGs")
    parser.add_argument("--clients", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--proxied", action="store_true", help="headers of each request's own, as proxies write them")
    parser.add_argument("--seconds", type=float, default=1.5)
    given = parser.parse_args()
    bundle, photos = open_bundle(given.bundle), given.photos.resolve()
    width, height = map(int, given.size.split("x"))
    bodies = make_photos(photos, width=width, height=height)
    plan = Plan(bundle.path.resolve(), photos, bodies, given.size, given.seconds, Path.cwd())
    rows: dict[tuple[str, int], list[dict[str, float]]] = {}
    with ExitStack() as stack:
        limit = Limit(plan)
        stack.callback(limit.close)
        servers = {}
        for version in given.versions:
            name, _, nonneg = version.partition("=")
            program, *flags = shlex.split(nonneg)
            model = [] if "--model" in flags else ["--model", str(plan.bundle)]
            command = [program, "serve", *model, "--port", "{port}", *flags]
            log = Path("/dev/null")
            server = running(command, "/embed", plan.bodies[0], env={}, cwd=plan.home, log=log)
            servers[name] = stack.enter_context(server)
        for _ in range(given.rounds):
            for clients in given.clients:
                beside = limit.slice(given.seconds)
                for name, server in servers.items():
                    rows.setdefault((name, clients), []).append(
                        slice_of(server, plan, clients, beside, proxied=given.proxied)
                    )
    keys = ["share", "share by CPU", "loop us", "loop slices", "others us", "others slices", "faults", "own MB"]
    print(f"| version | clients | {' | '.join(keys)} |\n|{'---|' * (len(keys) + 2)}")
    medians = {at: {key: round(median(row[key] for row in found), 3) for key in keys} for at, found in rows.items()}
    for (name, clients), found in medians.items():
        print(f"| {name} | {clients} | {' | '.join(f'{found[key]:g}' for key in keys)} |")
    first, *others = servers
    for name in others:
        for clients in given.clients:
            print(paired(first, name, clients, rows[first, clients], rows[name, clients]))
    flat = [{"version": name, "clients": clients, **found} for (name, clients), found in medians.items()]
    print(json.dumps({"benchmark": "beside", **provenance(), "rows": flat}))


if __name__ == "__main__":
    main()
