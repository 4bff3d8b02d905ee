"""Images as JSON carries them: base64, a data URI or a URL, bare or wrapped in the objects other APIs use."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from nonneg_core.errors import ImageTooLarge, ImageUnreadable, NonnegError, ParameterInvalid, TooManyImages
from nonneg_server.engine.encoded import Encoded
from nonneg_server.engine.texts import Text


@dataclass(frozen=True, slots=True)
class Limits:
    """How many images a request may have, and how many bytes each of them."""

    images: int
    bytes: int


@dataclass(frozen=True)
class Link:
    """An image that is still to be fetched."""

    url: str
    field: str


Incoming = bytes | Link | Text | NonnegError  # an image, where it is, or the error that stands in its place
ReadyImage = bytes | Image.Image | Text | Encoded | NonnegError  # the same, with nothing left to fetch or to look up

_BREAKS = str.maketrans("", "", "\r\n")


def images_from(entries: Sequence[Any], field: str, limits: Limits) -> list[Incoming]:
    """Return what a list of images means; counted before any of them is looked at."""
    check_count(len(entries), limits.images, field)
    return [image_from(entry, f"{field}[{i}]", limits) for i, entry in enumerate(entries)]


def check_count(count: int, most: int, field: str = "images") -> None:
    """Refuse a request without an image, or of more than the server takes."""
    if count == 0:
        raise ParameterInvalid(f"the request holds no {_one(field)}", fix="send at least one", field=field, value=0)
    if count > most:
        raise TooManyImages(
            f"the request holds {count} {_one(field)}s, the limit is {most}",
            fix="send several requests, or raise --max-images",
            field="max_images",
            value=count,
            limit=most,
        )


def _one(field: str) -> str:
    return "text" if field == "texts" else "image"


def within(size: int, limits: Limits) -> ImageTooLarge | None:
    """Return the error of an image of so many bytes, if they are too many."""
    if size <= limits.bytes:
        return None
    return ImageTooLarge(
        f"the image has {size} bytes, the limit is {limits.bytes}",
        fix="send it smaller, or raise --max-image-bytes",
        field="max_image_bytes",
        value=size,
        limit=limits.bytes,
    )


def sized(image: Incoming | ReadyImage, limits: Limits) -> Incoming | ReadyImage:
    """Return the image, or what is wrong with its size."""
    return (within(len(image), limits) or image) if isinstance(image, bytes) else image


def image_from(entry: Any, field: str, limits: Limits) -> Incoming:
    """Return what one entry of a list of images means."""
    text = unwrapped(entry)
    if not isinstance(text, str):
        kind = type(entry).__name__
        return ParameterInvalid(
            f"{field} is not text ({kind})", fix="send base64 or a data URI", field=field, value=kind
        )
    if text[:8].lower().startswith(("http://", "https://")):
        return Link(text, field)
    if text[:5].lower() == "data:":
        head, comma, text = text.partition(",")
        if not comma or not head.lower().endswith(";base64"):
            return ImageUnreadable(
                f"{field} is a data URI without base64",
                fix="write data:image/jpeg;base64,…",
                field=field,
                value=head[:100],
            )
    return within(len(text) * 3 // 4 - 2, limits) or _decoded(text, field)  # before there are that many bytes


def unwrapped(entry: Any) -> Any:
    """Return the text inside {"image": …}, {"image_url": {"url": …}}, {"image_base64": …} and their kin."""
    while isinstance(entry, dict):
        inner = {key: value for key, value in entry.items() if key not in ("type", "detail")}
        if len(inner) != 1 or next(iter(inner)) not in ("image", "image_url", "image_base64", "url", "bytes"):
            return None
        entry = next(iter(inner.values()))
    return entry


def _decoded(text: str, field: str) -> bytes | NonnegError:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        pass
    try:
        return base64.b64decode(text.translate(_BREAKS), validate=True)  # `base64 photo.jpg` breaks its lines
    except (binascii.Error, ValueError):
        return ImageUnreadable(
            f"{field} is not base64",
            fix="encode the file's bytes with base64; this server reads images, not text",
            field=field,
            value=text[:40],
        )
