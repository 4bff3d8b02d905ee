"""How much the photos beside a class's own decide about the precision of names along a class.

    python benchmarks/names_pools.py MODEL PHOTOS

PHOTOS are those that check names: folders by ImageNet's wnids, and of known data sets (docs/names.md). Compared are
the precisions among all photos, which a model's names have, those without photos of categories that are none of the
classes, and those of each folder of PHOTOS by itself, beside what all photos say of the same classes. Prints a table,
the names below the aim with what their strongest photos are, then one JSON line.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent / "serving"))

from provenance import provenance

from nonneg_export.calibrate.activations import collect
from nonneg_export.calibrate.photo_folder import Photos, find_photos
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_runtime.words.names import Name, read_names
from research.models.naming import STRONGEST, Precisions, precisions
from research.models.shown_classes import NONE, ShownClasses, shown_classes

CLEAR = 0.6


@dataclass(frozen=True, eq=False)
class Checked:
    """Photos, what they show, and the strength of every named column on them."""

    paths: list[Path]  # within the folder
    shown: ShownClasses
    names: list[Name]
    codes: NDArray[np.float32]  # (photos, names)

    def among(self, photos: NDArray[np.bool_]) -> Precisions:
        """Return the precisions among some of the photos."""
        classes = np.array([name.klass for name in self.names])
        return precisions(self.codes[photos], self.shown.of[photos], classes, self.shown.unclear[photos])


def main() -> None:
    """Embed the photos, measure in every pool, print."""
    model, folder = sys.argv[1], find_photos(sys.argv[2])
    checked = embedded(model, folder)
    whole = checked.among(np.ones(len(checked.paths), dtype=np.bool_))
    rows = list(pools(checked, whole))
    print("| among | photos | names | precision >= 0.6 | mean | among all photos >= 0.6 | mean |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row) + " |")
    for name, column in zip(checked.names, checked.codes.T, strict=True):
        if name.klass in whole and whole[name.klass][0] < CLEAR:
            print(f"{name.name}: {whole[name.klass][0]}, {strongest(checked, name.klass, column)}")
    print(json.dumps({"model": model, "pools": rows, **provenance()}))


def embedded(model: str, photos: Photos) -> Checked:
    """Return the named columns of a model on those photos of which it is known what they show."""
    bundle = open_bundle(model)
    assert bundle.manifest.names is not None
    names = read_names(bundle.path / bundle.manifest.names.file, bundle.manifest.dimensions).names
    along = [name for name in names if name.klass is not None]
    known = tuple(photos.paths[i] for i in shown_classes(photos.paths).kept)
    with tempfile.TemporaryDirectory() as work:
        seen = collect(bundle.encoder, Photos(photos.folder, known), bundle.manifest.view, Path(work))
        codes = np.array(seen.values[:, [name.dimension for name in along]])
    return Checked([path.relative_to(photos.folder) for path in seen.paths], shown_classes(seen.paths), along, codes)


def pools(checked: Checked, whole: Precisions) -> Iterator[list[str | int | float]]:
    """Yield a row for each choice of photos."""
    folders = np.array([path.parts[0] for path in checked.paths])
    chosen = {"all": folders != "", "those that show one of the classes": checked.shown.of != NONE}
    chosen |= {folder: folders == folder for folder in sorted(set(folders.tolist()))}
    for called, photos in chosen.items():
        found = checked.among(photos)
        here, there = (np.array([pool[klass][0] for klass in found]) for pool in (found, whole))
        shares = (float(value) for side in (here, there) for value in ((side >= CLEAR).mean(), side.mean()))
        yield [called, int(photos.sum()), len(found), *shares]


def strongest(checked: Checked, klass: int | None, column: NDArray[np.float32]) -> str:
    """Return the folders of a column's strongest photos, of those that count for its class."""
    counts = np.where(checked.shown.unclear[:, klass] & (checked.shown.of != klass), 0, column)
    of = Counter(str(checked.paths[i].parent) for i in np.argsort(-counts, kind="stable")[:STRONGEST])
    return ", ".join(f"{count} {folder}" for folder, count in of.most_common())


if __name__ == "__main__":
    main()
