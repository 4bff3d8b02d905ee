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

from contestants import BARE, EXACT, SAME
from quiet import ENOUGH, is_quiet

HEAD = """# Serving, measured

Which server embeds the same photos faster, on the same cores? Every server runs the same ONNX file; the peers decode
exactly as `--decode exact` does, run one process or replica a core as they recommend, and answer whole vectors without
parameters, limits or metrics. A rate is the median over pairs of slices of a second or two, ours and the peer's each
against what the same two cores reach without a server in the same minute.
"""

WORDS = """## How to read the tables

- *nonneg* is `nonneg serve` as it comes; *nonneg, fp32* runs the file that the peers run, where the model has a faster
  form (int8) that the first one takes; *nonneg, exact* runs that file on pixels that are the peers' in every bit.
- *Share*: of the rate that the same cores reach without a server (a thread a core, the same work for an image). The
  load generator uses the same cores and the limit does not pay for it, so that no server reaches 1 with the same work.
  *By CPU* is the same of CPU time an image, which a busy machine disturbs less.
- *c8*: eight clients, each with one request at a time; *max*: the slowest answer of a slice, median over the slices.
- *bare* is a loop on sockets around the peers' model: no HTTP, no parameters, no queue. It is not a usable server.
- *ray, throughput* is Ray Serve with its HAProxy, gRPC and single-thread switches on.
- Cells: median (least to most) of the rounds in which other processes used at most 6 % of the machine, or of the
  quietest seven. Requests of several images need less: `benchmarks/client_bulk.py`. GPUs are not measured.

Made by [benchmarks/serving](../benchmarks/serving/README.md): `run.py` measures, `report.py` writes this page.
"""

OURS = {"nonneg": "as it comes", SAME: "the same file", EXACT: "the same file and pixels"}
FLOOD = "three times the peak"
BUSY = "The machine was not quiet while {} ran: there only shares by CPU, CPU time and memory can be compared."
OTHERS = {  # by the name in the JSON line
    "soak": "small, large and broken images at a steady rate",
    "cold-start": "from the start of its process to the first answered image",
}


def page(outputs: list[str]) -> str:
    """Return the page: who is faster, how to read, then every table."""
    parts = []
    for output in outputs:
        *table, line = output.strip().splitlines()
        parts.append((table, json.loads(line)))
    return "\n".join([HEAD, in_short(parts), WORDS, *(section(table, line) for table, line in parts)])


def in_short(parts: list[tuple[list[str], dict[str, Any]]]) -> str:
    """Write, for each way of ours and each model, how many times as fast as the fastest peer, and at what latency."""
    rows = [
        "| model, JPEGs | nonneg | fastest peer | 8 clients | 32 clients | p50, max at 8 | its p50, max | memory MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for _, line in parts:
        peers = {n: row for n, row in line.get("summary", {}).items() if n not in OURS and n != BARE}
        if peers:
            rows += [compared(line, name, peers) for name in OURS if name in line["summary"]]
    busy = sorted({name for _, line in parts if "summary" in line for name in disturbed(line["runs"])})
    return "\n".join([*rows, "", *([BUSY.format(" and ".join(busy)), ""] if busy else [])])


def compared(line: dict[str, Any], name: str, peers: dict[str, Any]) -> str:
    """Return one way of ours beside the peer that is fastest with eight clients."""
    ours = line["summary"][name]
    best = max(peers, key=lambda peer: peers[peer]["c8 share"]["median"])
    peer = peers[best]
    rates = " | ".join(f"{_median(ours, column) / _median(peer, column):.2f} x" for column in ("c8 share", "c32 share"))
    times = " | ".join(f"{_median(row, 'c8 p50 ms'):.0f}, {_median(row, 'c8 max ms'):.0f} ms" for row in (ours, peer))
    memory = f"{_median(ours, 'PSS MB'):.0f} ({best}: {_median(peer, 'PSS MB'):.0f})"
    return f"| {line['model']}, {line['size']} | {OURS[name]} | {best} | {rates} | {times} | {memory} |"


def _median(row: dict[str, Any], column: str) -> float:
    return float(row[column]["median"])


def section(table: list[str], line: dict[str, Any]) -> str:
    """Write one run: what was measured, where, and its table."""
    kind = OTHERS.get(line["benchmark"]) or (FLOOD if "overload" in line else f"JPEGs of {line['size']}")
    where = f"Commit {line['commit']}, {line['when']}; {line['machine']}; load average before {line['load_before']}; "
    versions = f"Python {line['python']}, ONNX Runtime {line['onnxruntime']}, Pillow {line['pillow']}."
    body = [f"## {line['model']}: {kind}", "", where + versions, "", *table]
    if "summary" in line and (names := disturbed(line["runs"])):
        body += ["", BUSY.format(" and ".join(names))]
    elif "overload" in line:
        body += ["", f"Other processes used {line['overload']['flood']['others']:.0%} of the machine during the flood."]
    return "\n".join([*body, ""])


def disturbed(runs: dict[str, Any]) -> list[str]:
    """Return the servers with fewer undisturbed rounds than count, whose rates cannot be compared."""
    return [name for name, run in runs.items() if sum(map(is_quiet, run["rounds"])) < ENOUGH]


if __name__ == "__main__":
    print(page([Path(name).read_text() for name in sys.argv[1:]]), end="")
