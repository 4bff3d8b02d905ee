"""Which names a browser may call this server by: a page of another site must not read a person's photos.

A site can let its own name lead to this machine's address ("rebinding"); its page would then be of the same origin as
the studio. The browser sends the name in Host all the same, so what was not meant is refused.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from starlette.requests import Request

from nonneg_core.errors import Forbidden
from nonneg_server.settings import Settings

LOOPBACK = ("localhost", "127.0.0.1", "::1")
HEADER = "x-nonneg-studio"  # forms cannot send it, and pages of other sites must ask before they may


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
    if HEADER not in request.headers:
        raise Forbidden("the request has no X-Nonneg-Studio", fix="send the header X-Nonneg-Studio: 1", field=HEADER)


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
