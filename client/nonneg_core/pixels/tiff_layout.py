"""TIFFs whose numbers have no defined white, or that would be read wrongly: refused by name."""

import io
import struct
from typing import Any

from PIL.TiffImagePlugin import (
    BITSPERSAMPLE,
    IMAGEWIDTH,
    PHOTOMETRIC_INTERPRETATION,
    PLANAR_CONFIGURATION,
    SAMPLEFORMAT,
    ImageFileDirectory_v2,
)

from nonneg_core.errors import ImageUnsupported

_UNSIGNED, _SIGNED, _FLOAT, _VOID = 1, 2, 3, 4
_FORMATS = {_SIGNED: "signed numbers", _FLOAT: "floating-point numbers", 5: "complex numbers", 6: "complex numbers"}
_WHITE_IS_ZERO, _PLANES = 0, 2


def check_layout(data: bytes) -> None:
    """Refuse a TIFF whose value of white is unknown, or that would be read wrongly; the rest the decoder refuses."""
    tags = _tags(data)
    if tags is not None and (odd := _oddity(tags)) is not None:
        raise unsupported(odd)


def unsupported(what: str) -> ImageUnsupported:
    """Return the error for a TIFF whose numbers have no defined white."""
    return ImageUnsupported(
        f"a TIFF of {what} is not read here", fix="convert it to 8 bits a channel, or send a PNG or JPEG", value=what
    )


def has_header(data: bytes) -> bool:
    """Return whether the bytes hold the header of a picture, readable or not."""
    tags = _tags(data)
    return tags is not None and IMAGEWIDTH in tags


def _oddity(tags: dict[int, Any]) -> str | None:
    formats, bits = _numbers(tags, SAMPLEFORMAT, _UNSIGNED), _numbers(tags, BITSPERSAMPLE, 1)
    known = next((_FORMATS[kind] for kind in formats if kind in _FORMATS), None)
    if known is not None:
        return known
    if max(bits) > 16:
        return f"{max(bits)} bits a channel"
    if max(bits) == 16 and _numbers(tags, PLANAR_CONFIGURATION, 1)[0] == _PLANES and len(bits) > 1:
        return "16 bits a channel in separate planes"
    if max(bits) == 16 and _numbers(tags, PHOTOMETRIC_INTERPRETATION, 1)[0] == _WHITE_IS_ZERO:
        return "16 bits in which zero is white"
    return None


def _tags(data: bytes) -> dict[int, Any] | None:
    """Return the first page's header; None where it is broken."""
    file = io.BytesIO(data)
    try:
        big = data[2:3] == b"+" or data[3:4] == b"+"
        directory = ImageFileDirectory_v2(file.read(16 if big else 8))
        file.seek(directory.next)
        directory.load(file)
        numbers = (IMAGEWIDTH, BITSPERSAMPLE, SAMPLEFORMAT, PLANAR_CONFIGURATION, PHOTOMETRIC_INTERPRETATION)
        return {tag: directory[tag] for tag in numbers if tag in directory}
    except (OSError, ValueError, SyntaxError, LookupError, TypeError, OverflowError, struct.error, Warning):
        return None


def _numbers(tags: dict[int, Any], tag: int, default: int) -> tuple[int, ...]:
    entry = tags.get(tag, default)
    numbers = entry if isinstance(entry, tuple) else (entry,)
    return tuple(number for number in numbers if isinstance(number, int)) or (default,)
