"""Images and texts as JSON carries them: base64, data URIs, URLs, or words, bare or wrapped in objects."""

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from nonneg_core.errors import ImageTooLarge, ImageUnreadable, NonnegError, ParameterInvalid, TooManyImages
from nonneg_server.engine.jobs import Encoded, Text


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


def each(
    entries: Sequence[Any], field: str, limits: Limits, read: Callable[..., Incoming], **options: Any
) -> list[Incoming]:
    """Return what each entry of a list means to `read`; they are counted before any of them is looked at."""
    check_count(len(entries), limits.images, field)
    return [read(entry, f"{field}[{i}]", limits, **options) for i, entry in enumerate(entries)]


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


def sized(image: bytes, limits: Limits) -> Incoming:
    """Return a file's bytes, or the error where they are too many."""
    return within(len(image), limits) or image


def encoded_within(text: str, limits: Limits) -> ImageTooLarge | None:
    """Return the error of an image in base64, if its bytes will be too many; characters are counted only then."""
    if len(text) * 3 // 4 <= limits.bytes:
        return None
    return within((len(text) - text.count("\n") - text.count("\r")) * 3 // 4 - text[-4:].count("="), limits)


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
    return encoded_within(text, limits) or _decoded(text, field)


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


# Texts among the inputs of a request: told apart from images.

_LINK = re.compile(r"data:|https?://", re.IGNORECASE)
_BASE64 = re.compile(r"\s*[A-Za-z0-9+/]{40}")  # longer than any word


def text_from(entry: Any, field: str, _: Limits | None = None, *, truncate: bool = False) -> Incoming:
    """Return what one entry of a list of texts means."""
    if isinstance(entry, str):
        return Text(entry, field, truncate)
    kind = type(entry).__name__
    return ParameterInvalid(f"{field} is not text ({kind})", fix='send "a dog"', field=field, value=kind)


def input_from(entry: Any, field: str, limits: Limits, *, truncate: bool = False) -> Incoming:
    """Return an image or a text, by its key or its looks: a data URI, a URL and what can only be base64 are images."""
    if isinstance(entry, dict) and "text" in entry and set(entry) <= {"type", "text"}:
        return text_from(entry["text"], f"{field}.text", truncate=truncate)
    if isinstance(entry, str) and not is_encoded(entry):
        return Text(entry, field, truncate)
    return image_from(entry, field, limits)


def content_from(entry: Any, field: str, limits: Limits, *, truncate: bool = False) -> Incoming:
    """Return the one image or text of {"content": [{"type": "image_url", "image_url": {"url": …}}]}."""
    content = entry.get("content") if isinstance(entry, dict) and len(entry) == 1 else None
    if not isinstance(content, list) or len(content) != 1:
        return ParameterInvalid(
            f"{field} does not hold exactly one image or text, and nothing else",
            fix='send {"content": [{"type": "image_url", "image_url": {"url": "data:image/…"}}]}',
            field=field,
        )
    return input_from(content[0], f"{field}.content[0]", limits, truncate=truncate)


def is_encoded(text: str) -> bool:
    """Return whether a string can only be an image: a data URI, a URL, or base64, which has no space for 40 letters."""
    return bool(_LINK.match(text) or _BASE64.match(text))
