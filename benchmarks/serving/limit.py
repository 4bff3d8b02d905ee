"""The in-process limit: what these cores give when nothing but decode, view and run happens.

Two numbers: images a second with one thread for each core on one shared session, and the latency of one image at a
time with a session that uses every core. Printed as one JSON line. `naive` decodes
every JPEG whole, as a first version would.
"""

from __future__ import annotations

import io
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from photos import make_photos
from PIL import Image

from nonneg_client.decode import decode
from nonneg_export.bundle import open_bundle
from nonneg_export.runtime import Session


def limit(
    bundle_path: Path | None, bodies: list[bytes], *, seconds: float, threads: int, naive: bool = False
) -> dict[str, Any]:
    bundle = open_bundle(bundle_path)
    view = bundle.manifest.view
    session = Session(bundle.encoder, threads=1)

    def embed(number: int, session: Session = session) -> None:
        data = bodies[number % len(bodies)]
        image = Image.open(io.BytesIO(data)).convert("RGB") if naive else decode(data)
        session.run(view.apply(image)[None])

    counts = [0] * threads
    stop = threading.Event()

    def work(lane: int) -> None:
        while not stop.is_set():
            embed(lane + counts[lane])
            counts[lane] += 1

    for warm in range(4):
        embed(warm)
    workers = [threading.Thread(target=work, args=(lane,)) for lane in range(threads)]
    start, cpu = time.perf_counter(), time.process_time()
    for worker in workers:
        worker.start()
    time.sleep(seconds)
    stop.set()
    for worker in workers:
        worker.join()
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    wide = Session(bundle.encoder, threads=threads)
    return {
        "rate": round(sum(counts) / wall, 2),
        "cpu_ms_per_image": round(1000 * cpu / max(1, sum(counts)), 3),
        "p50_ms_one_at_a_time": _median_ms(lambda number: embed(number, wide), min(seconds, 3)),
    }


def _median_ms(call: Any, seconds: float) -> float:
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        call(len(times))
        times.append(time.perf_counter() - start)
    return round(1000 * sorted(times)[len(times) // 2], 2)


if __name__ == "__main__":
    path, photos, span = sys.argv[1:4]
    wide, high = map(int, (sys.argv[4] if len(sys.argv) > 4 else "500x375").split("x"))
    made = make_photos(Path(photos), width=wide, height=high)
    cores = len(os.sched_getaffinity(0))
    found = limit(Path(path) if path else None, made, seconds=float(span), threads=cores, naive="naive" in sys.argv)
    print(json.dumps(found))
