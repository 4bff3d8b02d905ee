"""What `--decode` gains and costs: microseconds from a JPEG's bytes to the encoder's pixels, and how near vectors stay.

    python benchmarks/decoding.py PHOTOS [--bundle DIR] [--sizes 500x375 4000x3000] [--count 200]

One thread. The cosine is to the vector of the photo decoded exactly; the neighbours are the ten nearest among the
photos, of which some share is the same. Prints a table, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, get_args

sys.path.insert(0, str(Path(__file__).parent / "serving"))

import numpy as np
from numpy.typing import NDArray
from photos import make_photos
from provenance import provenance

from nonneg_core.shortening import unit
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.seeing.preprocess import Decoding, Preprocessor

ROUNDS = 5
NEIGHBOURS = 10


def microseconds(preprocessors: dict[str, Preprocessor], files: list[bytes]) -> dict[str, float]:
    """Return an image's time in each way, in turns; the median of the rounds."""
    found: dict[str, list[float]] = {name: [] for name in preprocessors}
    for _ in range(ROUNDS):
        for name, preprocessor in preprocessors.items():
            start = time.perf_counter()
            for file in files:
                preprocessor.pixels(file)
            found[name].append(1e6 * (time.perf_counter() - start) / len(files))
    return {name: median(times) for name, times in found.items()}


def nearest(z: NDArray[np.float32]) -> list[set[int]]:
    similar = z @ z.T
    np.fill_diagonal(similar, -1)
    return [set(row) for row in np.argpartition(-similar, NEIGHBOURS, axis=1)[:, :NEIGHBOURS].tolist()]


def measured(forms: dict[str, Preprocessor], session: Session, files: list[bytes]) -> dict[str, dict[str, float]]:
    times = microseconds(forms, files)
    vectors = {
        name: unit(np.concatenate([session.run(preprocessor.pixels(file)[None]) for file in files]))
        for name, preprocessor in forms.items()
    }
    true = nearest(vectors["exact"])
    found = {}
    for name, z in vectors.items():
        cosines = (vectors["exact"] * z).sum(axis=1)
        kept = [len(mine & theirs) / NEIGHBOURS for mine, theirs in zip(nearest(z), true, strict=True)]
        found[name] = {
            "us": round(times[name], 1),
            "cosine, median": round(float(np.median(cosines)), 5),
            "least": round(float(cosines.min()), 5),
            "same neighbours": round(float(np.mean(kept)), 4),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--bundle", type=Path)
    parser.add_argument("--sizes", nargs="+", default=["500x375", "4000x3000"])
    parser.add_argument("--count", type=int, default=200)
    given = parser.parse_args()
    bundle = open_bundle(given.bundle)
    preprocessors = {name: Preprocessor(bundle.manifest.view, decode=name) for name in get_args(Decoding)}
    session = Session(bundle.encoder)
    line: dict[str, Any] = {"benchmark": "decoding", **provenance(), "model": bundle.manifest.name, "sizes": {}}
    head = ("JPEGs of", "`--decode`", "us an image", "cosine to exact, median", "least", "same neighbours")
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for size in given.sizes:
        width, height = map(int, size.split("x"))
        files = make_photos(given.photos, width=width, height=height, count=given.count)
        line["sizes"][size] = measured(preprocessors, session, files)
        for name, row in line["sizes"][size].items():
            print(f"| {size} | {name} | {' | '.join(map(str, row.values()))} |")
    print(json.dumps(line))


if __name__ == "__main__":
    main()
