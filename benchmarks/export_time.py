"""What an export costs beside running ONNX Runtime over the calibration photos: ResNet-50, 2048 wide.

    python benchmarks/export_time.py --images PHOTOS
    python benchmarks/export_time.py --images PHOTOS --photos 500 --backbone resnet18

The yardstick is the best way known for CPUs: as many threads as cores, each reading, decoding, viewing and encoding one
photo on one shared session, answers thrown away. The export does the same work, keeps the answers, and converts, ranks,
verifies and seals besides. Both see the same photos, the yardstick before the export and after it; the mean of both
counts, so that a machine that slows down disturbs neither. Weights are random: they cost the same. Bias: the page cache
is warm for both. Prints a table, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent / "serving"))

from provenance import provenance

from nonneg_core.pixels.view import View
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_export.assembly.calibrate_and_seal import Draft, rank, seal
from nonneg_export.calibrate.photo_folder import Photos, find_photos, load_pixels
from nonneg_export.graphs.canonical import save
from nonneg_export.graphs.convert import to_onnx
from nonneg_runtime.bundle.manifest import Provenance
from nonneg_runtime.inference.onnx_session import Session
from nonneg_training.encoder.encoder_module import EncoderModule
from nonneg_training.encoder.named_backbones import open_backbone

NOWHERE = Provenance(weights="random", weights_license="none", data="none", data_license="none")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--photos", type=int, default=5000)
    parser.add_argument("--backbone", default="resnet50")
    options = parser.parse_args()
    found = find_photos(options.images)
    photos = Photos(found.folder, tuple((tuple(found.paths) * (options.photos // len(found) + 1))[: options.photos]))
    torch.manual_seed(0)
    encoder = EncoderModule(open_backbone(options.backbone, small=False), View(size=224), dimensions=2048).eval()

    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        plain = work / "plain.onnx"
        save(to_onnx(encoder, 224), plain)
        first = run_over(plain, photos, encoder.view)
        parts = export(encoder, photos, work / "export", work / "bundle")
        last = run_over(plain, photos, encoder.view)
        bare = Spent((first.seconds + last.seconds) / 2, (first.cpu + last.cpu) / 2)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    whole = Spent(*(sum(each) for each in zip(*parts.values(), strict=True)))
    print(f"{'':30} {'seconds':>8} {'of CPU':>8}")
    pieces = {
        "ONNX Runtime over the photos": bare,
        **{f"  {name}": each for name, each in parts.items()},
        "export": whole,
    }
    for name, spent in pieces.items():
        print(f"{name:30} {spent.seconds:8.1f} {spent.cpu:8.1f}")
    ratio, by_cpu = whole.seconds / bare.seconds, whole.cpu / bare.cpu
    print(f"{ratio:.3f} times, {by_cpu:.3f} by CPU; {len(photos) / bare.seconds:.1f} photos/s, {peak:.2f} GiB at most")
    record = {"backbone": options.backbone, "photos": len(photos), "ratio": round(ratio, 3), "by_cpu": round(by_cpu, 3)}
    print(json.dumps({**record, "seconds": round(whole.seconds, 1), "peak_gib": round(peak, 2), **provenance()}))


class Spent(NamedTuple):
    """What a piece of work took: by the clock, and of the cores' time, which a busy machine disturbs less."""

    seconds: float
    cpu: float

    @classmethod
    def now(cls) -> Spent:
        return cls(time.perf_counter(), time.process_time())

    def until(self, other: Spent) -> Spent:
        return Spent(other.seconds - self.seconds, other.cpu - self.cpu)


def run_over(encoder: Path, photos: Photos, view: View) -> Spent:
    """Return what all photos take, the fastest way known."""
    begin = Spent.now()
    session = Session(encoder, threads=1)
    with ThreadPoolExecutor(available_cores()) as pool:
        for _ in pool.map(lambda path: session.run(load_pixels(path, view)[0][None]), photos.paths):
            pass
    return begin.until(Spent.now())


def export(encoder: EncoderModule, photos: Photos, work: Path, out: Path) -> dict[str, Spent]:
    """Return what the parts of a whole export take."""

    def answer(pixels: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return encoder(torch.from_numpy(pixels)).numpy()

    begin = Spent.now()
    model = to_onnx(encoder, 224)
    converted = Spent.now()
    about = {"name": "bench", "version": "1", "activation": "relu", "provenance": NOWHERE}
    draft = Draft(model=model, view=encoder.view, reference=answer, **about)
    ticks: list[Spent] = []
    ranked = rank(draft, photos, work, tick=lambda *_: ticks.append(Spent.now()))
    verified = Spent.now()
    seal(ranked, out)
    end = Spent.now()
    return {
        "convert": begin.until(converted),
        "collect": converted.until(ticks[-1]),
        "rank and verify": ticks[-1].until(verified),
        "seal": verified.until(end),
    }


if __name__ == "__main__":
    main()
