"""The bytes of one image: read, fetched, or written from pixels in memory."""

from __future__ import annotations

import io
from typing import Any

from nonneg_core.errors import DataInvalid

FETCH_LIMIT = 64 * 2**20
FETCH_SECONDS = 20.0


def fetch(url: str) -> bytes:
    """Return the bytes behind a URL, fetched by this process (the server is never asked to)."""
    import httpx

    data = bytearray()
    try:
        with httpx.stream("GET", url, follow_redirects=True, timeout=FETCH_SECONDS) as response:
            if response.status_code != 200:
                raise DataInvalid(f"{url} answers {response.status_code}", fix="check the address", value=url)
            for chunk in response.iter_bytes():
                data += chunk
                if len(data) > FETCH_LIMIT:
                    raise DataInvalid(f"{url} is larger than {FETCH_LIMIT} bytes", fix="download it yourself")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise DataInvalid(f"{url} cannot be fetched ({error})", fix="check the address", value=url) from error
    return bytes(data)


def lossless(image: Any) -> bytes:
    """Return a PIL image as an upright PNG, so that the server sees the same pixels; the fastest compression."""
    from nonneg_core.pixels.decode import upright, upright_rgb

    # A PNG would lose the orientation that a camera wrote down, and has no CMYK, floats or other spaces of colour.
    image = upright(image) if image.mode in ("L", "LA", "RGB", "RGBA", "I;16", "P", "1") else upright_rgb(image)
    buffer = io.BytesIO()
    try:
        image.save(buffer, format="PNG", compress_level=1)
    except (OSError, ValueError, SyntaxError) as error:
        raise DataInvalid(f"this PIL image cannot be written as PNG ({error})", fix="check the image") from error
    return buffer.getvalue()


def downscaled(data: bytes, side: int) -> bytes:
    """Return the image shrunk so that its short side is `side`, as JPEG: less to send, nearly the same vector."""
    from nonneg_core.pixels.decode import decode

    image = decode(data)
    if min(image.size) <= side:
        return data
    from PIL import Image

    scale = side / min(image.size)
    width, height = (max(1, round(length * scale)) for length in image.size)
    buffer = io.BytesIO()
    image.resize((width, height), Image.Resampling.BICUBIC, reducing_gap=3).save(buffer, format="JPEG", quality=95)
    return buffer.getvalue()
