"""Data parallel on one machine: two processes of one thread each beside one of two threads, the same joint batch.

    python benchmarks/training_parallel.py [--rounds 3]

Each is `nonneg train` as a user starts it (torchrun's environment for two). Images a second are taken from metrics.csv,
the median over the steps after the first ten. Prints a table, then one JSON line.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "serving"))

import numpy as np
from PIL import Image
from provenance import provenance

START = "from nonneg_cli.table import main; main()"
WARM = 10


def photos(folder: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    for i in range(count):
        place = folder / str(i % 4)
        place.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(place / f"{i}.png")


def speed(processes: int, data: Path, out: Path, steps: int) -> float:
    """Return images a second of all processes together."""
    threads = str(2 // processes)
    settings = ["model.backbone=slim-resnet", "views.size=32", f"loop.threads={threads}", "loop.monitor_images=4"]
    settings += ["loop.batch=128", f"loop.epochs={steps // 4}", "loop.save_every=100000", "loop.monitor_every=100000"]
    settings += ["health.dead_share=1", "health.zero_share=1", "health.collapse_steps=0", "optimiser.lr=0.0001"]
    command = [sys.executable, "-c", START, "train", "--data", str(data), "--out", str(out)]
    for setting in settings:
        command += ["--set", setting]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    group = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    running = []
    for rank in range(processes):
        place = {"RANK": str(rank), "LOCAL_RANK": str(rank), **group} if processes > 1 else {}
        running.append(subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": threads, **place}))
    if any(process.wait(600) for process in running):
        raise SystemExit("a run failed")
    with (out / "metrics.csv").open() as file:
        return statistics.median(float(row["images_per_second"]) for row in list(csv.DictReader(file))[WARM:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    found: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "photos"
        data.mkdir()
        photos(data, 512)
        for turn in range(options.rounds):
            for processes in found:
                found[processes].append(speed(processes, data, Path(folder) / f"{turn}-{processes}", options.steps))
    print(f"{'':32} {'images/s':>9} {'spread':>15}")
    for processes, name in ((1, "one process, two threads"), (2, "two processes, one thread each")):
        speeds = found[processes]
        print(f"{name:32} {statistics.median(speeds):9.0f} {min(speeds):7.0f} - {max(speeds):.0f}")
    ratio = statistics.median(found[2]) / statistics.median(found[1])
    print(f"two processes reach {ratio:.2f} of one")
    rows = {str(processes): [round(v, 1) for v in speeds] for processes, speeds in found.items()}
    print(
        json.dumps(
            {"benchmark": "training_parallel", "ratio": round(ratio, 3), "images_per_second": rows, **provenance()}
        )
    )


if __name__ == "__main__":
    main()
