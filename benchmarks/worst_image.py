"""The worst image that is accepted: hard files of every format, as large as the limits let in, and what each takes.

    python benchmarks/worst_image.py [--only png tiff] [--megapixels 100] [--megabytes 32]

Every file is made as large as `identify` accepts it, then seen (decoded, turned, made opaque, cut to a view) in a
process of its own, as `--decode exact` and as `fast`, whichever takes more. Prints processor time and memory beside the
price that was announced, and what the look at the header took; then one JSON line. Of formats that are decoded apart it
is the time and memory of that process, which may have been ended.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "serving"))

import numpy as np
from hard_images import HARD, largest, saved
from PIL import Image
from provenance import provenance

from nonneg_core.pixels.decoder_process import belongs_apart
from nonneg_core.pixels.identify import MAX_PIXELS, identify
from nonneg_core.pixels.pricing.price import MAX_SECONDS

MEASURE = """
import io, os, resource, sys, time
from pathlib import Path
from nonneg_core.pixels.decoder_process import belongs_apart, of_this_thread
from nonneg_core.pixels.identify import identify
from nonneg_core.pixels.view import View
from nonneg_runtime.seeing.preprocess import Preprocessor
from PIL import Image
view, small = Preprocessor(View(size=224), decode=sys.argv[2]), io.BytesIO()
data = Path(sys.argv[1]).read_bytes()
apart = belongs_apart(identify(data))
Image.new("RGB", (64, 64)).save(small, "BMP" if apart else "JPEG")
view.view_with_size(small.getvalue())
pid = of_this_thread().process.pid if apart else os.getpid()
def status(name):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), 0)
def used():
    if not apart:
        return time.process_time()
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
Path(f"/proc/{pid}/clear_refs").write_text("5")
before, began = status("VmRSS"), used()
try:
    view.view_with_size(data)
    outcome = "seen"
except Exception as error:
    outcome = getattr(error, "type", repr(error))
if Path(f"/proc/{pid}").exists():
    seconds, peak = used() - began, status("VmHWM") - before
else:  # it was killed
    all = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds, peak = all.ru_utime + all.ru_stime - began, all.ru_maxrss * 1024 - before
print(seconds, peak, outcome)
"""


def taken(file: Path) -> tuple[float, int, str]:
    """Processor seconds and peak bytes of seeing it, in a new process; the way that takes more."""
    found = []
    for way in ("exact", "fast"):
        command = [sys.executable, "-c", MEASURE, str(file), way]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
        seconds, peak, outcome = done.stdout.split(maxsplit=2)
        found.append((float(seconds), int(peak), outcome.strip()))
    return max(seconds for seconds, *_ in found), max(peak for _, peak, _ in found), found[0][2]


def measured(name: str, data: bytes, file: Path) -> dict[str, Any]:
    file.write_bytes(data)
    began = time.perf_counter()
    price = identify(data)
    looked = time.perf_counter() - began
    seconds, peak, outcome = taken(file)
    return {
        "image": name,
        "megabytes": round(len(data) / 1e6, 3),
        "apart": belongs_apart(price),
        "pixels": f"{price.width} x {price.height}",
        "look_us": round(looked * 1e6),
        "cpu_s": round(seconds, 2),
        "price_s": round(price.seconds, 2),
        "peak_mb": round(peak / 1e6, 1),
        "price_mb": round(price.bytes / 1e6, 1),
        "bytes_a_pixel": round(max(0.0, peak - len(data)) / price.pixels, 1),
        "outcome": outcome,
    }


def look_at_a_photo() -> float:
    """Return the median microseconds that the look at an ordinary photo takes: a JPEG of 500 x 375 pixels."""
    noise = np.random.default_rng(0).integers(0, 256, (47, 63, 3), np.uint8)
    data = saved(Image.fromarray(noise).resize((500, 375)), "JPEG", quality=90)
    found = []
    for _ in range(2000):
        began = time.perf_counter()
        identify(data)
        found.append(time.perf_counter() - began)
    return round(1e6 * median(found), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="names, or how they begin")
    parser.add_argument("--megapixels", type=float, default=MAX_PIXELS / 1e6)
    parser.add_argument("--megabytes", type=float, default=32)
    asked = parser.parse_args()
    Image.MAX_IMAGE_PIXELS = None
    try:
        __import__("pillow_heif").register_heif_opener()
    except ImportError:
        asked.only = asked.only or [name for name in HARD if not name.startswith("heif")]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, make in HARD.items():
            if asked.only and not name.startswith(tuple(asked.only)):
                continue
            data = largest(make, round(asked.megapixels * 1e6), round(asked.megabytes * 2**20))
            if data is None:
                print(f"{name}: nothing is accepted")
                continue
            rows.append(measured(name, data, Path(folder) / "image"))
            print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    worst = max(rows, key=lambda row: row["cpu_s"])
    print(f"worst: {worst['image']}, {worst['cpu_s']} s of at most {MAX_SECONDS:g}")
    look = look_at_a_photo()
    print(f"the look at an ordinary photo: {look} us")
    print(json.dumps({"look_us": look, "provenance": provenance(), "rows": rows}))


if __name__ == "__main__":
    main()
