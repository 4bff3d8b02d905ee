"""How many dimensions of the shipped models have a name, on what evidence, and how good it is.

    python benchmarks/names.py [MODEL_OR_FOLDER]...

A precision is the share of the name among a dimension's strongest photos, at most ten; a rank is the place of the one
photo of a class on its column, computed without it. Of a class that has photos in two data sets, both count together,
and the class stands in the rows of both. Prints a table, then one JSON line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "serving"))

from provenance import provenance

from nonneg_runtime.bundle.bundle_folder import open_bundle, shipped_names
from nonneg_runtime.words.names import Name, read_names
from research.models.shown_classes import imagenet_classes, read_table

CLEAR = 0.6


def figures(model: str) -> dict[str, float]:
    """Return what is known of one model's names."""
    bundle = open_bundle(model)
    assert bundle.manifest.names is not None
    file = bundle.path / bundle.manifest.names.file
    names = read_names(file, bundle.manifest.dimensions).names
    along = [name for name in names if name.source == "direction"]
    checked = [name.precision for name in along if name.precision is not None]
    by_set = {data: precise(along, classes) for data, classes in classes_of_sets().items()}
    ranked = [name.rank for name in along if name.precision is None and name.rank is not None]
    observed = [name.precision or 0.0 for name in names if name.source == "captions"]
    return {
        "named": len(names),
        "along a class": len(along),
        "checked": len(checked),
        f"of these precision >= {CLEAR}": clear(checked),
        **{row: value for data, found in by_set.items() for row, value in rows_of(data, found).items()},
        "with a rank alone": len(ranked),
        "of these first": sum(rank == 1 for rank in ranked) / len(ranked),
        "by captions": len(observed),
        "their mean precision": sum(observed) / max(1, len(observed)),
        "of the first 512": sum(name.dimension < 512 for name in names),
        "with a common name": sum(bool(name.common) for name in names),
        "bytes of names": file.stat().st_size,
    }


def classes_of_sets() -> dict[str, set[int]]:
    """Return the classes that each data set's categories are, and those of neither: ImageNet's photos alone."""
    number = imagenet_classes()
    found = {
        data: {number[wnid] for wnid, _ in categories.values() if wnid is not None}
        for data, categories in read_table().items()
    }
    return {**found, "ImageNet's photos alone": set(number.values()) - set().union(*found.values())}


def precise(names: list[Name], classes: set[int]) -> list[float]:
    """Return the precisions of the names of these classes that have one."""
    return [name.precision for name in names if name.klass in classes and name.precision is not None]


def rows_of(data: str, precisions: list[float]) -> dict[str, float]:
    """Return the rows of one data set."""
    return {f"checked with {data}": len(precisions), f"of those with {data} >= {CLEAR}": clear(precisions)}


def clear(precisions: list[float]) -> float:
    """Return the share that is high enough."""
    return sum(value >= CLEAR for value in precisions) / max(1, len(precisions))


def main() -> None:
    """Print the figures of every model that is named, or of those that are shipped."""
    found = {model: figures(model) for model in sys.argv[1:] or shipped_names()}
    print("| " + " | ".join(["", *found]) + " |")
    print("|" + " --- |" * (len(found) + 1))
    for row in next(iter(found.values())):
        cells = [value[row] for value in found.values()]
        print("| " + " | ".join([row, *(f"{c:.3f}" if isinstance(c, float) else f"{c:,}" for c in cells)]) + " |")
    print(json.dumps({"figures": found, **provenance()}))


if __name__ == "__main__":
    main()
