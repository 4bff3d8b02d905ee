"""The in-process limit: what these cores give when nothing but decode, view and run happens.

One thread for each core on one shared session. `naive` decodes every JPEG whole, as a first version would.
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

from photos import make_photos
from PIL import Image

from nonneg_client.pixels.decode import decode
from nonneg_export.bundle import open_bundle
from nonneg_export.runtime import Session


def main(bundle_path: str, photos: str, size: str, naive: bool) -> None:
    """For every line `SECONDS` on stdin, one JSON line on stdout."""
    bundle = open_bundle(bundle_path or None)
    view = bundle.manifest.view
    cores = len(os.sched_getaffinity(0))
    width, height = map(int, size.split("x"))
    bodies = make_photos(Path(photos), width=width, height=height)
    session = Session(bundle.encoder, threads=1)

    def embed(number: int) -> None:
        data = bodies[number % len(bodies)]
        image = Image.open(io.BytesIO(data)).convert("RGB") if naive else decode(data, at_least=view.ample)
        session.run(view.apply(image)[None])

    for warm in range(4):
        embed(warm)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(measured(embed, float(line), cores)), flush=True)


def measured(embed: Callable[[int], None], seconds: float, threads: int) -> dict[str, Any]:
    counts = [0] * threads
    stop = threading.Event()

    def work(lane: int) -> None:
        while not stop.is_set():
            embed(lane + counts[lane])
            counts[lane] += 1

    workers = [threading.Thread(target=work, args=(lane,)) for lane in range(threads)]
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
    main(*sys.argv[1:4], naive="naive" in sys.argv)
