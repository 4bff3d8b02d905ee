"""Features of labelled photos, small enough to be kept: what the head of `photo` and its judge are asked about.

    python tests/export/features_of_photos.py LABELLED

writes features_of_photos.npz beside this file: of the first photos of every class (Caltech-101, from which it was
made, is CC BY 4.0) roots of the backbone's features, those of pictures made of them, and the judge's vectors, in
LEVELS steps. Not a pixel of a photo is kept.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from nonneg_core.shortening import unit
from nonneg_export.calibrate.photo_folder import Photos, find_photos
from nonneg_export.certify.certification import HeadInputs
from nonneg_export.certify.certified_encoders import Certified, open_judge, read_photos, read_pictures
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_vectors.evaluation.certificate_splits import pasted_pairs, split_for_certificate
from nonneg_vectors.evaluation.meaning import ClassesAndJudge

FILE = Path(__file__).with_suffix(".npz")
OF_EACH, PAIRS, LEVELS = 8, 202, 24  # of a quarter of the classes intervals are too wide to tell floors apart


def main() -> None:
    """Look at the photos and keep what was seen."""
    folder, bundle = Path(sys.argv[1]), open_bundle("photo")
    classes = sorted(place for place in folder.iterdir() if place.is_dir())
    photos = Photos(folder, tuple(path for place in classes for path in find_photos(place).paths[:OF_EACH]))
    view, of = bundle.manifest.view, np.repeat(np.arange(len(classes)), OF_EACH)
    with tempfile.TemporaryDirectory() as work:
        certified = Certified(bundle, Path(work), 2)
        read = read_photos(certified, view, open_judge(None, bundle), photos, None)
        shown = read_pictures(certified, view, read.paths, pasted_pairs(split_for_certificate(of), PAIRS), None)
    kept = {"rows": read.rows, "judged": unit(read.judged), **shown}
    steps = {name: np.round(values / values.max() * LEVELS).astype(np.uint8) for name, values in kept.items()}
    scales = {f"{name}.scale": np.float32(values.max() / LEVELS) for name, values in kept.items()}
    np.savez_compressed(FILE, classes=of.astype(np.uint8), **steps, **scales)  # type: ignore[arg-type]


def looked() -> HeadInputs:
    """What was seen, as a certificate takes it."""
    with np.load(FILE) as kept:
        of = kept["classes"].astype(np.int64)
        seen = {
            name: kept[name] * kept[f"{name}.scale"] for name in ("rows", "judged", "pasted", "cropped", "recoloured")
        }
    rows, judged = seen.pop("rows"), seen.pop("judged")
    by = split_for_certificate(of)
    return HeadInputs(rows, seen, ClassesAndJudge(of, judged, by, pasted_pairs(by, PAIRS)))


if __name__ == "__main__":
    main()
