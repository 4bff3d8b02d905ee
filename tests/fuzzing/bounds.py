"""What no input may exceed, whatever it is."""

from __future__ import annotations

import re

LEAKS = re.compile(
    r"0x[0-9a-f]{6,}|/(usr|home|root|tmp|opt)/|site-packages|\.py\b|\.so\b|BytesIO|object at|PIL\.|"
    r"libtiff|libjpeg|libpng|libwebp|libheif|Errno|decoder error|Traceback|binascii|orjson|IDNA|"
    r"codec can|Incorrect padding|base64-encoded|magic string|pickle",
    re.IGNORECASE,
)  # a library's own words, an address in memory, a path of ours
TYPES = ("image_unreadable", "image_unsupported", "image_too_large")  # what a bad image may be
SLACK = 48 * 2**20  # bytes: what the allocator and decoders' threads take beside an image's price
SERVED = 10.0  # seconds of a core that an answer takes
ANSWERED = 100.0  # seconds until it has come, whatever else the machine does


class Broken(Exception):
    """An input broke a bound; the message says which."""
