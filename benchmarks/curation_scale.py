"""What curating many photos takes: `python benchmarks/curation_scale.py VECTORS [--photos 100000]`.

Vectors are made from real ones: a photo's with a tenth to four tenths of any other's, cut to as many entries as they
have on average; one in 50 is a near copy of another. Thumbnails are drawn by chance, those of near copies nearly the
same. All parts run as in `nonneg curate`, with the photos' measures in the index. Seconds are of all cores together,
memory is the peak.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from nonneg_core.pixels.pixel_checks import GRID, PixelChecks
from nonneg_core.terminal.tables import table
from nonneg_vectors.curation.collection import Collection
from nonneg_vectors.curation.comparing import NEIGHBOURS, compare
from nonneg_vectors.curation.curation_parts import PARTS, CurationOptions, curate
from nonneg_vectors.curation.neighbours import PairLimits
from nonneg_vectors.curation.photos import MeasuredPhoto, attributes, photos_of
from nonneg_vectors.storage.embeddings import Embeddings

AT_ONCE = 2000
ASKED = 200
COPIES = 50  # one in so many photos is a copy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vectors", type=Path, help="a file of vectors of a labelled folder")
    parser.add_argument("--photos", type=int, default=100_000)
    options = parser.parse_args()
    collection = made(Embeddings.load(options.vectors).shorten(), options.photos)
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        for name, parts in (("all parts", PARTS), ("copies again", ("exact", "copies"))):
            started, worked = time.perf_counter(), time.process_time()
            sections = curate(collection, CurationOptions(parts, shown=False))
            elapsed, seconds = time.perf_counter() - started, time.process_time() - worked
            rows.append(
                (name, seconds, elapsed, sum(section.images() for section in sections if section.part == "copies"))
            )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        found = nearest(collection)
    entries = float(collection.vectors.nnz.mean())
    print(f"{len(collection)} photos, {collection.vectors.dimensions} dimensions, {entries:.0f} entries each")
    print(table(["what", "seconds of all cores", "seconds passed", "photos in groups of copies"], rows))
    print(f"peak memory {peak:.2f} GiB; of {ASKED} photos {found:.2%} of the true ten nearest are found")
    print(json.dumps({"photos": len(collection), "entries": entries, "rows": rows, "peak_gib": peak, "recall": found}))


def nearest(collection: Collection) -> float:
    """Return of some photos the share of their true ten nearest that the comparison found."""
    asked = np.random.default_rng(1).choice(len(collection), min(ASKED, len(collection)), replace=False)
    photos = photos_of(collection, shown=False)
    _, places, _ = compare(collection, PairLimits(), photos.thumbnails(), shown=False)
    z = collection.vectors[asked].numpy()
    parts = [z @ collection.vectors[s : s + AT_ONCE].numpy().T for s in range(0, len(collection), AT_ONCE)]
    cosines = np.concatenate(parts, axis=1)
    cosines[np.arange(len(asked)), asked] = -1
    least = np.sort(cosines, axis=1)[:, -NEIGHBOURS]  # the tenth nearest: what is as near is right
    right = np.take_along_axis(cosines, places[asked], axis=1) >= least[:, None] - 1e-6
    return float(right.mean())


def made(real: Embeddings, photos: int) -> Collection:
    """Return a collection of mixtures."""
    rng = np.random.default_rng(0)
    labels = np.array([Path(name).parent.name for name in real.ids or ()])
    keep = round(float(real.nnz.mean()))
    parts, payloads, ids = [], [], []
    while len(ids) < photos:
        one = rng.integers(0, len(real), min(AT_ONCE, photos - len(ids)))
        other = rng.integers(0, len(real), len(one))
        weight = rng.uniform(0.6, 0.9, (len(one), 1)).astype(np.float32)
        z = weight * real[one].numpy() + (1 - weight) * real[other].numpy()
        thumbnails = rng.integers(0, 256, (len(one), GRID * GRID), dtype=np.uint8)
        copies = np.arange(COPIES, len(one), COPIES)
        z[copies] = z[copies - 1] + 0.1 * z[copies - 2]
        thumbnails[copies] = np.clip(
            thumbnails[copies - 1].astype(int) + rng.integers(-9, 10, thumbnails[copies].shape), 0, 255
        )
        mixed = Embeddings.from_dense(z, fingerprint=real.fingerprint).shorten(top_k=keep)
        parts.append(mixed)
        payloads += [
            described(bytes(t), labels[i], len(ids) + n) for n, (t, i) in enumerate(zip(thumbnails, one, strict=True))
        ]
        ids += [f"{labels[i]}/{len(ids) + n:06d}.jpg" for n, i in enumerate(one)]
    return Collection("made", Embeddings.concatenate(parts).named(ids), payloads)


def described(thumbnail: bytes, label: str, number: int) -> dict[str, object]:
    """Return what an index holds of a photo."""
    checks = PixelChecks(640, 480, 0.1, 0.9, 0.2, thumbnail)
    return {"folder": label, **attributes(MeasuredPhoto(50_000 + number, f"{number:032x}", checks))}


if __name__ == "__main__":
    main()
