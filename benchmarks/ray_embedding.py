"""`nonneg embed --ray` beside one process: images/s after start-up, start-up, the bytes of every shard, lost workers.

    python benchmarks/ray_embedding.py PHOTOS [--bundle photo] [--images 5000] [--workers 2] [--kill-every 20]

PHOTOS is a folder; the images are links to its photos, each under several names where there are too few. Start-up is
the time of a run over one image; a rate is the other images by the time beyond that. Both kinds of run take turns, so
that other work on the machine hits both; processor time, of the command and of all that it starts, hardly depends on
it. With --kill-every, a worker of the cluster, taken at random, is killed each so many seconds of the last run: what is
made must be the same bytes, and no image twice. Prints a table, then one JSON line.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import filecmp
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "serving"))

from provenance import provenance

from nonneg_client import Embeddings
from nonneg_core.image_files import find_images


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--bundle", default="photo")
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--shard-size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--kill-every", type=float, default=0.0, metavar="SECONDS")
    asked = parser.parse_args()
    adopt_orphans()
    with tempfile.TemporaryDirectory() as folder:
        one, all_of_them = Path(folder, "one"), Path(folder, "all")
        linked(asked.photos, one, 1)
        linked(asked.photos, all_of_them, asked.images)
        found = compared(asked, Path(folder), one, all_of_them)
    print(f"{'':>12} {'start-up s':>11} {'images/s':>9} {'CPU ms/image':>13}")
    for name in ("alone", "ray"):
        start, rate, cpu = (found[f"{name}_{what}"] for what in ("start", "rate", "cpu_ms"))
        print(f"{name:>12} {start:>11.1f} {rate:>9.1f} {cpu:>13.2f}")
    ratios = f"ratio {found['ratio']:.3f}, by processor time {found['cpu_ratio']:.3f}"
    print(f"{ratios}, shards equal: {found['equal']}, workers killed: {found['killed']}")
    print(json.dumps({**found, "images": asked.images, "bundle": asked.bundle, **provenance()}))


def compared(asked: argparse.Namespace, folder: Path, one: Path, images: Path) -> dict[str, float | bool | int]:
    """Both kinds of run in turns; the best of each, since other work only adds."""
    kinds = {"alone": (), "ray": ("--ray", "--workers", str(asked.workers))}
    starts: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    times: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    killed = 0
    for number in range(asked.rounds):
        last = number == asked.rounds - 1
        for kind, options in kinds.items():
            starts[kind].append(embedded(asked, one, folder / f"{kind}-one-{number}", options)[:2])
            seconds, cpu, killed_now = embedded(
                asked, images, folder / f"{kind}-{number}", options, asked.kill_every * (kind == "ray" and last)
            )
            killed += killed_now
            if not killed_now:
                times[kind].append((seconds, cpu))
    beyond = {kind: [least(times[kind], i) - least(starts[kind], i) for i in (0, 1)] for kind in kinds if times[kind]}
    last = f"-{asked.rounds - 1}"
    equal = same(folder / f"alone{last}", folder / f"ray{last}")
    names = [name for part in Embeddings.scan(folder / f"ray{last}") for name in part.ids or ()]
    assert len(names) == len(set(names))
    found: dict[str, float | bool | int] = {f"{kind}_start": least(starts[kind], 0) for kind in kinds}
    unknown = [float("nan")] * 2  # where every run had workers killed
    for kind in kinds:
        seconds, cpu = beyond.get(kind, unknown)
        found |= {f"{kind}_rate": (asked.images - 1) / seconds, f"{kind}_cpu_ms": 1000 * cpu / (asked.images - 1)}
    wall, cpu = (alone / ray for alone, ray in zip(beyond["alone"], beyond.get("ray", unknown), strict=True))
    return {**found, "ratio": wall, "cpu_ratio": cpu, "equal": equal, "vectors": len(names), "killed": killed}


def least(runs: list[tuple[float, float]], i: int) -> float:
    return min(run[i] for run in runs)


def linked(photos: Path, folder: Path, images: int) -> None:
    """A folder of so many links."""
    folder.mkdir()
    for number, photo in enumerate(islice(cycle(find_images(photos)), images)):
        (folder / f"{number:06}{photo.suffix}").symlink_to(photo.resolve())


def embedded(
    asked: argparse.Namespace, source: Path, target: Path, options: tuple[str, ...], kill_every: float = 0.0
) -> tuple[float, float, int]:
    """Seconds of the command, of the processors for it, and how many workers were killed."""
    command = [sys.executable, "-m", "nonneg_cli", "embed", str(source), "-o", str(target), "--quiet"]
    command += ["--bundle", asked.bundle, "--shard-size", str(asked.shard_size), *options]
    began, killed, used = time.perf_counter(), 0, cpu_of_children()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        struck = time.perf_counter()
        while process.poll() is None:
            time.sleep(0.05)
            if kill_every and time.perf_counter() - struck > kill_every and list(target.glob("shards/*")):
                killed, struck = killed + kill_one(process.pid), time.perf_counter()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    seconds = time.perf_counter() - began
    return seconds, cpu_of_children() - used, killed


def adopt_orphans() -> None:
    """Become the parent of processes whose own ends before them, so that their processor time is counted."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def cpu_of_children() -> float:
    """Processor seconds of all that was started and has ended; what is ending is waited for."""
    with contextlib.suppress(ChildProcessError):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.1)
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


def kill_one(driver: int) -> int:
    """Kill a worker of a run, if there is one."""
    workers = [place for place in Path("/proc").glob("[0-9]*") if is_worker(place, driver)]
    if not workers:
        return 0
    os.kill(int(random.choice(workers).name), signal.SIGKILL)
    return 1


def is_worker(place: Path, driver: int) -> bool:
    try:
        if b"ray::" not in (title := (place / "cmdline").read_bytes()) or b"Worker" not in title:
            return False
        process = int(place.name)
        while process > 1:
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
            if process == driver:
                return True
    except OSError:
        pass
    return False


def same(first: Path, second: Path) -> bool:
    """Whether two data sets have the same shards, byte for byte."""
    names = sorted(path.name for path in (first / "shards").iterdir())
    if names != sorted(path.name for path in (second / "shards").iterdir()):
        return False
    return filecmp.cmpfiles(first / "shards", second / "shards", names, shallow=False)[0] == names


if __name__ == "__main__":
    main()
