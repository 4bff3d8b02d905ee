"""KServe's input tensors as images: files in BYTES, pixels in UINT8, or texts in BYTES; in JSON or binary."""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any

import numpy as np
from PIL import Image

from nonneg_core.errors import ImageTooLarge, NonnegError, ParameterInvalid, RequestInvalid
from nonneg_server.api.kserve.schemas import Tensor
from nonneg_server.requests.images import Incoming, Limits, ReadyImage, check_count, within
from nonneg_server.requests.texts import text_from

IMAGE, PIXELS, TEXT = "image", "pixels", "text"
DEEPEST = 5  # [batch][height][width][channel], and a look that finds nothing more to flatten


def photos(tensor: Tensor, tail: bytes, limits: Limits, max_pixels: int) -> list[Incoming | ReadyImage]:
    """Return the images of one tensor; `tail` is what follows the JSON."""
    size = tensor.parameters.get("binary_data_size")
    if set(tensor.parameters) - {"binary_data_size"}:
        raise ParameterInvalid(
            "inputs[0].parameters has unknown names", fix="known: binary_data_size", field="inputs[0]"
        )
    if size is not None and (size != len(tail) or tensor.data is not None):
        raise RequestInvalid(
            f"binary_data_size={size!r} but {len(tail)} bytes follow the JSON",
            fix="send the whole tensor, and only it",
            field="inputs[0].parameters.binary_data_size",
            value=len(tail),
        )
    if size is None and tail:
        raise RequestInvalid(
            f"{len(tail)} bytes follow the JSON",
            fix="declare them with binary_data_size",
            field="body",
            value=len(tail),
        )
    if tensor.shape:
        check_count(tensor.shape[0] if tensor.name == PIXELS else math.prod(tensor.shape), limits.images, "inputs[0]")
    if (tensor.name, tensor.datatype) == (IMAGE, "BYTES"):
        if size is not None:
            found: list[Incoming | ReadyImage] = list(_split(tail, limits.images))
        else:
            found = [_bytes(entry, limits) for entry in _flat(tensor.data, limits.images)]
        if math.prod(tensor.shape) != len(found):
            raise _mismatch(tensor, f"{len(found)} images")
        return found
    if (tensor.name, tensor.datatype) == (TEXT, "BYTES"):
        entries = _flat(tensor.data, limits.images) if size is None else _split(tail, limits.images)
        if math.prod(tensor.shape) != len(entries):
            raise _mismatch(tensor, f"{len(entries)} texts")
        return [_text(entry, f"inputs[0][{i}]") for i, entry in enumerate(entries)]
    if (tensor.name, tensor.datatype) == (PIXELS, "UINT8"):
        return list(_pixels(tensor, tail if size is not None else None, max_pixels))
    raise ParameterInvalid(
        f"input {tensor.name!r} of {tensor.datatype} is not known",
        fix=f"send {IMAGE} (BYTES, files), {PIXELS} (UINT8, [batch, height, width, 3]) or {TEXT} (BYTES, UTF-8)",
        field="inputs[0]",
        value=tensor.name,
    )


def _split(tail: bytes, most: int) -> list[bytes]:
    """Read BYTES in binary: each element is its length in four little-endian bytes, then itself."""
    found: list[bytes] = []
    at = 0
    while at < len(tail):
        end = at + 4 + int.from_bytes(tail[at : at + 4], "little")
        if at + 4 > len(tail) or end > len(tail):
            raise RequestInvalid(
                "the BYTES tensor breaks off", fix="write each length as four little-endian bytes", field="inputs[0]"
            )
        found.append(tail[at + 4 : end])
        check_count(len(found), most, "inputs[0]")
        at = end
    return found


def _bytes(entry: Any, limits: Limits) -> bytes | NonnegError:
    """Read BYTES in JSON, which cannot be raw: the image is in base64."""
    if isinstance(entry, str) and (too_large := within(len(entry) * 3 // 4 - 2, limits)):
        return too_large
    try:
        return base64.b64decode(entry, validate=True)
    except (binascii.Error, ValueError, TypeError):
        return ParameterInvalid(
            "a BYTES element in JSON is not base64",
            fix="encode the file with base64, or send binary",
            field="inputs[0]",
        )


def _text(entry: Any, field: str) -> Incoming:
    """Read BYTES of text as UTF-8; in JSON they are strings."""
    try:
        return text_from(entry.decode() if isinstance(entry, bytes) else entry, field)
    except UnicodeDecodeError as error:
        return ParameterInvalid(
            f"{field} is not UTF-8: see byte {error.start}", fix="encode the text as UTF-8", field=field
        )


def _flat(data: Any, most: int | None = None) -> list[Any]:
    """Return the leaves of a list of lists of …, as deep as a batch of pixels goes."""
    if not isinstance(data, list):
        raise ParameterInvalid("inputs[0] has no data", fix="send a list, or binary_data_size", field="inputs[0].data")
    entries: list[Any] = data
    for _ in range(DEEPEST):
        if most is not None:
            check_count(len(entries), most, "inputs[0]")
        if not any(isinstance(entry, list) for entry in entries):
            return entries
        entries = [leaf for entry in entries for leaf in (entry if isinstance(entry, list) else [entry])]
    raise ParameterInvalid("inputs[0].data is nested too deep", fix="send a flat list", field="inputs[0].data")


def _pixels(tensor: Tensor, tail: bytes | None, max_pixels: int) -> list[Image.Image]:
    shape = tensor.shape
    if len(shape) != 4 or shape[3] != 3 or 0 in shape:
        raise _mismatch(tensor, "[batch, height, width, 3]")
    if shape[1] * shape[2] > max_pixels:
        raise ImageTooLarge(
            f"the images have {shape[2]} x {shape[1]} pixels, more than the limit of {max_pixels}",
            fix=f"send at most {max_pixels} pixels, or raise --max-pixels",
            field="max_pixels",
            value=shape[1] * shape[2],
            limit=max_pixels,
        )
    try:
        flat = np.frombuffer(tail, np.uint8) if tail is not None else np.array(_flat(tensor.data), dtype=np.uint8)
        pixels = flat.reshape(shape)
    except (ValueError, OverflowError, TypeError):
        raise _mismatch(tensor, "what the data holds: whole numbers of 0 to 255") from None
    return [Image.fromarray(image) for image in pixels]


def _mismatch(tensor: Tensor, wanted: str) -> ParameterInvalid:
    return ParameterInvalid(
        f"{tensor.name} has the shape {tensor.shape}, which is not {wanted}",
        fix="send shape and data that agree",
        field="inputs[0].shape",
    )
