"""How many dimensions of the shipped models have a name, on what evidence, and how good it is.

    python benchmarks/names.py [MODEL_OR_FOLDER]...

A precision is the share of the name among a dimension's strongest photos, at most ten; a rank is the place of the one
photo of a class on its column, computed without it. Prints a table, then one JSON line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "serving"))

from provenance import provenance

from nonneg_runtime.bundle import open_bundle, shipped_names
from nonneg_runtime.words.names import read_names

CLEAR = 0.6


def figures(model: str) -> dict[str, float]:
    """Return what is known of one model's names."""
    bundle = open_bundle(model)
    assert bundle.manifest.names is not None
    file = bundle.path / bundle.manifest.names.file
    names = read_names(file, bundle.manifest.dimensions).names
    along = [name for name in names if name.source == "direction"]
    checked = [name.precision for name in along if name.precision is not None]
    ranked = [name.rank for name in along if name.precision is None and name.rank is not None]
    observed = [name.precision or 0.0 for name in names if name.source == "photos"]
    return {
        "named": len(names),
        "along a class": len(along),
        "checked": len(checked),
        f"of these precision >= {CLEAR}": sum(value >= CLEAR for value in checked) / len(checked),
        "with a rank alone": len(ranked),
        "of these first": sum(rank == 1 for rank in ranked) / len(ranked),
        "by their photos": len(observed),
        "their mean precision": sum(observed) / max(1, len(observed)),
        "of the first 512": sum(name.dimension < 512 for name in names),
        "with a common name": sum(bool(name.common) for name in names),
        "bytes of names": file.stat().st_size,
    }


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
