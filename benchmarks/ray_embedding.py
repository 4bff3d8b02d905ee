"""`nonneg embed --ray` beside one process: images/s after start-up, start-up, the bytes of every shard, lost workers.

    python benchmarks/ray_embedding.py PHOTOS [--bundle photo] [--images 5000] [--workers 2] [--kill-every 20]

PHOTOS is a folder; the images are links to its photos, each under several names where there are too few. Start-up is
the time of a run over one image; a rate is the other images by the time beyond that. The rate under way is that of the
middle four fifths of a run, by the times of its shards: a run over one image does not wait for the second worker, and
at the end of a run one core has nothing to do. Both kinds of run take turns, so that other work on the machine hits
both. With --kill-every, a worker of the cluster, taken at random, is killed each
so many seconds of the last run: what is made must be the same bytes, and no image twice. Prints a table, then one
JSON line.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import math
import os
import random
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
from nonneg_core.files.image_files import find_images


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
    with tempfile.TemporaryDirectory() as folder:
        one, all_of_them = Path(folder, "one"), Path(folder, "all")
        linked(asked.photos, one, 1)
        linked(asked.photos, all_of_them, asked.images)
        found = compared(asked, Path(folder), one, all_of_them)
    print(f"{'':>12} {'start-up s':>11} {'images/s':>9} {'under way':>10}")
    for name in ("alone", "ray"):
        start, rate, under_way = (found[f"{name}_{figure}"] for figure in ("start", "rate", "under_way"))
        print(f"{name:>12} {start:>11.1f} {rate:>9.1f} {under_way:>10.1f}")
    print(f"ratio {found['ratio']:.3f}, under way {found['ratio_under_way']:.3f}")
    print(f"shards equal: {found['equal']}, workers killed: {found['killed']}")
    print(json.dumps({**found, "images": asked.images, "bundle": asked.bundle, **provenance()}))


def compared(asked: argparse.Namespace, folder: Path, one: Path, images: Path) -> dict[str, float | bool | int]:
    """Run both kinds in turns; return the best of each, since other work only adds."""
    kinds = {"alone": (), "ray": ("--ray", "--workers", str(asked.workers))}
    starts: dict[str, list[float]] = {kind: [] for kind in kinds}
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    under_way: dict[str, list[float]] = {kind: [] for kind in kinds}
    killed = 0
    for number in range(asked.rounds):
        for kind, options in kinds.items():
            starts[kind].append(embedded(asked, one, folder / f"{kind}-one-{number}", options)[0])
            every = asked.kill_every if kind == "ray" and number == asked.rounds - 1 else 0.0
            seconds, lost = embedded(asked, images, folder / f"{kind}-{number}", options, every)
            killed += lost
            times[kind] += [seconds] if not lost else []
            under_way[kind] += [rate_under_way(folder / f"{kind}-{number}")] if not lost else []
    last = f"-{asked.rounds - 1}"
    equal = same(folder / f"alone{last}", folder / f"ray{last}")
    names = [name for part in Embeddings.scan(folder / f"ray{last}") for name in part.ids or ()]
    assert len(names) == len(set(names))
    found: dict[str, float | bool | int] = {f"{kind}_start": min(starts[kind]) for kind in kinds}
    for kind in kinds:  # infinite time where every run had workers killed
        found[f"{kind}_rate"] = (asked.images - 1) / (min(times[kind], default=math.inf) - min(starts[kind]))
        found[f"{kind}_under_way"] = max(under_way[kind], default=0.0)
    ratios = {
        "ratio": float(found["ray_rate"]) / float(found["alone_rate"]),
        "ratio_under_way": float(found["ray_under_way"]) / float(found["alone_under_way"]),
    }
    return {**found, **ratios, "equal": equal, "vectors": len(names), "killed": killed}


def rate_under_way(target: Path) -> float:
    """Return images/s between the shards that ended after a tenth and after nine tenths of a run."""
    images = {shard["name"]: shard["images"] for shard in json.loads((target / "manifest.json").read_text())["shards"]}
    ended = sorted((path.stat().st_mtime, images[path.stem]) for path in (target / "shards").glob("*.parquet"))
    first, last = len(ended) // 10, len(ended) - 1 - len(ended) // 10
    return sum(count for _, count in ended[first + 1 : last + 1]) / (ended[last][0] - ended[first][0])


def linked(photos: Path, folder: Path, images: int) -> None:
    """Make a folder of so many links."""
    folder.mkdir()
    for number, photo in enumerate(islice(cycle(find_images(photos)), images)):
        (folder / f"{number:06}{photo.suffix}").symlink_to(photo.resolve())


def embedded(
    asked: argparse.Namespace, source: Path, target: Path, options: tuple[str, ...], kill_every: float = 0.0
) -> tuple[float, int]:
    """Return the seconds of the command, and how many workers were killed."""
    command = [sys.executable, "-m", "nonneg_cli", "embed", str(source), "-o", str(target), "--quiet"]
    command += ["--bundle", asked.bundle, "--shard-size", str(asked.shard_size), *options]
    began, killed = time.perf_counter(), 0
    environment = {
        **os.environ,
        "RAY_worker_niceness": "0",
    }  # its own is 15: other work would go first
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as process:
        struck = time.perf_counter()
        while process.poll() is None:
            time.sleep(0.05)
            if kill_every and time.perf_counter() - struck > kill_every and list(target.glob("shards/*")):
                killed, struck = killed + kill_one(process.pid), time.perf_counter()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return time.perf_counter() - began, killed


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
    """Return whether two data sets have the same shards, byte for byte."""
    names = sorted(path.name for path in (first / "shards").iterdir())
    if names != sorted(path.name for path in (second / "shards").iterdir()):
        return False
    return filecmp.cmpfiles(first / "shards", second / "shards", names, shallow=False)[0] == names


if __name__ == "__main__":
    main()
