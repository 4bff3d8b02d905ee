"""What a browser may reach: the page's own files and their policy, and the names it may call this server by.

A site can let its own name lead to this machine's address ("rebinding"); its page would then be of the same origin as
the studio. The browser sends the name in Host all the same, so what was not meant is refused.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.requests import Request

from nonneg_core.errors import Forbidden, NotFound
from nonneg_server.startup.server_settings import Settings

LOOPBACK = ("localhost", "127.0.0.1", "::1")
STUDIO_HEADER = "x-nonneg-studio"  # forms cannot send it, and pages of other sites must ask before they may


def is_loopback(host: str) -> bool:
    """Return whether what listens on this address is reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_on(settings: Settings) -> bool:
    """Return whether this server has a studio: on loopback always, elsewhere where it was asked for."""
    return settings.studio or is_loopback(settings.host)


def is_ours(named: str, host: str, others: Sequence[str] = ()) -> bool:
    """Return whether a Host header names this server: its own address, or a name it was started for.

    On other than loopback every bare address is one: only names can be made to lead elsewhere.
    """
    name = _without_port(named).lower()
    if name in (host.lower(), *(other.lower() for other in others)):
        return True
    if is_loopback(host):
        return name in LOOPBACK
    return _is_address(name)


def check_host(request: Request) -> None:
    """Raise Forbidden for a request by another name, or from another site's page."""
    settings = request.app.state.settings
    named = request.headers.get("host", "")
    if not is_ours(named, settings.host, settings.studio_host):
        raise Forbidden(
            f"this server was not started for the host {named[:100]!r}",
            fix="open the address it printed, or start it with --studio-host NAME",
            field="host",
            value=named[:100],
        )
    if request.headers.get("sec-fetch-site") == "cross-site":
        raise Forbidden("a page of another site asked", fix="ask from the studio's own page", field="sec-fetch-site")


def check_meant(request: Request) -> None:
    """Raise Forbidden where a request that keeps something was not sent by a program or the page."""
    if STUDIO_HEADER not in request.headers:
        raise Forbidden(
            "the request has no X-Nonneg-Studio", fix="send the header X-Nonneg-Studio: 1", field=STUDIO_HEADER
        )


def _without_port(named: str) -> str:
    if named.startswith("["):
        return named[1:].partition("]")[0]
    return named.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


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
