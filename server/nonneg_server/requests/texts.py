"""Texts among the inputs of a request: told apart from images, and looked up where a model has a lexicon."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from nonneg_core.errors import NonnegError, ParameterInvalid
from nonneg_runtime.bundle import Bundle
from nonneg_runtime.words.text_vector import vector_of
from nonneg_server.engine.encoded import Encoded
from nonneg_server.engine.texts import Text
from nonneg_server.requests.images import Incoming, Limits, check_count, image_from

_LINK = re.compile(r"data:|https?://", re.IGNORECASE)
_BASE64 = re.compile(r"\s*[A-Za-z0-9+/]{40}")  # longer than any word


def texts_from(entries: Sequence[Any], field: str, limits: Limits, *, truncate: bool = False) -> list[Incoming]:
    """Return what a list of texts means."""
    check_count(len(entries), limits.images, field)
    return [text_from(entry, f"{field}[{i}]", truncate=truncate) for i, entry in enumerate(entries)]


def text_from(entry: Any, field: str, *, truncate: bool = False) -> Incoming:
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


def understood(bundle: Bundle, text: Text, dimensions: int) -> Encoded | NonnegError:
    """Return a text's vector by the words that the model knows, as if it had been encoded; or what is wrong with it.

    dimensions: the fewest that it is cut to.
    """
    try:
        found = vector_of(bundle, text.text, truncate=text.truncate, dimensions=dimensions)
        return Encoded(found.vector, 0.0, 0.0, 0.0)
    except ParameterInvalid as error:
        error.field = text.field
        return error
