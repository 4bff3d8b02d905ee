"""Images a second of SimCLR-style training beside lightly's, the same backbone, batch and views on this machine.

    pip install lightly        # in an environment of its own, or: pip install --target DIR, PYTHONPATH=DIR
    python benchmarks/training_throughput.py [--rounds 3] [--steps 20]

Each side trains in a process of its own, end to end from images in memory, in turns: the same backbone, projector,
batch and views. lightly has no and two loader workers, torch's default layout and channels last; the best of the four
counts. Also: the share of our step that is not forward, backward or optimiser (steps on one batch that lies ready, in
turns with whole ones), our step with torchvision's views, image by image, and each side's peak memory (of the process
that learns; workers are not counted). Prints a table, then one JSON line. Without lightly only our side is measured.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "serving"))

import numpy as np
import torch
from provenance import provenance

import nonneg_training.encoder.torchvision_schemas  # noqa: F401 - before torchvision, which lightly imports

SIDE, HIDDEN, DIMENSIONS, WARM = 32, 256, 128, 5


def pictures(count: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (count, SIDE, SIDE, 3), dtype=np.uint8)


def ours(batch: int, steps: int, backbone: str, precision: str, pipeline: str) -> dict[str, float]:
    from nonneg_training.data import Arrays
    from nonneg_training.loop.training_loop import Feed
    from nonneg_training.loop.training_run import prepare
    from nonneg_training.methods import Batch
    from nonneg_training.setup.batch_order import Prefetcher
    from nonneg_training.setup.run_settings import read_settings

    images = Arrays("noise", pictures(batch * 8), np.zeros(batch * 8, np.int64), ("noise",))
    changes = {"model.backbone": backbone, "model.hidden": (HIDDEN,), "model.dimensions": DIMENSIONS}
    changes |= {"optimiser.name": "sgd", "optimiser.lr": 0.01, "loop.batch": batch, "loop.epochs": 1000}
    changes |= {"data.source": "noise", "model.batch_norm": False, "loop.precision": precision}
    changes |= {"views.pipeline": pipeline}
    with tempfile.TemporaryDirectory() as folder:
        loop = prepare(read_settings(None, changes), Path(folder), images)
        whole: list[float] = []
        compute: list[float] = []
        with Prefetcher(loop.fetch, loop.finish, 10_000) as ahead:
            again = loop.finish(loop.fetch(0))

            class Still:
                def take(self, i: int, /) -> Batch:
                    return again

            feeds: list[tuple[Feed, list[float]]] = [(ahead, whole), (Still(), compute)]
            for step in range(WARM + steps):  # with views to make and without, in turns: the machine's moods hit both
                for feed, times in feeds:
                    begin = time.perf_counter()
                    float(loop.step(step, feed)["loss"])
                    times.append(time.perf_counter() - begin)
    whole, compute = whole[WARM:], compute[WARM:]
    outside = 1 - statistics.median(compute) / statistics.median(whole)
    return {"images_per_second": batch * steps / sum(whole), "outside": max(0.0, outside)}


def lightlys(batch: int, steps: int, backbone: str, workers: int, layout: torch.memory_format) -> dict[str, float]:
    from lightly.loss import NTXentLoss
    from lightly.transforms import SimCLRTransform
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset

    from nonneg_training.encoder.named_backbones import open_backbone as build

    class Pictures(Dataset):
        def __init__(self) -> None:
            self.array = pictures(batch * 8)
            # the same views: crop .08-1, jitter .8 .8 .8 .2 (p .8), grey .2, blur .5, flip .5
            self.views = SimCLRTransform(input_size=SIDE, cj_strength=1.0)

        def __len__(self) -> int:
            return len(self.array)

        def __getitem__(self, i: int) -> list[torch.Tensor]:
            return self.views(Image.fromarray(self.array[i]))

    network = build(backbone, small=True)
    # our projector, not lightly's with its two batch norms: the same work on both sides
    head = [torch.nn.Linear(network.width, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, DIMENSIONS)]
    model = torch.nn.Sequential(network, *head, torch.nn.ReLU()).to(memory_format=layout)
    loss = NTXentLoss(temperature=0.2)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    loader = DataLoader(
        Pictures(), batch, shuffle=True, drop_last=True, num_workers=workers, persistent_workers=workers > 0
    )
    done, begin = 0, time.perf_counter()
    while done < WARM + steps:
        for first, second in loader:
            value = loss(*(model(x.to(memory_format=layout)) for x in (first, second)))
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            value.item()  # as one who watches the loss does
            done += 1
            if done == WARM:
                begin = time.perf_counter()
            if done == WARM + steps:
                break
    return {"images_per_second": batch * steps / (time.perf_counter() - begin), "outside": float("nan")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--backbone", default="slim-resnet")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(one(options)))
        return
    sides = ["nonneg", "nonneg, torchvision's views", "nonneg, bf16"]
    if importlib.util.find_spec("lightly"):
        sides += [f"lightly, {n} workers{layout}" for n in (0, 2) for layout in ("", ", channels last")]
    found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for _ in range(options.rounds):
        for side in sides:
            found[side].append(separately(side, options))
    report(found, options)


def one(options: argparse.Namespace) -> dict[str, float]:
    torch.manual_seed(0)
    if options.side.startswith("nonneg"):
        precision = "bf16" if "bf16" in options.side else "fp32"
        pipeline = "torchvision" if "torchvision" in options.side else "batched"
        row = ours(options.batch, options.steps, options.backbone, precision, pipeline)
    else:
        layout = torch.channels_last if "channels last" in options.side else torch.contiguous_format
        row = lightlys(options.batch, options.steps, options.backbone, int(options.side.split()[1]), layout)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {**row, "megabytes": memory / 1024}


def separately(side: str, options: argparse.Namespace) -> dict[str, float]:
    arguments = ["--side", side, "--steps", str(options.steps), "--batch", str(options.batch)]
    command = [sys.executable, __file__, *arguments, "--backbone", options.backbone]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    row: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return row


def report(found: dict[str, list[dict[str, float]]], options: argparse.Namespace) -> None:
    rows = {}
    print(f"{options.backbone}, batch {options.batch}, {SIDE} px, median of {options.rounds} (least - most)")
    print(f"{'':36} {'images/s':>9} {'spread':>15} {'outside':>8} {'MB':>6}")
    for side, runs in found.items():
        speeds = [run["images_per_second"] for run in runs]
        row = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        spread = f"{min(speeds):.0f} - {max(speeds):.0f}"
        print(f"{side:36} {row['images_per_second']:9.0f} {spread:>15} {row['outside']:8.1%} {row['megabytes']:6.0f}")
        rows[side] = {name: round(value, 3) for name, value in row.items() if value == value}
    theirs = [row for side, row in rows.items() if side.startswith("lightly")]
    ratio = None
    if theirs:
        best = max(theirs, key=lambda row: row["images_per_second"])
        ratio = round(rows["nonneg"]["images_per_second"] / best["images_per_second"], 2)
        print(
            f"nonneg is {ratio} times the better lightly; memory {rows['nonneg']['megabytes']:.0f} MB beside ", end=""
        )
        print(f"{min(row['megabytes'] for row in theirs):.0f} MB")
    print(json.dumps({"benchmark": "training_throughput", "ratio": ratio, "sides": rows, **provenance()}))


if __name__ == "__main__":
    main()
