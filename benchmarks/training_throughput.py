"""Images a second of SimCLR-style training beside lightly's, the same backbone, batch and views on this machine.

    pip install lightly        # in an environment of its own, or: pip install --target DIR, PYTHONPATH=DIR
    python benchmarks/training_throughput.py [--rounds 20] [--seconds 3]

Each side trains in processes of its own, end to end from images in memory. All stay alive and take turns of a few
seconds: a slice each is a round. The rounds that others disturbed least count.
lightly has no and two loader workers, torch's default layout and channels last; the best of the four counts, in each
round. Also: the share of our step that is not forward, backward or optimiser (beside slices of steps on one batch that
lies ready), our step with torchvision's views, image by image, and the memory of each side with its workers. Prints a
table, then one JSON line. Without lightly only our sides are measured.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "serving"))

import numpy as np
from processes import Server, end
from provenance import provenance
from quiet import ENOUGH, Round, Watch, await_quiet, counting, disturbance, is_quiet

SIDE, HIDDEN, DIMENSIONS = 32, 256, 128
OURS = ("nonneg", "nonneg, torchvision's views", "nonneg, bf16")
THEIRS = tuple(f"lightly, {n} workers{layout}" for n in (0, 2) for layout in ("", ", channels last"))
READY = " on a batch that lies ready"
READY_BATCHES = 4  # of two loader workers
Step = Callable[[], float]


def pictures(count: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (count, SIDE, SIDE, 3), dtype=np.uint8)


@contextmanager
def ours(side: str, batch: int, backbone: str) -> Iterator[dict[str, Step]]:
    """Open our side: a step from images, and one on a batch that lies ready."""
    from nonneg_training.data import Arrays
    from nonneg_training.loop.training_loop import Feed
    from nonneg_training.loop.training_run import prepare
    from nonneg_training.methods import Batch
    from nonneg_training.setup.batch_order import Prefetcher
    from nonneg_training.setup.run_settings import read_settings

    images = Arrays("noise", pictures(batch * 8), np.zeros(batch * 8, np.int64), ("noise",))
    changes = {"model.backbone": backbone, "model.hidden": (HIDDEN,), "model.dimensions": DIMENSIONS}
    changes |= {"optimiser.name": "sgd", "optimiser.lr": 0.01, "loop.batch": batch, "loop.epochs": 100_000}
    changes |= {
        "data.source": "noise",
        "model.batch_norm": False,
        "loop.precision": "bf16" if "bf16" in side else "fp32",
    }
    changes |= {"views.pipeline": "torchvision" if "torchvision" in side else "batched"}
    with tempfile.TemporaryDirectory() as folder:
        loop = prepare(read_settings(None, changes), Path(folder), images)
        again = loop.finish(loop.fetch(0))

        class Still:
            def take(self, i: int, /) -> Batch:
                return again

        with Prefetcher(loop.fetch, loop.finish, 10**9) as ahead:

            def steps(feed: Feed) -> Step:
                number = itertools.count()
                return lambda: float(loop.step(next(number), feed)["loss"])

            yield {"": steps(ahead), READY: steps(Still())}


@contextmanager
def lightlys(side: str, batch: int, backbone: str) -> Iterator[dict[str, Step]]:
    """Open a side of lightly's: a step from images."""
    import torch
    from lightly.loss import NTXentLoss
    from lightly.transforms import SimCLRTransform
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset

    from nonneg_training.encoder.named_backbones import open_backbone

    class Pictures(Dataset):
        def __init__(self) -> None:
            self.array = pictures(batch * 8)
            # the same views: crop .08-1, jitter .8 .8 .8 .2 (p .8), grey .2, blur .5, flip .5
            self.views = SimCLRTransform(input_size=SIDE, cj_strength=1.0)

        def __len__(self) -> int:
            return len(self.array)

        def __getitem__(self, i: int) -> list[torch.Tensor]:
            return self.views(Image.fromarray(self.array[i]))

    workers = int(side.split()[1])
    layout = torch.channels_last if "channels last" in side else torch.contiguous_format
    network = open_backbone(backbone, small=True)
    # our projector, not lightly's with its two batch norms: the same work on both sides
    head = [torch.nn.Linear(network.width, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, DIMENSIONS)]
    model = torch.nn.Sequential(network, *head, torch.nn.ReLU()).to(memory_format=layout)
    loss = NTXentLoss(temperature=0.2)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    loader = DataLoader(
        Pictures(), batch, shuffle=True, drop_last=True, num_workers=workers, persistent_workers=workers > 0
    )
    batches = (views for _ in itertools.count() for views in loader)

    def step() -> float:
        first, second = next(batches)
        value = loss(*(model(x.to(memory_format=layout)) for x in (first, second)))
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        return float(value)  # as one who watches the loss does

    yield {"": step}


def serve_slices(side: str, batch: int, backbone: str) -> None:
    """Answer each line of the input, seconds and a kind of step, by the rate of steps for so long."""
    import torch

    import nonneg_training.encoder.torchvision_schemas  # noqa: F401 - before torchvision, which lightly imports

    torch.manual_seed(0)
    with (ours if side in OURS else lightlys)(side, batch, backbone) as steps:
        print("ready", flush=True)
        for line in sys.stdin:
            seconds, kind = json.loads(line)
            for _ in range(READY_BATCHES):  # what was prepared before this turn is used up
                steps[kind]()
            count, begin = 0, time.perf_counter()
            while (spent := time.perf_counter() - begin) < seconds:
                steps[kind]()
                count += 1
            print(json.dumps({"rate": batch * count / spent, "images": batch * count}), flush=True)


class Side:
    """Processes that train in their turn, and wait meanwhile."""

    def __init__(self, name: str, batch: int, backbone: str) -> None:
        command = [sys.executable, __file__, "--side", name, "--batch", str(batch), "--backbone", backbone]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.name = name
        self.process = subprocess.Popen(command, **pipes, start_new_session=True)  # type: ignore[call-overload]
        self.family = Server("", self.process, 0.0)

    def slice(self, seconds: float, kind: str = "") -> dict[str, Any]:
        """Return images a second, the CPU time of an image, and what others used meanwhile."""
        watch, cpu = Watch(self.family.cpu_seconds), self.family.cpu_seconds()
        self.process.stdin.write(f"{json.dumps([seconds, kind])}\n".encode())
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self.answer())
        found["others"] = round(watch.others(), 3)
        found["cpu_ms"] = 1000 * (self.family.cpu_seconds() - cpu) / found["images"]
        return found

    def close(self) -> None:
        self.process.stdin.close()
        end(self.process)

    def answer(self) -> bytes:
        line: bytes = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended; its reason stands above")
        return line


def a_round(sides: Sequence[Side], seconds: float, wait: float) -> Round:
    """Return a slice of each side, one right after the other."""
    slices: Round = {}
    for side in sides:
        for kind in ("", READY) if side.name in OURS[:2] else ("",):
            await_quiet(wait)
            slices[side.name + kind] = side.slice(seconds, kind)
    return slices


def summary(rounds: Sequence[Round]) -> dict[str, Any]:
    """Return median, least and most of the rounds that count; ratios are of slices of one round."""
    rounds = counting(rounds)

    def spread(values: Sequence[float]) -> list[float]:
        return [round(f(values), 3) for f in (median, min, max)]

    sides = {side: spread([one[side]["rate"] for one in rounds]) for side in rounds[0]}
    outside = {side: spread([1 - one[side]["rate"] / one[side + READY]["rate"] for one in rounds]) for side in OURS[:2]}
    found = {"rates": sides, "outside": outside, "others": spread([disturbance(one) for one in rounds])}
    theirs = [side for side in sides if side in THEIRS]
    if theirs:
        best = [max(one[side]["rate"] for side in theirs) for one in rounds]
        least = [min(one[side]["cpu_ms"] for side in theirs) for one in rounds]
        found["ratio"] = spread([one["nonneg"]["rate"] / rate for one, rate in zip(rounds, best, strict=True)])
        found["ratio by CPU time"] = spread(
            [ms / one["nonneg"]["cpu_ms"] for one, ms in zip(rounds, least, strict=True)]
        )
    return found


def report(found: dict[str, Any], rounds: Sequence[Round], memory: dict[str, float]) -> None:
    quiet = sum(map(is_quiet, rounds))
    print(f"{len(rounds)} rounds, {quiet} quiet; median (least - most) of the {min(len(rounds), ENOUGH)} that count")
    print("others used {:.0%} ({:.0%} - {:.0%}) of the machine".format(*found["others"]))
    for side, (middle, least, most) in found["rates"].items():
        outside = "{:8.1%} outside ({:.1%} - {:.1%})".format(*found["outside"][side]) if side in OURS[:2] else ""
        megabytes = f"{memory[side]:6.0f} MB" if side in memory else ""
        print(f"{side:56} {middle:6.0f} images/s ({least:.0f} - {most:.0f}) {megabytes}{outside}")
    for name in ("ratio", "ratio by CPU time"):
        if name in found:
            print("nonneg beside the best lightly, {}: {:.2f} ({:.2f} - {:.2f})".format(name, *found[name]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="at most; fewer if the machine is quiet")
    parser.add_argument("--seconds", type=float, default=3, help="of a slice")
    parser.add_argument("--wait", type=float, default=2, help="seconds a slice waits for quiet at most")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--backbone", default="slim-resnet")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        serve_slices(options.side, options.batch, options.backbone)
        return
    names = OURS + (THEIRS if importlib.util.find_spec("lightly") else ())
    rounds: list[Round] = []
    line = {"benchmark": "training_throughput", "backbone": options.backbone, "batch": options.batch, **provenance()}
    with ExitStack() as stack:
        sides = []
        for name in names:
            sides.append(Side(name, options.batch, options.backbone))
            stack.callback(sides[-1].close)
        for side in sides:
            side.answer()
        a_round(sides, options.seconds / 4, 0)  # the first steps are slower
        while len(rounds) < options.rounds and sum(map(is_quiet, rounds)) < ENOUGH:
            rounds.append(a_round(sides, options.seconds, options.wait))
        memory = {side.name: side.family.pss_mb() for side in sides}
    found = summary(rounds)
    report(found, rounds, memory)
    print(json.dumps({**line, **found, "memory_mb": memory, "rounds": rounds}))


if __name__ == "__main__":
    main()
