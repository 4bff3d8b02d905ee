"""The same model in another precision: in its bundle, or a bundle beside it that was made from it."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Literal

from nonneg_core.errors import BundleInvalid, CheckFailed
from nonneg_runtime.bundle.bundle_folder import SHIPPED, Bundle, located, open_bundle
from nonneg_runtime.bundle.manifest import FILE_NAME, Variant, read_manifest
from nonneg_runtime.inference.runner import check_golden

Computed = Literal["fp32", "int8", "bf16"]  # what computes; weights stored as fp16 are computed with as fp32
PrecisionChoice = Literal["auto", "fp32", "int8", "bf16"]
COMPUTES: dict[str, Computed] = {"fp32": "fp32", "fp16": "fp32", "int8": "int8", "bf16": "bf16"}


def place_of(bundle: Path, precision: str) -> Path:
    """Name the folder of a variant for `nonneg quantize` and the server: `my.bundle.int8` beside `my.bundle`."""
    name = f"{bundle.resolve().name}.{precision}"
    if bundle.resolve().parent != SHIPPED.resolve():
        return bundle.with_name(name)
    data = Path(os.environ.get("XDG_DATA_HOME") or Path("~/.local/share").expanduser())
    return data / "nonneg" / name  # what is installed is not written to


def open_variant(path: str | os.PathLike[str] | None, precision: PrecisionChoice | None) -> Bundle:
    """Open the bundle at `path` in this precision; None: as it is; auto: its fastest form that is right here."""
    folder = located(path)
    bundle = open_bundle(folder)
    if precision is None or COMPUTES[bundle.manifest.precision] == precision:
        return bundle
    if precision == "auto":
        forms = (as_variant(bundle, variant) for variant in bundle.manifest.variants)
        return next(filter(passes, forms), bundle)
    for variant in bundle.manifest.variants:
        if variant.precision == precision:
            return as_variant(bundle, variant)
    return _beside(folder, bundle, precision)


def as_variant(bundle: Bundle, variant: Variant) -> Bundle:
    """Make the bundle compute with this variant; its vectors lie in the same space, so the fingerprint stays."""
    manifest = bundle.manifest.model_copy(update={"precision": variant.precision, "golden": variant.golden})
    return replace(bundle, manifest=manifest, file=variant.file)


def passes(form: Bundle) -> bool:
    """Return whether this processor computes what the exporter's did."""
    from nonneg_runtime.inference.encoder import open_session  # only here: looking at a bundle needs no runtime

    try:
        check_golden(open_session(form.encoder, precision=form.manifest.precision), form.manifest)
    except CheckFailed:
        return False
    return True


def _beside(path: Path, bundle: Bundle, precision: str) -> Bundle:
    if precision == "fp32":
        raise _absent(path, precision, f"it is {bundle.manifest.precision}", "serve the bundle it was made from")
    place = place_of(path, precision)
    command = f"nonneg quantize {path.name if path.parent == SHIPPED else path} --to {precision} --images PHOTOS"
    if not (place / FILE_NAME).is_file():
        raise _absent(path, precision, f"there is none at {place}", f"make it: {command}")
    sibling = read_manifest(place)
    if sibling.derived_from != bundle.manifest.fingerprint or sibling.precision != precision:
        raise _absent(path, precision, f"{place} was made from another model", f"make it again: {command} --replace")
    return open_bundle(place)


def _absent(path: Path, precision: str, why: str, fix: str) -> BundleInvalid:
    return BundleInvalid(f"{path} has no {precision} variant: {why}", fix=fix, field="precision", value=precision)
