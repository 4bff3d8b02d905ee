"""What the pixel checks cost beside decoding, microseconds of CPU a photo: `python benchmarks/pixel_checks.py PHOTOS`.

Each photo is decoded as for the encoder, then measured; the median over the photos of the least of three.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from nonneg_core.files.image_files import find_images
from nonneg_core.pixels.decode import decode
from nonneg_core.pixels.pixel_checks import check_pixels
from nonneg_core.terminal.tables import table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--most", type=int, default=300, help="photos that are measured")
    options = parser.parse_args()
    paths = find_images(options.photos)[: options.most]
    rows = []
    for data in (path.read_bytes() for path in paths):
        image = decode(data)
        rows.append((least(lambda data=data: decode(data)), least(lambda image=image: check_pixels(image))))
    decoding, checks = np.median(rows, axis=0).tolist()
    slow = float(np.quantile([check for _, check in rows], 0.95))
    print(table(["photos", "decoding, us", "checks, us", "checks, 95 %"], [(len(rows), decoding, checks, slow)]))
    print(json.dumps({"photos": len(rows), "decoding_us": decoding, "checks_us": checks, "checks_95_us": slow}))


def least(work: Callable[[], object]) -> float:
    """Return the microseconds of this thread's CPU time."""
    times = []
    for _ in range(3):
        started = time.thread_time()
        work()
        times.append(time.thread_time() - started)
    return 1e6 * min(times)


if __name__ == "__main__":
    main()
