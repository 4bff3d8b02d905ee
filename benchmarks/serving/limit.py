"""The in-process limit: what these cores give without requests and without responses.

One thread for each core, one shared session, and the job that every server does for an image (`peers/model.py`):
decode, view, run, the answer's bytes. `naive` decodes every JPEG whole, as a first version would, and stops before the
answer.
"""

from __future__ import annotations

import io
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "peers"))

from model import Model
from photos import make_photos
from PIL import Image


def main(bundle: str, photos: str, size: str) -> None:
    """Print one JSON line for every line `KIND SECONDS` on stdin."""
    os.environ["BUNDLE"] = bundle
    model, cores = Model(), len(os.sched_getaffinity(0))
    width, height = map(int, size.split("x"))
    bodies = make_photos(Path(photos), width=width, height=height)
    works: dict[str, Callable[[bytes], object]] = {
        "job": model.embed,
        "naive": lambda jpeg: model.run(Image.open(io.BytesIO(jpeg)).convert("RGB")),
    }
    for jpeg in bodies[:4]:
        model.embed(jpeg)
    print("ready", flush=True)
    for line in sys.stdin:
        kind, seconds = line.split()
        print(json.dumps(measured(works[kind], bodies, float(seconds), cores)), flush=True)


def measured(work: Callable[[bytes], object], bodies: list[bytes], seconds: float, threads: int) -> dict[str, Any]:
    counts = [0] * threads
    stop = threading.Event()

    def go_on(lane: int) -> None:
        while not stop.is_set():
            work(bodies[(lane + counts[lane]) % len(bodies)])
            counts[lane] += 1

    workers = [threading.Thread(target=go_on, args=(lane,)) for lane in range(threads)]
    start, cpu = time.perf_counter(), time.process_time()
    for worker in workers:
        worker.start()
    time.sleep(seconds)
    stop.set()
    for worker in workers:
        worker.join()
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {"rate": round(sum(counts) / wall, 2), "cpu_ms_per_image": round(1000 * cpu / max(1, sum(counts)), 3)}


if __name__ == "__main__":
    main(*sys.argv[1:4])
