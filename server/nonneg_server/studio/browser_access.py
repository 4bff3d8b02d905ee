"""The studio's page in a browser: its files, the policy under which they are shown, and whether it is on at all."""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.requests import Request

from nonneg_core.errors import Forbidden, NotFound
from nonneg_server.http.origin import is_loopback
from nonneg_server.startup.server_settings import Settings

STUDIO_HEADER = "x-nonneg-studio"  # forms cannot send it, and pages of other sites must ask before they may


def is_on(settings: Settings) -> bool:
    """Return whether this server has a studio: on loopback always, elsewhere where it was asked for."""
    return settings.studio or is_loopback(settings.host)


def check_meant(request: Request) -> None:
    """Raise Forbidden where a request that keeps something was not sent by a program or the page."""
    if STUDIO_HEADER not in request.headers:
        raise Forbidden(
            "the request has no X-Nonneg-Studio", fix="send the header X-Nonneg-Studio: 1", field=STUDIO_HEADER
        )


# The page's own files, and the policy under which a browser shows them: nothing is loaded from anywhere else.

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
    table = {}
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in TYPES:
            content = path.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            table[path.name] = Asset(content, TYPES[path.suffix], tag)
    return table


def asset(name: str) -> Asset:
    """Return one of them; NotFound for any other name."""
    entry = assets().get(name)
    if entry is None:
        raise NotFound(f"the page has no file {name[:40]!r}", fix="open /", field="file", value=name[:40])
    return entry
