"""Where a request comes from: the name it gives this server, and the page that a browser sends it for.

A site can let its own name lead to this machine's address ("rebinding"); its page would then be of the same origin as
the server. The browser sends the name in Host all the same, so what was not meant is refused. Any page can also send
forms and fetch pictures without asking first: of these the browser says where they come from, in Origin or
Sec-Fetch-Site. Programs send neither.
"""

import ipaddress
from collections.abc import Iterable, Sequence

from starlette.types import Scope

from nonneg_core.errors import Forbidden
from nonneg_server.api.kserve_routes import repository_router
from nonneg_server.api.studio_routes import STUDIO

LOOPBACK = ("localhost", "127.0.0.1", "::1")
OWN_PAGE = ("", "none", "same-origin")  # values of Sec-Fetch-Site; none: typed into the address bar


class OriginCheck:
    """Refuses what other sites' pages send.

    On loopback without keys every route is checked, elsewhere the studio alone. Models are managed by programs.
    """

    def __init__(
        self, host: str, names: Sequence[str] = (), origins: Sequence[str] = (), *, has_keys: bool = False
    ) -> None:
        self._host = host
        self._names = [name.lower() for name in names]  # by which it may be asked, too
        self._origins = frozenset(origins)  # whose pages may ask
        self._everywhere = is_loopback(host) and not has_keys

    def refusal(self, scope: Scope) -> Forbidden | None:
        """Return the error of a request that a page of another site may have sent."""
        headers, path = dict(scope["headers"]), scope["path"]
        origin, site = _text(headers, b"origin"), _text(headers, b"sec-fetch-site")
        if path.startswith(repository_router.prefix) and (origin or site) and origin not in self._origins:
            return _foreign("a browser asked, and models are managed by programs", origin, site)
        of_studio = path.startswith(STUDIO.prefixes)  # which no other site may see, --cors-origin or not
        if not (self._everywhere or of_studio):
            return None
        if not of_studio and origin and ("*" in self._origins or origin in self._origins):
            return None
        named = _text(headers, b"host")
        if (named or of_studio) and not is_ours(named, self._host, self._names):
            return _unknown_name(named)
        name = origin.partition("://")[2]  # with its port: another port is another program
        if origin and site != "same-origin":
            own = name == named or _without_port(name) in self._names
        else:
            own = site in OWN_PAGE or _is_followed_link(scope["method"], headers)
        return None if own else _foreign("a page of another site asked", origin, site)


def client_behind(
    client: tuple[str, int] | None,
    headers: Iterable[tuple[bytes, bytes]],
    proxies: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network],
) -> tuple[str, int] | None:
    """Return who asks: behind proxies that are trusted the last of X-Forwarded-For that is not one of them.

    What stands before that was written by the client, and may be anything.
    """
    hops = b",".join(value for name, value in headers if name == b"x-forwarded-for").decode("latin-1")
    for hop in reversed(hops.split(",")):
        address = None if client is None else _address(client[0])
        if address is None or not any(address in network for network in proxies):
            return client
        forwarded = _address(hop.strip()) or _address(_without_port(hop.strip()))
        if forwarded is None:  # what stands before it is not believed either
            return client
        client = str(forwarded), 0
    return client


def is_loopback(host: str) -> bool:
    """Return whether what listens on this address is reached from this machine alone."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def is_ours(named: str, host: str, others: Sequence[str] = ()) -> bool:
    """Return whether a Host header names this server: its own address, or a name it was started for.

    On other than loopback every bare address is one: only names can be made to lead elsewhere.
    """
    name = _without_port(named).lower()
    if name in (host.lower(), *(other.lower() for other in others)):
        return True
    if is_loopback(host):
        return name in LOOPBACK
    return _address(name) is not None


def _is_followed_link(method: str, headers: dict[bytes, bytes]) -> bool:
    """Return whether someone followed a link to a page of ours: what opens it does not see it."""
    kind = _text(headers, b"sec-fetch-mode"), _text(headers, b"sec-fetch-dest")
    return method == "GET" and kind == ("navigate", "document")


def _text(headers: dict[bytes, bytes], name: bytes) -> str:
    return headers.get(name, b"").decode("latin-1").strip()


def _without_port(named: str) -> str:
    if named.startswith("["):
        return named[1:].partition("]")[0]
    return named.partition(":")[0]


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address  # as a socket for both shows the clients of IPv4


def _unknown_name(named: str) -> Forbidden:
    return Forbidden(
        f"this server was not started for the host {named[:100]!r}",
        fix="ask by the address it printed, or start it with --allow-host NAME",
        field="host",
        value=named[:100],
    )


def _foreign(message: str, origin: str, site: str) -> Forbidden:
    return Forbidden(
        message,
        fix="ask from a program, or start the server with --cors-origin ORIGIN",
        field="origin" if origin else "sec-fetch-site",
        value=(origin or site)[:100],
    )
