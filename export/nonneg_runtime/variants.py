"""The same model in another precision: a bundle beside the one it was made from, proved to be so by its manifest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from nonneg_core.errors import BundleInvalid
from nonneg_runtime.bundle import DEFAULT, Bundle, open_bundle
from nonneg_runtime.manifest import FILE_NAME, read_manifest

Asked = Literal["fp32", "int8", "bf16"]  # what computes; weights stored as fp16 are computed with as fp32
COMPUTES: dict[str, Asked] = {"fp32": "fp32", "fp16": "fp32", "int8": "int8", "bf16": "bf16"}


def place_of(bundle: Path, precision: str) -> Path:
    """Where `nonneg quantize` puts a variant and the server looks for it: `my.bundle.int8` beside `my.bundle`."""
    if bundle.resolve() != DEFAULT.resolve():
        return bundle.with_name(f"{bundle.resolve().name}.{precision}")
    data = Path(os.environ.get("XDG_DATA_HOME") or Path("~/.local/share").expanduser())
    return data / "nonneg" / f"default_model.{precision}"  # what is installed is not written to


def open_variant(path: Path, precision: Asked | None) -> Bundle:
    """The bundle at `path` if it has this precision, or its variant that has; without a precision, as it is."""
    bundle = open_bundle(path)
    if precision is None or COMPUTES[bundle.manifest.precision] == precision:
        return bundle
    if precision == "fp32":
        raise _absent(path, precision, f"it is {bundle.manifest.precision}", "serve the bundle it was made from")
    place = place_of(path, precision)
    command = f"nonneg quantize {'' if path == DEFAULT else f'{path} '}--to {precision} --images PHOTOS"
    if not (place / FILE_NAME).is_file():
        raise _absent(path, precision, f"there is none at {place}", f"make it: {command}")
    found = read_manifest(place)
    if found.derived_from != bundle.manifest.fingerprint or found.precision != precision:
        raise _absent(path, precision, f"{place} was made from another model", f"make it anew: {command} --replace")
    return open_bundle(place)


def _absent(path: Path, precision: str, why: str, fix: str) -> BundleInvalid:
    return BundleInvalid(f"{path} has no {precision} variant: {why}", fix=fix, field="precision", value=precision)
