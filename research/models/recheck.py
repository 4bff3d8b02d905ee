"""Measure again, on other photos, how precise the names along a class are; nothing else of the model changes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from nonneg_core.arrays import Floats
from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_export.calibrate.activations import collect
from nonneg_export.calibrate.photo_folder import Photos
from nonneg_export.calibrate.photo_records import Tick
from nonneg_runtime.bundle.bundle_folder import Bundle, write_bundle
from nonneg_runtime.words.names import Name, Names, read_names
from research.models.caption_names import CAPTIONED
from research.models.naming import Precisions, precisions
from research.models.shown_classes import ShownClasses, shown_classes


def recheck(
    bundle: Bundle, photos: Photos, out: Path, *, data: str, replace: bool = False, tick: Tick | None = None
) -> Bundle:
    """Return a model with the precisions of its names measured on these photos, written to `out`.

    Ranks and names from captions stay, and so do vectors and fingerprint.
    """
    manifest = bundle.manifest
    if manifest.names is None:
        raise ConfigInvalid(f"{manifest.name} has no names to check", fix="export it with names", field="names")
    names = read_names(bundle.path / manifest.names.file, manifest.dimensions)
    shown = shown_classes(photos.paths)
    known = Photos(photos.folder, tuple(photos.paths[i] for i in shown.kept))
    if not known:
        raise DataInvalid(
            f"no photo in {photos.folder} is known to show a class of ImageNet",
            fix="name folders by wnid (n02088364/), or give a known data set's under its name (pets/, caltech101/)",
            value=str(photos.folder),
        )
    with tempfile.TemporaryDirectory(prefix="nonneg-") as work:
        activations = collect(bundle.encoder, known, manifest.view, Path(work, "seen"), tick=tick)
        checked = rechecked(names, np.array(activations.values), shown_classes(activations.paths), data)
        file = Path(work, manifest.names.file)
        checked.write(file)
        files = {name: bundle.path / name for name in manifest.files} | {manifest.names.file: file}
        count = sum(name.precision is not None for name in checked.names)
        record = manifest.names.model_copy(update={"checked": count, "data": checked.precision_on})
        return write_bundle(out, manifest.model_copy(update={"names": record}), files, replace=replace)


def rechecked(names: Names, codes: Floats, shown: ShownClasses, data: str) -> Names:
    """Return the names with new precisions along classes: codes[i] are those of the i-th photo that counts."""
    along = [name for name in names.names if name.klass is not None]
    classes = np.array([name.klass for name in along], dtype=np.int64)
    by_class = precisions(codes[:, [name.dimension for name in along]], shown.of, classes, shown.unclear)
    if len(along) < len(names.names):
        data += CAPTIONED + names.precision_on.rpartition(CAPTIONED)[2]
    return names.model_copy(
        update={"precision_on": data, "names": tuple(_checked(name, by_class) for name in names.names)}
    )


def _checked(name: Name, by_class: Precisions) -> Name:
    if name.klass is None:
        return name
    precision, photos = by_class.get(name.klass, (None, 0))
    return name.model_copy(update={"precision": None if precision is None else round(precision, 3), "photos": photos})
