"""What two bad clients do to a normal one: its latency while two others send the worst images in a loop, kind by kind.

    python benchmarks/bad_clients.py [--seconds 8] [--only "webp, flat"] [--threads 2]

A normal client sends one photo every 0.1 s, and `/livez` is asked as often: first alone, then beside two
clients who send photos of 12 megapixels, then beside two of each bad kind, refused at once or the largest that are
accepted. The ratio is that of the normal client's 95th percentile to the one beside the photos. `livez_own` is the
longest answer to `/livez` less the time in which the loop's thread and the client's were ready and had no core:
on a machine that does other things, too, that says what the bad clients did. Prints a table, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "serving"))

import httpx
import numpy as np
from hard_images import HARD, jpeg_with, largest, png, profile_chunk, refined, saved
from hard_profiles import icc, steps
from PIL import Image
from provenance import provenance

from nonneg_core.pixels.identify import identify
from nonneg_server.engine.admission import Turns

EVERY = 0.1  # seconds between two requests of the normal client
MOST = 32 * 2**20  # bytes


def photo(width: int, height: int, *, progressive: bool = False) -> bytes:
    """Smooth noise, as large a JPEG as a camera makes."""
    noise = np.random.default_rng(0).integers(0, 256, (height // 8, width // 8, 3), np.uint8)
    return saved(Image.fromarray(noise).resize((width, height)), "JPEG", quality=90, progressive=progressive)


def accepted(name: str) -> bytes:
    """Return the largest of a kind that the server's budget of memory lets in."""
    pixels = 100_000_000
    while True:
        data = largest(HARD[name], pixels, MOST)
        assert data is not None
        if identify(data).bytes <= Turns().most:
            return data
        pixels = round(pixels * 0.8)


def strips() -> bytes:
    import struct

    tags = [(256, 4, 1, 1), (257, 4, 1, 15_000_000), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1)]
    tags += [(273, 3, 15_000_000, 110), (277, 3, 1, 1), (278, 4, 1, 1)]
    head = b"II*\0\x08\0\0\0\x08\0" + b"".join(struct.pack("<HHII", *tag) for tag in tags)
    return head + bytes(4) + b"\x08\0" * 15_000_000


BAD: dict[str, Callable[[], bytes]] = {
    "webp, flat": lambda: accepted("webp, flat"),
    "png, flat, see-through, turned": lambda: accepted("png, flat, see-through, turned"),
    "png, one column": lambda: accepted("png, one column"),
    "png, noise, Paeth": lambda: accepted("png, noise, Paeth"),
    "jpeg, scans": lambda: refined(27_000_000),
    "jpeg, 8 M segments": lambda: jpeg_with(lambda: b"\xff\xe5\0\2" * 8_000_000)(0),
    "jpeg, 32 MB of fill bytes": lambda: jpeg_with(lambda: b"\xff" * 32_000_000)(0),
    "jpeg, 16 MB of marks of scans": lambda: photo(64, 64, progressive=True)[:-2] + b"\xff\xda" * 8_000_000,
    "png, 2.6 M chunks": lambda: png((8, 8), 8, 0, bytes(72), before=b"\0\0\0\0abCd\0\0\0\0" * 2_600_000),
    "png, profile of 130,000 steps": lambda: png(
        (8, 8), 8, 2, bytes(200), before=profile_chunk(icc([(b"D2B0", steps(130_000))], pcs=b"XYZ "))
    ),
    "png, 9,990 profiles": lambda: png((8, 8), 8, 2, bytes(200), before=profile_chunk(bytes(2**20 - 1)) * 9_990),
    "png, 16 profiles": lambda: accepted("png, profiles"),
    "tiff, 15 M strips": strips,
    "tiff, LZW": lambda: accepted("tiff, LZW"),
    "bmp, runs": lambda: accepted("bmp, runs"),
    "gif, noise": lambda: accepted("gif, noise"),
    "heif, flat": lambda: accepted("heif, flat"),
    "avif, noise": lambda: accepted("avif, noise"),
}
FORMS: dict[str, tuple[int, Callable[[], bytes]]] = {  # so many files in one request
    "forms of 200 x webp, flat": (200, BAD["webp, flat"]),
    "forms of 100 x jpeg, 9,900 segments": (100, lambda: jpeg_with(lambda: b"\xff\xe5\0\2" * 9_900)(0)),
}


def measured(address: str, loop: int, bad: list[Any] | None, seconds: float, normal: bytes) -> dict[str, Any]:
    """Return latencies of the normal client and of `/livez` in milliseconds, and what became of the bad requests."""
    until, answers = time.monotonic() + seconds, Counter[str]()
    threads = [threading.Thread(target=_loop, args=(address, bad, until, answers)) for _ in range(2 if bad else 0)]
    alive: list[float] = []
    own: list[float] = []
    threads.append(threading.Thread(target=_probe, args=(address, loop, until, alive, own)))
    for thread in threads:
        thread.start()
    times: list[float] = []
    statuses: Counter[str] = Counter()
    _ask(address, "POST", "/embed", normal, until, times, statuses)
    for thread in threads:
        thread.join()
    p95 = quantiles(times, n=20)[-1] if len(times) > 1 else float("nan")
    return {
        "p50": round(median(times)), "p95": round(p95), "max": round(max(times)), "livez_max": round(max(alive)),
        "livez_own": round(max(own)),
        "normal": dict(statuses), "bad": dict(answers),
    }  # fmt: skip


def _ask(
    address: str, method: str, path: str, body: bytes | None, until: float, times: list[float], statuses: Counter[str]
) -> None:
    with httpx.Client(base_url=address, timeout=90) as client:
        while (began := time.monotonic()) < until:
            statuses[str(client.request(method, path, content=body).status_code)] += 1
            times.append(1000 * (time.monotonic() - began))
            time.sleep(max(0.0, EVERY - (time.monotonic() - began)))


def _probe(address: str, loop: int, until: float, times: list[float], own: list[float]) -> None:
    """Ask `/livez`, and take off what the loop's thread and this one waited for a core."""
    mine = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
    files = (Path(f"/proc/{loop}/task/{loop}/schedstat"), mine)
    with httpx.Client(base_url=address, timeout=90) as client:
        while (began := time.monotonic()) < until:
            before = sum(_waited(file) for file in files)
            client.get("/livez")
            times.append(1000 * (time.monotonic() - began))
            own.append(max(0.0, times[-1] - 1000 * (sum(_waited(file) for file in files) - before)))
            time.sleep(max(0.0, EVERY - (time.monotonic() - began)))


def _waited(schedstat: Path) -> float:
    """Return the seconds that a thread was ready and had no core."""
    return int(schedstat.read_text().split()[1]) / 1e9


def _loop(address: str, files: list[Any], until: float, answers: Counter[str]) -> None:
    with httpx.Client(base_url=address, timeout=120) as client:
        while time.monotonic() < until:
            try:
                answer = (
                    client.post("/embed", files=files) if len(files) > 1 else client.post("/embed", content=files[0])
                )
                answers[str(answer.status_code)] += 1
            except httpx.TransportError:
                answers["closed"] += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[])
    asked = parser.parse_args()
    __import__("pillow_heif").register_heif_opener()
    Image.MAX_IMAGE_PIXELS = None
    kinds: dict[str, list[Any] | None] = {"alone": None, "photos of 12 MP": [photo(4000, 3000)]}
    kinds |= {name: [make()] for name, make in BAD.items() if not asked.only or name in asked.only}
    for name, (count, make) in FORMS.items():
        if not asked.only or name in asked.only:
            kinds[name] = [("images", make())] * count
    normal, rows = photo(496, 376), []
    with subprocess.Popen(
        [sys.executable, "-m", "nonneg_cli", "serve", "--port", "0", "--threads", str(asked.threads)],
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        found = re.search(r"http://[\d.]+:\d+", server.stdout.readline())
        assert found is not None
        for name, bad in kinds.items():
            rows.append({"beside": name, **measured(found[0], server.pid, bad, asked.seconds, normal)})
            beside_photos = rows[min(1, len(rows) - 1)]["p95"]
            rows[-1]["ratio"] = round(rows[-1]["p95"] / beside_photos, 2)
            print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
        server.terminate()
    print(json.dumps({"provenance": provenance(), "rows": rows}))


if __name__ == "__main__":
    main()
