"""What the studio's answers take: `python benchmarks/studio.py VECTORS [--photos 10000,100000] [--embedding PHOTO]`.

Collections are mixtures of real vectors, as in curation_scale.py. For each size: the search at several lengths (the
first time, when the columns of that length are made, and the median and 95th percentile of the later ones), the facets,
and a dimension's page. With --busy a thread of this process runs the encoder all the time, as the server does while it
embeds. Milliseconds are of this thread's work on a core; memory is of the collection alone.

With --embedding a server of its own has the first of these collections, and embeds this photo over and over for as many
clients as it has threads; milliseconds are then from a search's request to its answer, each like another photo or at
another length, with the hits and everything else that the page shows.

With --groups a server of its own has the first of these collections, with thumbnails drawn by chance and one photo in
50 a near copy (as in curation_scale.py): the seconds until its groups are found, how large the answer is, the server's
memory before and at most, and searches meanwhile, one every half second.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from curation_scale import made as with_copies

from nonneg_core.terminal.tables import table
from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.runner import test_pattern
from nonneg_runtime.words.column_facts import names_of
from nonneg_server.studio.folder import IndexedFolder
from nonneg_server.studio.folder_answers import Cards, meaning
from nonneg_server.studio.folder_search import Page, SearchLength, facets, photo_query, search
from nonneg_vectors.curation.collection import Collection
from nonneg_vectors.expressions.expression import Photo
from nonneg_vectors.expressions.expression_parser import parse
from nonneg_vectors.storage.embeddings import Embeddings

ASKED, SEARCHES = 40, 300
LENGTHS = (
    SearchLength(2048),
    SearchLength(512),
    SearchLength(128),
    SearchLength(2048, 64),
    SearchLength(512, 32),
    SearchLength(2048, None, tenth=True),
)
ASKED_SIZES: tuple[dict[str, int], ...] = (
    {},
    {"dimensions": 512},
    {"dimensions": 128},
    {"top_k": 64},
    {"dimensions": 724, "top_k": 90},
    {"tenth": 1},
)
AT_ONCE = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vectors", type=Path, help="a file of vectors of `photo`")
    parser.add_argument("--photos", default="10000,100000")
    parser.add_argument("--busy", action="store_true", help="run the encoder beside it")
    parser.add_argument("--embedding", type=Path, metavar="PHOTO", help="ask a server that embeds this photo meanwhile")
    parser.add_argument("--groups", action="store_true", help="ask a server for the groups of its photos")
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)  # of the server that --embedding starts
    options = parser.parse_args()
    sizes = [int(size) for size in options.photos.split(",")]
    if options.port:
        serve(options.vectors, sizes[0], options.port, grouped=options.groups)
    elif options.groups:
        group(options.vectors, sizes[0])
    elif options.embedding:
        ask(options.vectors, sizes[0], options.embedding.read_bytes())
    else:
        measure(options.vectors, sizes, options.busy)


def measure(vectors: Path, sizes: list[int], busy: bool) -> None:
    """Print what each answer takes in this process."""
    bundle, real = open_bundle("photo"), Embeddings.load(vectors).shorten()
    if busy:
        threading.Thread(target=encode_for_ever, args=(bundle,), daemon=True).start()
    rows = []
    for size in sizes:
        folder = IndexedFolder(made(real, size))
        engine, whole = folder.engine, folder.engine.whole
        arrays = (*engine.vectors.rows, whole.starts, whole.rows, whole.values, whole.lengths)
        rows += measured(bundle, folder, sum(array.nbytes for array in arrays) / 1e6)
    print(table(["photos", "what", "first", "median", "95 %", "MB"], rows))
    print(json.dumps({"busy": busy, "rows": rows}))


def measured(bundle: Bundle, folder: IndexedFolder, megabytes: float) -> list[tuple[Any, ...]]:
    """Return a row for everything that is asked."""
    cards = Cards(names_of(bundle), bundle.manifest.dimensions)
    asked = [int(i) for i in np.random.default_rng(1).choice(len(folder), ASKED, replace=False)]

    def ask(i: int, length: SearchLength) -> None:
        expression = parse(str(Photo(folder.names[i])))
        query = photo_query(bundle, folder, expression, (), lambda _: folder.engine.dense(i), {}, cards.names)
        search(folder, query, length, Page(), cards)

    rows = []
    for length in LENGTHS:
        said = f"search, {length.dimensions}" + (f", top_k {length.top_k}" if length.top_k else "")
        said += ", a tenth stored" * length.tenth
        rows.append((len(folder), said, *times(lambda i, at=length: ask(i, at), asked), megabytes))
    result = np.arange(20)
    rows.append((len(folder), "facets", *times(lambda _: facets(folder, result, cards), asked), megabytes))
    columns = bundle.manifest.columns
    some = [int(j) for j in np.random.default_rng(2).choice(2048, ASKED, replace=False)]
    took = times(lambda j: meaning(folder, j, columns, cards), some)
    rows.append((len(folder), "a dimension", *took, megabytes))
    return rows


def times(work: Callable[[int], object], over: list[int]) -> tuple[float, float, float]:
    """Return the milliseconds of the first, and of the others the median and the 95th percentile."""
    found = []
    for one in over:
        started = time.thread_time()
        work(one)
        found.append(1e3 * (time.thread_time() - started))
    return found[0], float(np.median(found[1:])), float(np.quantile(found[1:], 0.95))


def made(real: Embeddings, photos: int) -> Collection:
    """Return a collection of mixtures of two, as long as the real ones."""
    rng, keep = np.random.default_rng(0), round(float(real.nnz.mean()))
    parts = []
    for start in range(0, photos, AT_ONCE):
        one, other = rng.integers(0, len(real), (2, min(AT_ONCE, photos - start)))
        weight = rng.uniform(0.6, 0.9, (len(one), 1)).astype(np.float32)
        z = weight * real[one].numpy() + (1 - weight) * real[other].numpy()
        parts.append(Embeddings.from_dense(z, fingerprint=real.fingerprint).shorten(top_k=keep))
    names = [f"{i:06d}.jpg" for i in range(photos)]
    return Collection("mixtures", Embeddings.concatenate(parts).named(names), [{}] * photos)


def serve(vectors: Path, photos: int, port: int, *, grouped: bool) -> None:
    """Serve a collection, on as many threads as there are cores."""
    from nonneg_server.startup.serve_command import run
    from nonneg_server.startup.setting_sources import read_settings

    real = Embeddings.load(vectors).shorten()
    collection = with_copies(real, photos) if grouped else made(real, photos)
    run(read_settings(port=port, model=("photo",)), collection)


@contextmanager
def served(vectors: Path, photos: int, *flags: str) -> Iterator[tuple[str, int]]:
    """Yield a server in a process of its own, ready: its address and its number."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = [sys.executable, __file__, str(vectors), "--photos", str(photos), "--port", str(port), *flags]
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "NONNEG_LOG_LEVEL": "warning", "NONNEG_DRAIN": "0", "XDG_CACHE_HOME": cache}
        with subprocess.Popen(line, env=env, stdout=subprocess.DEVNULL) as process:
            try:
                await_ready(f"http://127.0.0.1:{port}", process)
                yield f"http://127.0.0.1:{port}", process.pid
            finally:
                process.terminate()


def group(vectors: Path, photos: int) -> None:
    """Print what finding groups takes, and what searches take meanwhile."""
    with served(vectors, photos, "--groups") as (address, process), httpx.Client(base_url=address) as http:
        photos_here = http.get("/studio/photos", params={"limit": 500}).json()["photos"]
        names = [str(Photo(one["name"])) for one in photos_here]
        http.get("/studio/search", params={"expression": names[0]})
        before, found = gigabytes(process, "VmRSS"), ThreadPoolExecutor(1).submit(grouped, address)
        took = []
        while not found.done():
            began = time.perf_counter()
            name = names[len(took) % len(names)]
            assert http.get("/studio/search", params={"expression": name}, timeout=60).status_code == 200
            took.append(1e3 * (time.perf_counter() - began))
            time.sleep(0.5)
        seconds, size = found.result()
        peak = gigabytes(process, "VmHWM")
    searches = [*np.quantile(took, [0.5, 0.95]).tolist(), max(took)]
    print(
        table(["photos", "seconds", "MB of JSON", "GB before", "GB at most"], [(photos, seconds, size, before, peak)])
    )
    print(table(["searches meanwhile", "median", "95 %", "largest"], [(len(took), *searches)]))
    print(json.dumps({"photos": photos, "seconds": seconds, "mb": size, "gb": [before, peak], "searches": searches}))


def grouped(address: str) -> tuple[float, float]:
    """Return the seconds until the groups are answered, and the megabytes of them."""
    began = time.perf_counter()
    while not (answer := httpx.get(f"{address}/studio/groups", timeout=60).raise_for_status()).json()["found"]:
        time.sleep(0.5)
    return time.perf_counter() - began, len(answer.content) / 1e6


def gigabytes(process: int, kind: str) -> float:
    """Return the memory of a process: VmRSS now, VmHWM at most."""
    said = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in said.splitlines() if line.startswith(kind)) / 1e6


def ask(vectors: Path, photos: int, data: bytes) -> None:
    """Print what searches take over HTTP, while nothing else is asked and while the server embeds."""
    with served(vectors, photos) as (address, _):
        rows = compared(address, photos, data)
    print(table(["the server", "median", "95 %", "99 %", "largest"], rows))
    print(json.dumps({"photos": photos, "rows": rows}))


def compared(address: str, photos: int, data: bytes) -> list[tuple[Any, ...]]:
    """Return a row for the idle server, and one for the busy."""
    rows = [("alone", *answered(address, photos, 1))]
    stopped = threading.Event()
    clients = [threading.Thread(target=embed, args=(address, data, stopped)) for _ in range(os.cpu_count() or 1)]
    for client in clients:
        client.start()
    rows.append(("while it embeds", *answered(address, photos, 2)))
    stopped.set()
    for client in clients:
        client.join()
    return rows


def answered(address: str, photos: int, seed: int) -> list[float]:
    """Return the milliseconds of searches, every one like another photo, at lengths by chance."""
    rng, took = np.random.default_rng(seed), []
    with httpx.Client(base_url=address) as http:
        for i in rng.choice(photos, SEARCHES, replace=False):
            size = ASKED_SIZES[int(rng.integers(len(ASKED_SIZES)))]
            began = time.perf_counter()
            answer = http.get("/studio/search", params={"expression": f"{i:06d}.jpg", **size})
            took.append(1e3 * (time.perf_counter() - began))
            assert answer.status_code == 200, answer.text
    return [*np.quantile(took, [0.5, 0.95, 0.99]).tolist(), max(took)]


def embed(address: str, data: bytes, stopped: threading.Event) -> None:
    """Embed one photo after the other, until it is enough."""
    with httpx.Client(base_url=address, timeout=60) as http:
        while not stopped.is_set():
            assert http.post("/embed", content=data).status_code == 200


def await_ready(address: str, process: subprocess.Popen[bytes]) -> None:
    """Return when the server answers; stop with what it has printed if it ends instead."""
    while process.poll() is None:
        try:
            if httpx.get(f"{address}/readyz").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    sys.exit("the server has ended before it was ready")


def encode_for_ever(bundle: Bundle) -> None:
    """Encode one image after the other."""
    session, pixels = Session(bundle.encoder), test_pattern(bundle.manifest.view.size)
    while True:
        session.run(pixels)


if __name__ == "__main__":
    main()
