"""What saying where costs in memory: `python benchmarks/where_memory.py [MODEL...]`.

Private memory of a process that embeds, before the session for the map of cells is opened, right after, and after
malloc has given back what opening it took for a while; one process for each model.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
from pathlib import Path

from nonneg_core.terminal.tables import table
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_runtime.inference.cell_map import CellMap
from nonneg_runtime.inference.encoder import open_session
from nonneg_runtime.inference.runner import test_pattern


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["photo", "photo-fast"])
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(options.models[0])))
        return
    found = {}
    for model in options.models:
        said = subprocess.run([sys.executable, __file__, model, "--one"], check=True, capture_output=True, text=True)
        found[model] = json.loads(said.stdout)
    print(table(["model", "MB before", "opened", "settled"], [(model, *mb) for model, mb in found.items()]))
    print(json.dumps(found))


def measured(model: str) -> list[float]:
    """Return the private megabytes before, right after, and when malloc has given back what it can."""
    bundle = open_bundle(model)
    pixels = test_pattern(bundle.manifest.view.size)
    session = open_session(bundle.encoder)
    session.run(pixels)
    before = private()
    cells = CellMap(bundle)
    cells.split(pixels[0], [0])
    opened = private()
    ctypes.CDLL(None).malloc_trim(0)
    return [before, opened, private()]


def private() -> float:
    """Return the megabytes that belong to this process alone."""
    said = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in said if line.startswith("Private_")) / 1e3


if __name__ == "__main__":
    main()
