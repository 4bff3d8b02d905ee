"""Which hosts and addresses images may be fetched from: none that is not public, whatever name it goes by."""

from __future__ import annotations

import asyncio
import ipaddress
import socket

PORTS = {"http": 80, "https": 443}
_WRAPS_IPV4 = [ipaddress.ip_network(net) for net in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")]


def routable(address: str) -> bool:
    """Whether an address belongs to the public internet, and does not hide another one inside it."""
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return routable(str(ip.ipv4_mapped))
        if any(ip in net for net in _WRAPS_IPV4):
            return False
    return ip.is_global and not ip.is_multicast


async def addresses(host: str, port: int) -> list[str]:
    """What the system's resolver says; nothing for a name it does not know."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(entry[4][0]) for entry in found]


def matches(allowed: str, host: str, port: int) -> bool:
    """`example.org`, `*.example.org` or `*` on the usual ports; `example.org:8080` on that one."""
    name, _, wanted = allowed.partition(":")
    if str(port) != wanted and not (not wanted and port in PORTS.values()):
        return False
    return name in ("*", host) or (name.startswith("*.") and host.endswith(name[1:]))
