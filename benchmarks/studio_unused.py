"""What the studio costs a server that does not use it, and how soon its page shows something.

    python benchmarks/studio_unused.py PHOTO [--rounds 4] [--model photo]

Servers with and without the studio's routes start in turns, as processes of their own on one thread: seconds to the
first answer of /readyz, memory (proportional set size) after twenty photos, and photos a second over one connection.
Then, where Chromium and playwright are there, the first contentful paint of the page, over a warm server.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np

from nonneg_core.terminal.tables import table

SERVE = "from nonneg_cli.table import nonneg; nonneg()"
WITHOUT = f"""
import sys, types
from nonneg_server.api.route import Dialect
stand_in = types.ModuleType("nonneg_server.api.studio_routes")
stand_in.STUDIO = Dialect("studio", ("/studio",), None, None, ())
sys.modules["nonneg_server.api.studio_routes"] = stand_in
{SERVE}
"""
EMBEDS = 20  # photos before memory is read
TIMED = 60
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photo", type=Path)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--model", default="photo")
    options = parser.parse_args()
    data = options.photo.read_bytes()
    found: dict[str, list[tuple[float, ...]]] = {"without": [], "with": []}
    for _ in range(options.rounds):
        for name, code in (("without", WITHOUT), ("with", SERVE)):
            with server(code, options.model) as (address, process, started):
                found[name].append((started, *used(address, process, data)))
    medians = [(name, *np.median(rows, axis=0).tolist()) for name, rows in found.items()]
    print(table(["the studio", "s to ready", "MB", "photos/s"], medians))
    with server(SERVE, options.model) as (address, _, _):
        paints = painted(address)
    print(table(["page", "ms"], list(paints.items())))
    print(json.dumps({"rounds": options.rounds, "medians": medians, "paints": paints}))


@contextmanager
def server(code: str, model: str) -> Iterator[tuple[str, subprocess.Popen[bytes], float]]:
    """Yield a server on a free port, ready; and the seconds that it took."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = [sys.executable, "-c", code, "serve", "--port", str(port), "--model", model, "--threads", "1"]
    began = time.perf_counter()
    env = {**os.environ, "NONNEG_LOG_LEVEL": "warning", "NONNEG_DRAIN": "0"}
    with subprocess.Popen(line, env=env, stdout=subprocess.DEVNULL) as process:
        try:
            yield f"http://127.0.0.1:{port}", process, ready(f"http://127.0.0.1:{port}", began)
        finally:
            process.terminate()


def ready(address: str, began: float) -> float:
    """Return the seconds until it answers that it is ready."""
    while True:
        try:
            if httpx.get(f"{address}/readyz").status_code == 200:
                return time.perf_counter() - began
        except httpx.TransportError:
            time.sleep(0.005)


def used(address: str, process: subprocess.Popen[bytes], data: bytes) -> tuple[float, float]:
    """Return the megabytes, and photos a second."""
    with httpx.Client(base_url=address) as http:

        def embed(count: int) -> float:
            began = time.perf_counter()
            for _ in range(count):
                assert http.post("/embed", content=data).status_code == 200
            return count / (time.perf_counter() - began)

        embed(EMBEDS)
        said = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii")
        megabytes = next(int(line.split()[1]) for line in said.splitlines() if line.startswith("Pss:")) / 1e3
        return megabytes, embed(TIMED)


def painted(address: str) -> dict[str, float]:
    """Return milliseconds to the first contentful paint, and until the page has drawn what it asked for."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return {}
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        found = []
        for _ in range(6):
            page = browser.new_context().new_page()
            page.goto(address)
            page.wait_for_selector("main[aria-busy=false]")
            drawn = page.evaluate("performance.now()")
            found.append((page.evaluate(PAINT), drawn))
        browser.close()
    paint, drawn = np.median(found[1:], axis=0)
    return {"first contentful paint": float(paint), "drawn": float(drawn)}


if __name__ == "__main__":
    main()
