"""How long `nonneg serve` takes from the start of its process to the first answered image.

    python benchmarks/serving/cold_start.py --photos FOLDER [--bundle BUNDLE] [--rounds 15]
    python benchmarks/serving/cold_start.py --photos FOLDER --beside ../another-checkout

With `--beside` two checkouts take turns, in the same environment. Prints a table, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from contestants import CONTESTANTS, ROOT
from photos import make_photos
from processes import running
from provenance import provenance

from nonneg_runtime.bundle.bundle_folder import open_bundle

PACKAGES = ("client", "export", "server", "training")


def once(checkout: Path, bundle: Path | None, body: bytes, home: Path) -> dict[str, float]:
    """Wall clock until the first answer, and the CPU time spent until then."""
    nonneg = CONTESTANTS["nonneg"]
    environment = {"PYTHONPATH": os.pathsep.join(str(checkout / package) for package in PACKAGES)}
    if bundle is not None:
        environment["NONNEG_MODEL"] = str(bundle)
    command = [*nonneg.prepared(home), "--drain", "0"]
    with running(command, nonneg.path, body, env=environment, cwd=home, log=home / "nonneg.log") as server:
        return {"seconds": server.cold_start, "cpu_seconds": round(server.cpu_seconds(), 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True, help="any folder of photos; one becomes the JPEG")
    parser.add_argument("--bundle", type=Path, help="without it, the default model")
    parser.add_argument("--beside", type=Path, help="another checkout of nonneg, measured in turns with this one")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    (body,) = make_photos(given.photos, count=1)
    checkouts = {"this": ROOT, **({} if given.beside is None else {"beside": given.beside.resolve()})}
    bundle = None if given.bundle is None else given.bundle.resolve()
    found: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
    with tempfile.TemporaryDirectory() as home:
        for turn in range(given.rounds + 1):
            for name in sorted(checkouts, reverse=bool(turn % 2)):
                measured = once(checkouts[name], bundle, body, Path(home))
                if turn:  # the first one compiles the sources
                    found[name].append(measured)
    print("| checkout | seconds, least | median | most | CPU seconds, least | median |\n|---|---|---|---|---|---|")
    for name, runs in found.items():
        wall, cpu = ([run[key] for run in runs] for key in ("seconds", "cpu_seconds"))
        print(f"| {name} | {min(wall)} | {median(wall):.2f} | {max(wall)} | {min(cpu)} | {median(cpu):.2f} |")
    model = open_bundle(bundle).manifest.name
    line: dict[str, Any] = {"benchmark": "cold-start", **provenance(), "model": model, "runs": found}
    print(json.dumps(line))


if __name__ == "__main__":
    main()
