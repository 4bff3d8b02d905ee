"""Whether named columns come out the same from another seed: computes a shipped model's three times, and compares.

    python benchmarks/stability.py MODEL PHOTOS JUDGED [--data NAME --out BUNDLE]

PHOTOS are those that the head was fitted on (export/nonneg_export/shipped_models/MODEL.log.md), JUDGED others. A seed
draws one crop of every photo, from which mean, directions, and the choice of 800 classes are computed; of the model
that comes with nonneg only the backbone is used, and its columns are the fourth in the comparison. Compared are, over
JUDGED, the columns of one name, and as floor those of two names. Prints a table, then one JSON line; with --out also
writes the model as a bundle whose manifest records the mean over the seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from nonneg_core.arrays import Rows

sys.path.insert(0, str(Path(__file__).parent / "serving"))

from provenance import provenance

from nonneg_core.pixels.decode import decode
from nonneg_export.calibrate.photo_folder import find_photos
from nonneg_export.certify.certified_encoders import Certified, open_certified
from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle, write_bundle
from nonneg_runtime.bundle.evidence import StabilityRecord
from nonneg_runtime.heads.analytic_head import EXPONENT, Basis, components
from nonneg_runtime.heads.head import Head, choose_names, class_directions, taken
from nonneg_runtime.heads.moments import spread
from nonneg_runtime.seeing.preprocess import Preprocessor
from nonneg_runtime.words.names import read_names
from nonneg_training.encoder.named_backbones import open_backbone
from nonneg_vectors.evaluation.uncertainty import interval
from research.models.rebuild import PLANS

SEEDS = (1, 2, 3)
NAMES, COMPONENTS = 800, 1024  # of the recipes
SMALLEST = 0.25  # share of a photo that a crop holds
STRONGEST = 10


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns along classes, and which classes."""

    head: Head
    classes: NDArray[np.int64]


def main() -> None:
    """Compute, compare every two, print; record where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("photos", type=Path)
    parser.add_argument("judged", type=Path)
    parser.add_argument("--data", help="what the judged photos are, for the manifest; by default the folder's name")
    parser.add_argument("--out", type=Path, help="write the bundle with the record here")
    given = parser.parse_args()
    model, photos, judged = given.model, given.photos, given.judged
    with encoder(model) as see:
        rows = see(judged, None)
        made = {"shipped": shipped(model), **{str(seed): columns(model, see(photos, seed)) for seed in SEEDS}}
    found = {f"{a}, {b}": compared(made[a], made[b], rows) for a, b in combinations(made, 2)}
    names = list(next(iter(found.values())))
    print("| compared | " + " | ".join(names) + " |")
    print("|" + " --- |" * (len(names) + 1))
    for pair, row in found.items():
        print(f"| {pair} | " + " | ".join(f"{row[name]:.3f}" for name in names) + " |")
    seeds = [row for pair, row in found.items() if "shipped" not in pair]
    mean = {name: float(np.mean([row[name] for row in seeds])) for name in names}
    print(json.dumps({"model": model, "judged": len(rows), "mean of the seeds": mean, **provenance()}))
    if given.out is not None:
        write_recorded(open_bundle(model), mean, given.data or judged.name, given.out)


def write_recorded(bundle: Bundle, mean: dict[str, float], data: str, out: Path) -> None:
    """Write the bundle again, with how stable its names are in its manifest."""
    record = StabilityRecord(
        seeds=len(SEEDS),
        data=data,
        shared=round(mean["names shared"], 4),
        correlation=round(mean["correlation of one name"], 4),
        floor=round(mean["of two names"], 5),
        strongest=round(mean["strongest photos shared"], 4),
    )
    names = bundle.manifest.names
    assert names is not None
    manifest = bundle.manifest.model_copy(update={"names": names.model_copy(update={"stability": record})})
    write_bundle(out, manifest, {name: bundle.path / name for name in bundle.manifest.files})


@contextmanager
def encoder(model: str) -> Iterator[See]:
    """Yield what a model's head is put on, for every photo of a folder or for a crop of it."""
    with tempfile.TemporaryDirectory() as work:
        yield See(open_certified(model), Path(work))


class See:
    """Photos of a folder to roots of the backbone's features."""

    def __init__(self, bundle: Bundle, work: Path) -> None:
        """Open an encoder; `work` is a folder that lasts as long as this."""
        self._view = bundle.manifest.view
        self._certified, self._viewer = Certified(bundle, work, 1), Preprocessor(self._view)

    def __call__(self, folder: Path, seed: int | None) -> Rows:
        """Return the features of every photo as it is, or of one crop of each, drawn by the seed."""
        rng = None if seed is None else np.random.default_rng(seed)
        return np.concatenate([self._row(path, rng) for path in find_photos(folder).paths])

    def _row(self, path: Path, rng: np.random.Generator | None) -> Rows:
        if rng is None:
            return self._certified.rows(self._viewer.pixels(path.read_bytes())[None])
        image = decode(path.read_bytes(), background=self._view.background, at_least=2 * self._view.size)
        return self._certified.rows(self._viewer.pixels(cropped(image, rng))[None])


def cropped(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Return a square somewhere in a picture, every second one mirrored."""
    side = min(*image.size, round((rng.uniform(SMALLEST, 1) * image.width * image.height) ** 0.5))
    left, top = (int(rng.integers(0, room - side + 1)) for room in image.size)
    part = image.crop((left, top, left + side, top + side))
    return ImageOps.mirror(part) if rng.integers(2) else part


def columns(model: str, rows: Rows) -> Columns:
    """Return the named columns of these rows, as the recipe computes them."""
    of, classifier = spread(rows), open_backbone(PLANS[model].backbone, small=False, pretrained="DEFAULT").classifier
    assert classifier is not None
    matrix = components(of, COMPONENTS, EXPONENT).astype(np.float32)
    mean = of.mean.astype(np.float32)
    p = (rows - mean) @ matrix
    basis = Basis(mean, matrix, float(np.sqrt(np.square(p, dtype=np.float64).mean())))
    named = choose_names(class_directions(basis, classifier, np.square(rows).mean(axis=0)), NAMES)
    return Columns(named.columns(basis), named.classes)


def shipped(model: str) -> Columns:
    """Return those that come with nonneg."""
    bundle = open_bundle(model)
    with tempfile.TemporaryDirectory() as work:
        whole = Certified(bundle, Path(work), 1).head
    assert whole is not None
    assert bundle.manifest.names is not None
    names = read_names(bundle.path / bundle.manifest.names.file, bundle.manifest.dimensions).names
    places = {name.klass: name.dimension for name in names if name.klass is not None}
    classes = np.array(sorted(places))
    return Columns(taken(whole, np.array([places[klass] for klass in classes])), classes)


def compared(a: Columns, b: Columns, rows: Rows) -> dict[str, float]:
    """Compare two models by the names that both have: how alike their columns are."""
    shared = np.intersect1d(a.classes, b.classes)
    z = [side.head.embed(rows)[:, np.searchsorted(side.classes, shared)] for side in (a, b)]
    alike = correlations(*z)
    own = interval(np.diag(alike))
    return {
        "names shared": len(shared) / NAMES,
        "correlation of one name": own.mean,
        "low": own.low,
        "high": own.high,
        "of two names": float(np.roll(alike, 1, axis=1).diagonal().mean()),
        "strongest photos shared": photos_shared(*z),
    }


def correlations(a: Rows, b: Rows) -> Rows:
    """Return the correlation of every column of a with every column of b; 0 where one is the same on all photos."""
    sides = [z - z.mean(axis=0) for z in (a, b)]
    lengths = [np.maximum(np.linalg.norm(z, axis=0), 1e-12) for z in sides]
    return np.asarray((sides[0] / lengths[0]).T @ (sides[1] / lengths[1]))


def photos_shared(a: Rows, b: Rows) -> float:
    """Return of the strongest photos of one name with one seed, the share that are among those with another."""
    tops = [np.argsort(-z, axis=0, kind="stable")[:STRONGEST] for z in (a, b)]
    return float(np.mean([len(set(x) & set(y)) / STRONGEST for x, y in zip(tops[0].T, tops[1].T, strict=True)]))


if __name__ == "__main__":
    main()
