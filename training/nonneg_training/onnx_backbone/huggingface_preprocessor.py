"""A Hugging Face preprocessor_config.json as our view and scaling."""

import json
from pathlib import Path
from typing import Any

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.pixels.view import Interpolation, View
from nonneg_training.onnx_backbone.scaling_and_pooling import Scaling

RESAMPLE: dict[int, Interpolation] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}  # Pillow's numbers
MAX_BYTES = 2**20
UNCROPPED = 384  # ConvNeXt squashes pictures for inputs of this side or more
LEVIT, LEVITS_SHARE = "Levit", 256 / 224  # it resizes to more than it states
# Processors to which one number is the short side; to all others it is height and width.
SHORT_SIDE = ("CLIP", "ChineseCLIP", "ConvNext", "Bit", LEVIT, "PoolFormer", "MobileNet", "Siglip")
# What the library takes where a file does not say it, by the beginning of the processor's name.
UNSAID: dict[str, dict[str, bool]] = {
    "EfficientNet": {"include_top": True, "do_center_crop": False},
    "MobileViT": {"do_flip_channel_order": True},
}
BEYOND_A_VIEW = ("do_flip_channel_order", "do_pad", "size_divisor", "do_thumbnail", "do_align_long_axis")


def read_preprocessor(path: Path, otherwise: View | None = None) -> tuple[View, Scaling]:
    """Return the evaluation view and the scaling that the file describes.

    `otherwise` is the view that is taken where the file's own is one that this reader does not know.
    """
    record = _read(path)
    inner = record.get("image_processor")  # where text and image processors share a file
    record = inner if isinstance(inner, dict) else record
    unsaid = [more for name, more in UNSAID.items() if _kind(record).startswith(name)]
    record = {**(unsaid[0] if unsaid else {}), **record}
    _check_beyond(record, path)
    try:
        scaling = _scaling(record)
        return _view(record, path), scaling
    except ConfigInvalid:
        if otherwise is None:
            raise
        return otherwise, scaling
    except (TypeError, ValueError) as error:
        raise DataInvalid(
            f"{path} holds a value of the wrong kind ({str(error).splitlines()[0]})",
            fix="correct the file, or take another revision of it",
            field="preprocessor",
        ) from error


def _kind(record: dict[str, Any]) -> str:
    return str(record.get("image_processor_type") or record.get("feature_extractor_type") or "")


def _check_beyond(record: dict[str, Any], path: Path) -> None:
    """Refuse what changes the pixels in a way that neither a view nor a scaling can express."""
    for name in BEYOND_A_VIEW:
        if record.get(name):
            raise DataInvalid(
                f"{path} asks for {name}, which a bundle's view and scaling cannot express",
                fix="export the model to ONNX with that step inside, and wrap the file",
                field=name,
                value=str(record[name]),
            )


def _view(record: dict[str, Any], path: Path) -> View:
    kind, share = _kind(record), record.get("crop_pct")  # ConvNeXt's and PoolFormer's way to say a crop
    short_side = kind.startswith(SHORT_SIDE) or bool(share)
    resized = _sides(record.get("size"), short_side=short_side) if record.get("do_resize", True) else None
    interpolation = RESAMPLE.get(record.get("resample", 3))
    if resized is None or interpolation is None:
        raise _unknown(path, "resize rule")
    if record.get("do_center_crop", "crop_size" in record):
        return _cropped(record, resized, interpolation, path)
    if share and (len(resized) == 2 or resized[0] < UNCROPPED):
        return View(size=_square(resized, path), crop=float(share), fit="cover", interpolation=interpolation)
    if len(resized) == 2 or share:
        size = _square(resized, path)
        return View(size=size, fit="squash", interpolation=interpolation)
    raise _unknown(path, "rule that leaves pictures of different shapes (shortest_edge without a crop)")


def _cropped(record: dict[str, Any], resized: tuple[int, ...], interpolation: Interpolation, path: Path) -> View:
    """Return the view of a central crop: of the short side, or of a picture that was squashed before."""
    cropped = _sides(record.get("crop_size"), short_side=False)
    if cropped is None:
        raise _unknown(path, "crop without a size")
    size, whole = _square(cropped, path), _square(resized, path)
    if len(resized) == 1 and record.get("crop_pct"):
        whole = int(whole / float(record["crop_pct"]))
    elif len(resized) == 1 and _kind(record).startswith(LEVIT):
        whole = int(whole * LEVITS_SHARE)
    if size > whole:
        raise _unknown(path, f"crop of {size} from {whole} pixels")
    return View(
        size=size, crop=size / whole, fit="squash" if len(resized) == 2 else "cover", interpolation=interpolation
    )


def _scaling(record: dict[str, Any]) -> Scaling:
    factor = float(record.get("rescale_factor", 1 / 255)) if record.get("do_rescale", True) else 1.0
    default = Scaling()
    mean, std = tuple(record.get("image_mean", default.mean)), tuple(record.get("image_std", default.std))
    offset = float(bool(record.get("rescale_offset")))  # what EfficientNet subtracts before it normalises
    divided = bool(record.get("do_normalize", True)) + bool(record.get("include_top"))  # how often
    mean = mean if record.get("do_normalize", True) else (0.0,) * len(std)
    return Scaling(factor, tuple(m + offset for m in mean), tuple(s**divided for s in std))


def _sides(size: Any, *, short_side: bool) -> tuple[int, ...] | None:
    """Return the short side, or height and width; `short_side`: what one number means."""
    if isinstance(size, int):
        return (size,) if short_side else (size, size)
    sides = {name: side for name, side in size.items() if side is not None} if isinstance(size, dict) else {}
    if sides.keys() == {"shortest_edge"}:
        return (int(sides["shortest_edge"]),)
    if sides.keys() == {"height", "width"}:
        return int(sides["height"]), int(sides["width"])
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
