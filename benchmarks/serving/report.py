"""docs/benchmarks-serving.md from what run.py, soak.py and cold_start.py printed.

    python benchmarks/serving/report.py OUTPUT… > docs/benchmarks-serving.md

Each argument is a file with the whole output of one run (tables, then the JSON line).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from contestants import UNRANKED
from run import ENOUGH, is_quiet

HEAD = """# Serving, measured

Made by [benchmarks/serving](../benchmarks/serving/README.md): `run.py` measures, `report.py` writes this page. Every
server runs the same ONNX file with the same decoder, view, session settings and sparse JSON answer; the peers have one
process or replica a core, as they recommend. One server runs after the other; each of its slices is taken right behind
one of the limit, and compared with that one, since the machine is not the same for long. Rounds in which other
processes used it do not count, if there are enough others. The peers answer whole vectors without parameters, limits,
metrics or request ids. Cells: median (least to most) of the rounds that count.

- «Share of limit»: of what the same cores do without a server (`limit.py`): a thread a core that does what every peer
  does for an image, from its bytes to its answer's bytes (`peers/model.py`). The load generator shares the cores with
  the server, and this limit does not pay for it: no server can reach 1. What they do without writing answers is told
  below the table.
- «Share, asking paid» is the share of a second, lower limit: the same threads while, beside them, the load generator
  asks a server that does nothing (`null.py`) as often as they finish an image.
- «bare» (`peers/bare.py`) is the least that a server in Python does: the peers' model, and threads that read a
  socket, embed, answer; no HTTP but a length, no parameters, no queue. It is not ranked.
- «nonneg» is `nonneg serve` as it comes, whose pixels differ from the others' by a grey level here and there ([what
  that costs](operating.md)); «nonneg, exact» is `nonneg serve --decode exact`, with the others' pixels in every bit.
- «Share by CPU» is the limit's CPU time an image over the server's, which a busy machine disturbs far less than rates.
"""

TAIL = """## What is not shown

- The aim with the small model was .97 of the limit. Of the one that does not pay for being asked a server that cost
  nothing would have about that, as the first two shares divided by the next two say; what is left, answers and
  a queue, is taken apart in the [log](log.md).
- Requests of several images need less of it: `client_bulk.py` embeds a folder faster than these one-image requests.
- The floods count from the larger of two short peaks: the goodput is stated low rather than high.
- GPUs: not measured, for want of one.
"""


FLOOD = "three times the peak, for a minute"
OTHERS = {  # by the name in the JSON line
    "soak": "small, large and broken images at a steady rate",
    "cold-start": "from the start of its process to the first answered image",
}


def page(outputs: list[str]) -> str:
    parts = [HEAD]
    for output in outputs:
        *table, line = output.strip().splitlines()
        parts.append(section(table, json.loads(line)))
    return "\n".join([*parts, TAIL])


def section(table: list[str], line: dict[str, Any]) -> str:
    kind = OTHERS.get(line["benchmark"]) or (FLOOD if "overload" in line else f"JPEGs of {line['size']}")
    where = f"Commit {line['commit']}, {line['when']}; {line['machine']}; load average before {line['load_before']}; "
    versions = f"Python {line['python']}, ONNX Runtime {line['onnxruntime']}, Pillow {line['pillow']}."
    body = [f"## {line['model']}: {kind}", "", where + versions, "", *table]
    if "summary" in line:
        body += ["", verdict(line["summary"], disturbed(line["runs"]))]
    elif "overload" in line:
        body += ["", f"Others used {line['overload']['flood']['others']:.0%} of the machine during the flood."]
    return "\n".join([*body, ""])


def disturbed(runs: dict[str, Any]) -> bool:
    """Whether any server has fewer undisturbed rounds than count, so that rates cannot be compared."""
    return any(sum(map(is_quiet, run["rounds"])) < ENOUGH for run in runs.values())


def verdict(summary: dict[str, dict[str, dict[str, float]]], busy: bool) -> str:
    """Where ours leads and where it loses, from the medians; on a busy machine only what that leaves comparable."""
    lines = []
    summary = {name: row for name, row in summary.items() if name not in UNRANKED}
    if busy:
        lines.append("The machine was not quiet: rates, latencies and cold starts of this table **compare nothing**.\n")
    for column, larger_wins in COLUMNS.items():
        if busy and column not in ROBUST:
            continue
        ranked = sorted(summary, key=lambda name: summary[name][column]["median"], reverse=larger_wins)
        place = ranked.index("nonneg") + 1
        first = "first" if place == 1 else f"number {place}, behind {', '.join(ranked[: place - 1])}"
        level = [
            name for name in ranked if name != "nonneg" and overlap(summary[name][column], summary["nonneg"][column])
        ]
        beside = f", level with {', '.join(level)} (the spreads meet)" if level else ""
        lines.append(f"- {column}: nonneg is {first} of {len(ranked)}{beside}.")
    return "\n".join(lines)


def overlap(one: dict[str, float], other: dict[str, float]) -> bool:
    """Whether the spreads meet, so that neither can be called better."""
    return one["least"] <= other["most"] and other["least"] <= one["most"]


ROBUST = {"c8 share by CPU", "c32 share by CPU", "CPU ms/image", "PSS MB"}
COLUMNS = {
    "c8 share of limit": True,
    "c32 share": True,
    "c8 share, asking paid": True,
    "c32 share, asking paid": True,
    "c8 share by CPU": True,
    "c32 share by CPU": True,
    "c1 p50 ms": False,
    "c8 p99 ms": False,
    "CPU ms/image": False,
    "PSS MB": False,
    "cold start s": False,
}

if __name__ == "__main__":
    print(page([Path(name).read_text() for name in sys.argv[1:]]), end="")
