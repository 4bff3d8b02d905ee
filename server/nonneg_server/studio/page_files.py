"""The page's own files, and the policy under which a browser shows them: nothing is loaded from anywhere else."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nonneg_core.errors import NotFound

FOLDER = Path(__file__).parent / "page"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


@dataclass(frozen=True)
class Asset:
    """One file as it is sent."""

    content: bytes
    type: str
    tag: str  # ETag


@cache
def assets() -> dict[str, Asset]:
    """Return every file of the page, by name: what is not in this table is not served."""
    found = {}
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in TYPES:
            content = path.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            found[path.name] = Asset(content, TYPES[path.suffix], tag)
    return found


def asset(name: str) -> Asset:
    """Return one of them; NotFound for any other name."""
    found = assets().get(name)
    if found is None:
        raise NotFound(f"the page has no file {name[:40]!r}", fix="open /", field="file", value=name[:40])
    return found
