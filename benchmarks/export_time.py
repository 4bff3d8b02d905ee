"""What an export costs beside running ONNX Runtime over the calibration photos: ResNet-50, 2048 wide.

    python benchmarks/export_time.py --images PHOTOS
    python benchmarks/export_time.py --images PHOTOS --photos 500 --backbone resnet18

The yardstick is the best way known for CPUs: as many threads as cores, each reading, decoding, viewing and encoding one
photo on one shared session, answers thrown away. The export does the same work, keeps the answers, and converts, ranks,
verifies and seals besides. Both see the same photos, the yardstick first and last, its better time counts. Weights are
random: they cost the same. Bias: the page cache is warm for both. Prints a table, then one JSON line.
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

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent / "serving"))

from provenance import provenance

from nonneg_client.cores import granted
from nonneg_client.pixels.view import View
from nonneg_export.assemble import Draft, rank, seal
from nonneg_export.canonical import save
from nonneg_export.convert import to_onnx
from nonneg_export.manifest import Provenance
from nonneg_export.photos import Photos, find_photos, see
from nonneg_export.runtime import Session
from nonneg_training.backbones import backbone
from nonneg_training.encoder import Encoder

NOWHERE = Provenance(weights="random", weights_license="none", data="none", data_license="none")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--photos", type=int, default=5000)
    parser.add_argument("--backbone", default="resnet50")
    options = parser.parse_args()
    found = find_photos(options.images)
    photos = Photos(found.folder, tuple((found.paths * (options.photos // len(found) + 1))[: options.photos]))
    torch.manual_seed(0)
    encoder = Encoder(backbone(options.backbone, small=False), View(size=224), dimensions=2048).eval()

    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        plain = work / "plain.onnx"
        save(to_onnx(encoder, 224), plain)
        first = run_over(plain, photos, encoder.view)
        seconds, parts = export(encoder, photos, work / "export", work / "bundle")
        best = min(first, run_over(plain, photos, encoder.view))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{'ONNX Runtime over the photos':30} {best:8.1f} s  {len(photos) / best:6.1f} photos/s")
    for name, spent in parts.items():
        print(f"{'  ' + name:30} {spent:8.1f} s")
    print(f"{'export':30} {seconds:8.1f} s  {seconds / best:6.3f} times, {peak:.2f} GiB at most")
    record = {"backbone": options.backbone, "photos": len(photos), "ratio": round(seconds / best, 3)}
    print(json.dumps({**record, "seconds": round(seconds, 1), "peak_gib": round(peak, 2), **provenance()}))


def run_over(encoder: Path, photos: Photos, view: View) -> float:
    """Seconds for all photos, the fastest way known."""
    begin = time.perf_counter()
    session = Session(encoder, threads=1)
    with ThreadPoolExecutor(granted()) as pool:
        for _ in pool.map(lambda path: session.run(see(path, view)[0][None]), photos.paths):
            pass
    return time.perf_counter() - begin


def export(encoder: Encoder, photos: Photos, work: Path, out: Path) -> tuple[float, dict[str, float]]:
    """Seconds of a whole export, and of its parts."""

    def answer(pixels: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return encoder(torch.from_numpy(pixels)).numpy()

    begin = time.perf_counter()
    model = to_onnx(encoder, 224)
    converted = time.perf_counter()
    about = {"name": "bench", "version": "1", "activation": "relu", "provenance": NOWHERE}
    draft = Draft(model=model, view=encoder.view, reference=answer, **about)
    ticks: list[float] = []
    ranked = rank(draft, photos, work, tick=lambda *_: ticks.append(time.perf_counter()))
    verified = time.perf_counter()
    seal(ranked, out)
    end = time.perf_counter()
    spent = {
        "convert": converted - begin,
        "collect": ticks[-1] - converted,
        "rank and verify": verified - ticks[-1],
        "seal": end - verified,
    }
    return end - begin, spent


if __name__ == "__main__":
    main()
