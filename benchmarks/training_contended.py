"""Training beside other work: images a second of the slim ResNet at 32 px while other processes keep every core busy.

    python benchmarks/training_contended.py [--rounds 3] [--steps 6] [--busy 0,2]

Each way of waiting trains in a process of its own, in turns: as OpenMP waits by default (it spins for milliseconds), as
`nonneg train` has it wait (it sleeps after a thousand turns), and with one thread, which waits for nothing. Prints a
table, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "serving"))

from provenance import provenance

BATCH, WARM = 256, 2
WAYS = {  # threads (0: all), and the environment
    "OpenMP's default": (0, {"GOMP_SPINCOUNT": "300000"}),
    "ours": (0, {}),
    "one thread": (1, {}),
}


def train(threads: int, steps: int) -> float:
    import numpy as np

    from nonneg_training.data import Arrays
    from nonneg_training.loop.training_run import prepare
    from nonneg_training.setup.batch_order import Prefetcher
    from nonneg_training.setup.run_settings import read_settings

    pictures = np.random.default_rng(0).integers(0, 256, (BATCH * 4, 32, 32, 3), dtype=np.uint8)
    images = Arrays("noise", pictures, np.zeros(BATCH * 4, np.int64), ("noise",))
    changes = {"data.source": "noise", "model.backbone": "slim-resnet", "model.hidden": (512,), "loop.batch": BATCH}
    changes |= {"model.dimensions": 256, "loop.epochs": 1000, "loop.threads": threads}
    with tempfile.TemporaryDirectory() as folder:
        loop = prepare(read_settings(None, changes), Path(folder), images)
        with Prefetcher(loop.fetch, loop.finish, 10_000) as ahead:
            for step in range(WARM + steps):
                if step == WARM:
                    begin = time.perf_counter()
                float(loop.step(step, ahead)["loss"])
            return BATCH * steps / (time.perf_counter() - begin)


def measured(way: str, busy: int, steps: int) -> float:
    threads, environment = WAYS[way]
    command = [sys.executable, __file__, "--steps", str(steps), "--threads", str(threads)]
    with ExitStack() as stack:
        for _ in range(busy):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--busy", default="0,2", help="other processes, each busy all the time")
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.threads is not None:
        print(train(asked.threads, asked.steps))
        return
    found: dict[str, list[float]] = {}
    for _ in range(asked.rounds):
        for busy in map(int, asked.busy.split(",")):
            for way in WAYS:
                found.setdefault(f"{way}, beside {busy}", []).append(measured(way, busy, asked.steps))
    for name, rates in found.items():
        print(f"{name:<32}{statistics.median(rates):8.0f} images/s  ({min(rates):.0f} to {max(rates):.0f})")
    print(json.dumps({**provenance(), "images_per_second": found}))


if __name__ == "__main__":
    main()
