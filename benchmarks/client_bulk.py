"""Bulk embedding through the SDK, against a load generator that costs nearly nothing, on the same server.

    python benchmarks/client_bulk.py --photos FOLDER
    python benchmarks/client_bulk.py --photos FOLDER --url http://127.0.0.1:8000    a server that runs already

Each round measures the generator, the client, and the generator again; the share is the client's rate over the mean
of its neighbours. All of them share the machine's cores, so the processor time that each costs an image is shown too:
it is what a share below one is made of, and unlike the share it hardly depends on who else is at work.
Prints a table, then one JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent / "serving"))

import load
from photos import make_photos
from provenance import provenance

from nonneg_client import AsyncClient, Client

CLIENTS = 16  # of the load generator


@contextmanager
def server(url: str | None) -> Iterator[str]:
    if url is not None:
        yield url
        return
    command = [sys.executable, "-m", "nonneg_cli", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield re.findall(r"http://\S+", process.stdout.readline())[0]
        process.terminate()


def blocking(url: str, images: list[bytes]) -> float:
    with Client(url) as client:
        start = time.perf_counter()
        client.embed(images, progress=False)
        return len(images) / (time.perf_counter() - start)


def asynchronous(url: str, images: list[bytes]) -> float:
    async def embed() -> float:
        async with AsyncClient(url) as client:
            start = time.perf_counter()
            await client.embed(images, progress=False)
            return len(images) / (time.perf_counter() - start)

    return asyncio.run(embed())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--url")
    parser.add_argument("--images", type=int, default=1500, help="of each run of the client")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each run of the generator")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    photos = make_photos(options.photos)
    images = list(islice(cycle(photos), options.images))
    ways = {"Client": blocking, "AsyncClient": asynchronous}
    shares: dict[str, list[float]] = {name: [] for name in ways}
    rates: dict[str, list[float]] = {"generator": [], **{name: [] for name in ways}}
    costs: dict[str, list[float]] = {name: [] for name in rates}  # ms of this process's time an image

    def generator(url: str) -> float:
        cpu = time.process_time()
        found = load.run(f"{url}/embed", photos, clients=CLIENTS, seconds=options.seconds)
        costs["generator"].append(1e3 * (time.process_time() - cpu) / found["ok"])
        rates["generator"].append(found["rate"])
        return float(found["rate"])

    with server(options.url) as url:
        blocking(url, images[:200])  # warm
        before = generator(url)
        for _ in range(options.rounds):
            for name, run in ways.items():
                cpu = time.process_time()
                rate = run(url, images)
                costs[name].append(1e3 * (time.process_time() - cpu) / len(images))
                after = generator(url)
                rates[name].append(rate)
                shares[name].append(rate / ((before + after) / 2))
                before = after
    print(f"{'':12} {'images/s':>9} {'CPU ms/image':>13}   share of the generator: median [lowest, highest]")
    for name, found in rates.items():
        share = shares.get(name)
        told = f"{median(share):.3f} [{min(share):.3f}, {max(share):.3f}]" if share else ""
        print(f"{name:12} {median(found):9.1f} {median(costs[name]):13.3f}   {told}".rstrip())
    numbers = {"shares": shares, "rates": rates, "cpu_ms": costs}
    rounded = {what: {n: [round(v, 4) for v in found] for n, found in by.items()} for what, by in numbers.items()}
    print(json.dumps({**rounded, **provenance()}))


if __name__ == "__main__":
    main()
