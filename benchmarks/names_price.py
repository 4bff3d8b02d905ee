"""What the named columns of a shipped model cost: the same head with and without them, set by set.

    python benchmarks/names_price.py MODEL PHOTOS LABELLED...

PHOTOS are those that the head was fitted on (export/nonneg_export/shipped_models/MODEL.log.md). From the features of
four crops of each both heads are computed: the strongest columns as far as they go, and with the named columns in place
of the last ones; in front are the trained columns of the shipped model. A labelled folder holds
a folder of photos a class; each photo asks for the others of its class. P@1 and mAP@100 at full length and their
differences with 95 % intervals over the queries. Prints a table, then one JSON line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Rows

sys.path.insert(0, str(Path(__file__).parent / "serving"))

from provenance import provenance
from stability import NAMES, encoder

from nonneg_export.calibrate.photo_folder import find_photos
from nonneg_export.certify.certified_encoders import head_apart
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_runtime.heads.analytic_head import fit_basis
from nonneg_runtime.heads.feature_head import last
from nonneg_runtime.heads.head import Head, analytic, choose_names, class_directions, first, joined, with_names
from nonneg_runtime.heads.moments import spread
from nonneg_training.encoder.named_backbones import open_backbone
from nonneg_vectors.evaluation.ranking import retrieval
from nonneg_vectors.evaluation.uncertainty import paired
from research.models.rebuild import PLANS

TRAINED = 192  # of the recipes
CROPS = 4  # of each photo, as the recipes draw them


def main() -> None:
    """Compute both heads, ask every set of both, print."""
    model, photos, folders = sys.argv[1], Path(sys.argv[2]), [Path(text) for text in sys.argv[3:]]
    with encoder(model) as see:
        pair = heads(model, np.concatenate([see(photos, seed) for seed in range(CROPS)]))
        found = {folder.name: priced(pair, see(folder, None), folder) for folder in folders}
    print("| set | P@1 without | with names | difference | mAP@100 without | with names | difference |")
    print("|" + " --- |" * 7)
    for name, row in found.items():
        cells = [f"{a:.3f} | {b:.3f} | {d:+.3f} [{low:+.3f} {high:+.3f}]" for a, b, d, low, high in row["metrics"]]
        print(f"| {name} | {' | '.join(cells)} |")
    print(json.dumps({"model": model, "sets": found, **provenance()}))


def heads(model: str, rows: Rows) -> tuple[Head, Head]:
    """Return the head without and with names, the same trained columns in front."""
    basis = fit_basis(rows, spread(rows))
    shipped = head_apart(open_bundle(model))
    classifier = open_backbone(PLANS[model].backbone, small=False, pretrained="DEFAULT").classifier
    assert shipped is not None
    assert classifier is not None
    plain = analytic(basis, rows, shipped.dimensions)
    named = choose_names(class_directions(basis, classifier, np.square(rows).mean(axis=0)), NAMES)
    front = first(shipped, TRAINED)
    with_them, _ = with_names(front, basis, named.columns(basis), rows, shipped.dimensions)
    return joined(front, last(plain, plain.dimensions - TRAINED)), with_them


def priced(pair: tuple[Head, Head], rows: Rows, folder: Path) -> dict[str, Any]:
    """Return both heads on one set."""
    photos = find_photos(folder)
    labels = np.array(photos.labels(photos.paths))
    codes = [head.embed(rows) for head in pair]
    return {
        "metrics": [compared(codes[0], codes[1], labels, metric) for metric in ("P@1", "mAP@100")],
        "images": len(rows),
    }


def compared(a: Rows, b: Rows, labels: NDArray[Any], metric: str) -> tuple[float, float, float, float, float]:
    """Return one metric of both, and the difference."""
    scores = [retrieval(z, labels).scores()[metric] for z in (a, b)]
    found = paired(scores[0], scores[1])
    return float(scores[0].mean()), float(scores[1].mean()), found.mean, found.low, found.high


if __name__ == "__main__":
    main()
