"""Seconds an epoch of a head on 20,000 cached features, 2048 wide, five nested lengths.

    python benchmarks/training_head.py [--epochs 3] [--features 2048]

Synthetic features from a memory map, as wide as EfficientNet-Lite0's unless said (ResNet-50's are 2048). Prints a
table, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "serving"))

import numpy as np
import torch
from provenance import provenance
from torch import nn

from nonneg_core.pixels.view import View
from nonneg_core.process.cores_and_allocator import tune_for_training
from nonneg_training.data import Arrays
from nonneg_training.encoder.backbone import Backbone
from nonneg_training.encoder.encoder_module import EncoderModule
from nonneg_training.loop.batches import FeatureBatches
from nonneg_training.loop.training_loop import Loop
from nonneg_training.methods.head_method import HeadMethod
from nonneg_training.methods.head_start import sample_features, start_linear
from nonneg_training.setup.batch_order import Prefetcher
from nonneg_training.setup.process_group import ProcessGroup
from nonneg_training.setup.run_settings import read_settings

COUNT, DIMENSIONS, LENGTHS = 20_000, 2048, (128, 256, 512, 1024, 2048)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--features", type=int, default=1280, help="how wide the cached features are")
    options = parser.parse_args()
    tune_for_training()  # as a run does
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.npy"
        np.save(path, np.random.default_rng(0).random((1, COUNT, options.features), dtype=np.float32))
        features = np.load(path, mmap_mode="r")
        seconds, losses = [], []
        for loss in ({"head.neighbours": 1.0}, {"head.neighbours": 1.0, "head.reconstruction": 1.0}):
            losses.append("+".join(name.removeprefix("head.") for name in loss))
            seconds.append(epochs(features, Path(folder), loss, options))
    print(f"{COUNT} features, {options.features} -> {DIMENSIONS}, lengths {LENGTHS}, batches of {options.batch}")
    print(f"{'losses':30} {'s an epoch':>10} {'spread':>14}")
    for name, times in zip(losses, seconds, strict=True):
        print(f"{name:30} {statistics.median(times):10.2f} {min(times):6.2f} - {max(times):.2f}")
    rows = {name: [round(t, 2) for t in times] for name, times in zip(losses, seconds, strict=True)}
    print(
        json.dumps(
            {"benchmark": "training_head", "features": options.features, "seconds_an_epoch": rows, **provenance()}
        )
    )


def epochs(features: np.ndarray, folder: Path, loss: dict[str, float], options: argparse.Namespace) -> list[float]:
    changes = {
        "method": "head",
        "loss.lengths": LENGTHS,
        "loop.batch": options.batch,
        "loop.epochs": options.epochs + 1,
    }
    settings = read_settings(None, {**changes, **loss})
    images = Arrays("none", np.zeros((COUNT, 1, 1, 3), np.uint8), np.zeros(COUNT, np.int64), ("none",))
    encoder = EncoderModule(Backbone(nn.Identity(), options.features, size=1), View(size=1), dimensions=DIMENSIONS)
    x = sample_features(features)
    start_linear(encoder.output, x, "random", torch.Generator().manual_seed(0))
    method = HeadMethod(encoder, settings.loss, settings.head, x)
    batches = FeatureBatches(images, features, 1, torch.device("cpu"))
    loop = Loop(settings, folder, method, batches, lambda: (x, x), world=ProcessGroup())
    times = []
    with Prefetcher(loop.fetch, loop.finish, loop.plan.total) as ahead:
        for epoch in range(options.epochs + 1):
            begin = time.perf_counter()
            for step in range(loop.plan.per_epoch):
                float(loop.step(epoch * loop.plan.per_epoch + step, ahead)["loss"])
            times.append(time.perf_counter() - begin)
    return times[1:]  # the first warms up


if __name__ == "__main__":
    main()
