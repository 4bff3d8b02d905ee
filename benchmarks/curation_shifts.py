"""Whether `nonneg diff` finds planted shifts:
`python benchmarks/curation_shifts.py FOLDER|VECTORS [--photos 1000] [--keep 205]`.

Two samples of a labelled folder are compared from which some labels are left out; then a share of one of them is
replaced by photos of one of these. Found: the dimension that tells the label best (of its other photos against all
others, by effect size) is named. False: of the dimensions named, the share that differs the other way between the
label's other photos and the rest, or hardly at all. Under `0 %` nothing is planted: there the share of comparisons that
name anything at all is what the bound of 5 % is about.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from nonneg_client.local import Encoder
from nonneg_core.files.image_files import find_images
from nonneg_core.terminal.tables import table
from nonneg_vectors.curation.differences import differences
from nonneg_vectors.storage.embeddings import Embeddings

SHARES = (0.0, 0.05, 0.1, 0.2)
HARDLY = 0.02  # standard deviations between a label's photos and the others that count as no difference


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="a labelled folder, or a file of its vectors")
    parser.add_argument("--photos", type=int, default=1000, help="of each sample")
    parser.add_argument("--planted", type=int, default=20, help="labels that are planted, one after the other")
    parser.add_argument("--keep", type=int, help="how many values are stored of each vector")
    options = parser.parse_args()
    vectors = read(options.source).shorten(top_k=options.keep)
    labels = np.array([Path(name).parent.name for name in vectors.ids or ()])
    rng = np.random.default_rng(0)
    planted = rng.permutation(np.unique(labels))[: options.planted]
    rest = np.flatnonzero(~np.isin(labels, planted))
    rows = [(f"{share:.0%}", *measure(vectors, labels, planted, rest, share, options.photos, rng)) for share in SHARES]
    print(
        table(
            ["planted", "photos a side", "found", "dimensions named", "false among them", "comparisons naming any"],
            rows,
        )
    )
    both = rng.integers(0, len(vectors), (2, 5000))
    samples = vectors[both[0]], vectors[both[1]]
    started = time.process_time()
    differences(*samples)
    seconds = time.process_time() - started
    print(f"10,000 photos of {vectors.dimensions} dimensions: {seconds:.2f} s of one core")
    record = {
        "source": options.source.name,
        "fingerprint": vectors.fingerprint,
        "photos": options.photos,
        "keep": options.keep,
    }
    print(json.dumps({**record, "rows": rows, "seconds": seconds}))


def read(source: Path) -> Embeddings:
    """Return the vectors of a folder."""
    if source.is_file():
        return Embeddings.load(source).shorten()
    with Encoder() as encoder:
        return encoder.embed(find_images(source), progress=False)


def measure(
    vectors: Embeddings,
    labels: np.ndarray,
    planted: np.ndarray,
    rest: np.ndarray,
    share: float,
    photos: int,
    rng: np.random.Generator,
) -> tuple[int, float | None, float, float | None, float]:
    """Return photos a side, how often the label's dimension is named, how many are, the false share, how often any."""
    found, named, false, any_named, sizes = [], [], [], [], []
    for label in planted:
        order = rng.permutation(rest)
        own = rng.permutation(np.flatnonzero(labels == label))
        size = min(photos, len(order) // 2, int(len(own) / 2 / share) if share else photos)
        taken = round(share * size)
        a, b = vectors[order[:size]], vectors[np.concatenate([order[size : 2 * size - taken], own[:taken]])]
        chosen = differences(a, b).named()
        sizes.append(size)
        named.append(len(chosen))
        any_named.append(len(chosen) > 0)
        truth = differences(vectors[rest], vectors[own[taken:]]).effect
        if share:
            found.append(int(np.argmax(truth)) in chosen)
            direction = np.sign(differences(a, b).effect[chosen])
            false.append(float((truth[chosen] * direction < HARDLY).mean()) if len(chosen) else 0.0)
    shown = (float(np.mean(found)), float(np.mean(false))) if share else (None, None)
    return round(np.mean(sizes)), shown[0], float(np.mean(named)), shown[1], float(np.mean(any_named))


if __name__ == "__main__":
    main()
