"""A Hugging Face preprocessor_config.json as our view and scaling."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.pixels.resizing import Interpolation
from nonneg_core.pixels.view import View
from nonneg_training.onnx_backbone.scaling_and_pooling import Scaling

RESAMPLE: dict[int, Interpolation] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}  # Pillow's numbers
MAX_BYTES = 2**20
UNCROPPED = 384  # ConvNeXt squashes pictures for inputs of this side or more


def read_preprocessor(path: Path) -> tuple[View, Scaling]:
    """Return the evaluation view and the scaling that the file describes."""
    record = _read(path)
    inner = record.get("image_processor")  # where text and image processors share a file
    record = inner if isinstance(inner, dict) else record
    return _view(record, path), _scaling(record)


def _view(record: dict[str, Any], path: Path) -> View:
    resized = _sides(record.get("size")) if record.get("do_resize", True) else None
    cropped = _sides(record.get("crop_size")) if record.get("do_center_crop", "crop_size" in record) else None
    interpolation = RESAMPLE.get(record.get("resample", 3))
    if resized is None or interpolation is None:
        raise _unknown(path, "resize rule")
    if cropped is not None:
        size, short = _square(cropped, path), min(resized)
        if size > short:
            raise _unknown(path, f"crop of {size} from {short} pixels")
        return View(size=size, crop=size / short, fit="cover", interpolation=interpolation)
    share = record.get("crop_pct")  # timm's and ConvNeXt's way to say the same
    if share and (len(resized) == 2 or resized[0] < UNCROPPED):
        return View(size=_square(resized, path), crop=float(share), fit="cover", interpolation=interpolation)
    if len(resized) == 2 or share:
        size = _square(resized, path)
        return View(size=size, fit="squash", interpolation=interpolation)
    raise _unknown(path, "rule that leaves pictures of different shapes (shortest_edge without a crop)")


def _scaling(record: dict[str, Any]) -> Scaling:
    factor = float(record.get("rescale_factor", 1 / 255)) if record.get("do_rescale", True) else 1.0
    if not record.get("do_normalize", True):
        return Scaling(factor, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    default = Scaling()
    return Scaling(factor, tuple(record.get("image_mean", default.mean)), tuple(record.get("image_std", default.std)))


def _sides(size: Any) -> tuple[int, ...] | None:
    """Read one number as the short side, two as height and width."""
    if isinstance(size, int):
        return (size,)
    if isinstance(size, dict) and "shortest_edge" in size:
        return (int(size["shortest_edge"]),)
    if isinstance(size, dict) and {"height", "width"} <= size.keys():
        return int(size["height"]), int(size["width"])
    return None


def _square(sides: tuple[int, ...], path: Path) -> int:
    if len(set(sides)) != 1:
        raise _unknown(path, f"picture of {' x '.join(map(str, sides))} (only squares)")
    return sides[0]


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DataInvalid(f"{path} is larger than {MAX_BYTES} bytes", fix="point to a preprocessor_config.json")
        record = json.loads(path.read_bytes())
    except OSError as error:
        raise DataInvalid(f"{path} cannot be read ({error.strerror})", fix="check the path", value=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise DataInvalid(f"{path} is not JSON ({error})", fix="point to a preprocessor_config.json") from error
    if not isinstance(record, dict):
        raise DataInvalid(f"{path} holds no JSON object", fix="point to a preprocessor_config.json")
    return record


def _unknown(path: Path, what: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"{path} describes a {what} that this reader does not know",
        fix="say it with --size, --crop, --fit, --interpolation, --mean and --std",
        field="preprocessor",
    )
