"""Images as JSON carries them: base64 or a data URI."""

from __future__ import annotations

import base64
import binascii

from nonneg_client.errors import ImageUnreadable, NonnegError, ParameterInvalid


def image_bytes(text: object, field: str) -> bytes | NonnegError:
    """The bytes behind one entry, or the error that takes its place."""
    if not isinstance(text, str):
        kind = type(text).__name__
        return ParameterInvalid(
            f"{field} is no text ({kind})", fix="send base64 or a data URI", field=field, value=kind
        )
    if text.startswith(("http://", "https://")):
        return ParameterInvalid(
            f"{field} is a URL and this server fetches none",
            fix="send the image itself, as base64",
            field=field,
            value=text[:200],
        )
    if text.startswith("data:"):
        head, comma, text = text.partition(",")
        if not comma or not head.endswith(";base64"):
            return ImageUnreadable(
                f"{field} is a data URI without base64",
                fix="write data:image/jpeg;base64,…",
                field=field,
                value=head[:100],
            )
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        return ImageUnreadable(
            f"{field} is not base64 ({error})", fix="encode the file's bytes with base64", field=field, value=text[:40]
        )
